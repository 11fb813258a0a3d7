#!/usr/bin/env python3
"""Keys, values and queries of a real model, for `check_kernels --accuracy --dump FILE`.

Runs stories260K (a Llama of 260,032 parameters; $PKV_SHARED/models/stories260K, default ../shared)
in plain Python on the text it writes itself, greedily from its start token, and writes what its
attention sees: keys and queries after rotation, values as they are.

File, little endian:
    8 bytes   "PKVDUMP1"
    5 uint32  layers, tokens, query heads, kv heads, dim
    float32   per layer: K [token][kv head][dim], V likewise, Q [token][query head][dim]
Nothing before, between or after.

usage: dump_kv.py [--tokens N] [--check] OUT
--check compares the text with golden.json, made by an independent implementation.
"""
import argparse
import array
import json
import math
import operator
import os
import pathlib
import struct
import sys

START = 1


def dot(a, b):
    return sum(map(operator.mul, a, b))


def product(rows, x):
    return [dot(row, x) for row in rows]


def normed(x, weights):
    scale = 1 / math.sqrt(dot(x, x) / len(x) + 1e-5)
    return [a * scale * w for a, w in zip(x, weights)]


class Model:
    """The weights of a llama2.c file, version 0: seven int32, then float32 tensors."""

    def __init__(self, path):
        data = pathlib.Path(path).read_bytes()
        (self.dim, self.hidden, self.layers, self.heads, self.kv_heads, self.vocab,
         self.max_tokens) = struct.unpack_from("<7i", data)
        self.head_dim = self.dim // self.heads
        floats = array.array("f", data[28:])
        if sys.byteorder == "big":
            floats.byteswap()
        self.floats, self.at = floats.tolist(), 0
        kv = self.kv_heads * self.head_dim
        self.embedding = self.rows(self.vocab, self.dim)
        self.att_norm = self.rows(self.layers, self.dim)
        self.wq = [self.rows(self.dim, self.dim) for _ in range(self.layers)]
        self.wk = [self.rows(kv, self.dim) for _ in range(self.layers)]
        self.wv = [self.rows(kv, self.dim) for _ in range(self.layers)]
        self.wo = [self.rows(self.dim, self.dim) for _ in range(self.layers)]
        self.ffn_norm = self.rows(self.layers, self.dim)
        self.w1 = [self.rows(self.hidden, self.dim) for _ in range(self.layers)]
        self.w2 = [self.rows(self.dim, self.hidden) for _ in range(self.layers)]
        self.w3 = [self.rows(self.hidden, self.dim) for _ in range(self.layers)]
        self.last_norm = self.rows(1, self.dim)[0]

    def rows(self, n, width):
        self.at += n * width
        first = self.at - n * width
        return [self.floats[first + i * width:first + (i + 1) * width] for i in range(n)]


class Run:
    def __init__(self, model):
        self.model = model
        self.k = [[] for _ in range(model.layers)]
        self.v = [[] for _ in range(model.layers)]
        self.q = [[] for _ in range(model.layers)]

    def rotated(self, x, pos):
        """Pairs (2d, 2d + 1) of each head, by pos / 10000^(2d / head dim)."""
        out, width = [], self.model.head_dim
        for i in range(0, len(x), 2):
            angle = pos * 10000.0 ** (-(i % width) / width)
            c, s = math.cos(angle), math.sin(angle)
            out += [x[i] * c - x[i + 1] * s, x[i] * s + x[i + 1] * c]
        return out

    def attended(self, layer, q):
        m, out = self.model, []
        d, group = m.head_dim, m.heads // m.kv_heads
        for h in range(m.heads):
            at = h // group * d
            head = q[h * d:(h + 1) * d]
            logits = [dot(head, k[at:at + d]) / math.sqrt(d) for k in self.k[layer]]
            top = max(logits)
            weights = [math.exp(z - top) for z in logits]
            total = sum(weights)
            out += [sum(w * v[at + i] for w, v in zip(weights, self.v[layer])) / total
                    for i in range(d)]
        return out

    def step(self, token, pos):
        """The logits after one more token."""
        m = self.model
        x = m.embedding[token]
        for layer in range(m.layers):
            y = normed(x, m.att_norm[layer])
            q = self.rotated(product(m.wq[layer], y), pos)
            self.q[layer].append(q)
            self.k[layer].append(self.rotated(product(m.wk[layer], y), pos))
            self.v[layer].append(product(m.wv[layer], y))
            x = list(map(operator.add, x, product(m.wo[layer], self.attended(layer, q))))
            y = normed(x, m.ffn_norm[layer])
            gate = [a / (1 + math.exp(-a)) * b
                    for a, b in zip(product(m.w1[layer], y), product(m.w3[layer], y))]
            x = list(map(operator.add, x, product(m.w2[layer], gate)))
        return product(m.embedding, normed(x, m.last_norm))


def write(run, n_tokens, path):
    m = run.model
    with open(path, "wb") as out:
        out.write(b"PKVDUMP1" + struct.pack("<5I", m.layers, n_tokens, m.heads, m.kv_heads,
                                            m.head_dim))
        for layer in range(m.layers):
            for rows in (run.k[layer], run.v[layer], run.q[layer]):
                for row in rows:
                    out.write(struct.pack(f"<{len(row)}f", *row))


def check(folder, ids, first_logits):
    golden = json.loads((folder / "golden.json").read_text())
    want = golden["greedy_ids"][:len(ids)]
    if ids[:len(want)] != want:
        first = next(i for i, (a, b) in enumerate(zip(ids, want)) if a != b)
        sys.exit(f"dump_kv.py: token {first} is {ids[first]}, golden.json has {want[first]}")
    wanted_logits = golden.get("logits_pos0")
    if wanted_logits:
        off = max(abs(a - b) for a, b in zip(first_logits, wanted_logits))
        if off > 1e-4:
            sys.exit(f"dump_kv.py: the first logits are off by {off}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("out")
    args = parser.parse_args()
    folder = pathlib.Path(os.environ.get("PKV_SHARED", "../shared")) / "models/stories260K"
    if not (folder / "stories260K.bin").exists():
        sys.exit(f"dump_kv.py: no model in {folder}; PKV_SHARED names the folder it is in")
    run = Run(Model(folder / "stories260K.bin"))
    if not 1 <= args.tokens <= run.model.max_tokens:
        sys.exit(f"dump_kv.py: 1 .. {run.model.max_tokens} tokens")
    ids, first_logits = [START], None
    for pos in range(args.tokens):
        logits = run.step(ids[-1], pos)
        first_logits = first_logits or logits
        ids.append(max(range(len(logits)), key=logits.__getitem__))
    if args.check:
        check(folder, ids, first_logits)
    write(run, args.tokens, args.out)


if __name__ == "__main__":
    main()
