#!/usr/bin/env python3
"""A Llama forward pass in double precision, from the formulas, with numpy alone: the second opinion.

It reads config.json and *.safetensors itself and knows nothing of the library: no blocks, no cache,
no batches; the whole text in one matrix. Rotary pairs are half a head apart, as these files have them.

usage: llama_forward.py FOLDER ID...     prints the most likely next id behind each id
"""
import json
import math
import pathlib
import struct
import sys

import numpy as np

NUMPY_TYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2"}


def read_safetensors(path):
    raw = path.read_bytes()
    size = struct.unpack("<Q", raw[:8])[0]
    tensors = {}
    for name, entry in json.loads(raw[8:8 + size]).items():
        if name == "__metadata__":
            continue
        begin, end = (8 + size + at for at in entry["data_offsets"])
        flat = np.frombuffer(raw[begin:end], NUMPY_TYPES[entry["dtype"]])
        if entry["dtype"] == "BF16":  # the upper half of a float32
            flat = (flat.astype("<u4") << 16).view("<f4")
        tensors[name] = flat.astype(np.float64).reshape(entry["shape"])
    return tensors


def frequencies(rope, theta, dim):
    """Of each pair of a head, per position; and the factor on cos and sin."""
    kind = rope.get("rope_type", rope.get("type", "default"))
    f = theta ** (-np.arange(0, dim, 2) / dim)
    if kind == "default":
        return f, 1.0
    factor = rope["factor"]
    if kind == "linear":
        return f / factor, 1.0
    turns = rope["original_max_position_embeddings"] * f / (2 * math.pi)  # over the trained length
    if kind == "llama3":
        low, high = rope["low_freq_factor"], rope["high_freq_factor"]
        keep = np.clip((turns - low) / (high - low), 0, 1)
        return f * (keep + (1 - keep) / factor), 1.0
    if kind == "yarn":  # arXiv 2309.00071; the ramp goes over indices of pairs, rounded outwards
        def pair(n):
            return dim / 2 * math.log(turns[0] / n) / math.log(theta)
        low = max(math.floor(pair(rope.get("beta_fast", 32))), 0)
        high = min(math.ceil(pair(rope.get("beta_slow", 1))), dim - 1)
        ramp = np.clip((np.arange(dim // 2) - low) / max(high - low, 1e-3), 0, 1)
        return f * (1 - ramp + ramp / factor), rope.get("attention_factor", 0.1 * math.log(factor) + 1)
    raise ValueError(f"rope of type {kind}")


class Llama:
    def __init__(self, folder):
        folder = pathlib.Path(folder)
        self.config = c = json.loads((folder / "config.json").read_text())
        self.tensors = {}
        for path in sorted(folder.glob("*.safetensors")):
            self.tensors.update(read_safetensors(path))
        self.heads = c["num_attention_heads"]
        self.kv_heads = c.get("num_key_value_heads") or self.heads
        self.dim = c.get("head_dim") or c["hidden_size"] // self.heads
        rope = c.get("rope_parameters") or c.get("rope_scaling") or {}
        theta = rope.get("rope_theta", c.get("rope_theta", 10000.0))
        self.inv_freq, self.amplitude = frequencies(rope, theta, self.dim)

    def weight(self, name, layer=None):
        return self.tensors[f"{name}.weight" if layer is None else f"model.layers.{layer}.{name}.weight"]

    def norm(self, x, weight):
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + self.config["rms_norm_eps"]) * weight

    def turn(self, x):
        """x: [heads, tokens, dim]"""
        angles = np.outer(np.arange(x.shape[1]), self.inv_freq)
        cos, sin = self.amplitude * np.cos(angles), self.amplitude * np.sin(angles)
        a, b = x[..., :self.dim // 2], x[..., self.dim // 2:]
        return np.concatenate((a * cos - b * sin, b * cos + a * sin), -1)

    def attention(self, h, layer):
        n = len(h)

        def heads(name, count):
            return (h @ self.weight(f"self_attn.{name}", layer).T).reshape(n, count, self.dim).swapaxes(0, 1)

        q, k = self.turn(heads("q_proj", self.heads)), self.turn(heads("k_proj", self.kv_heads))
        v, out = heads("v_proj", self.kv_heads), []
        for head in range(self.heads):
            shared = head // (self.heads // self.kv_heads)
            z = q[head] @ k[shared].T / math.sqrt(self.dim)
            z[np.triu_indices(n, 1)] = -np.inf  # what comes later is not seen
            p = np.exp(z - z.max(-1, keepdims=True))
            out.append(p / p.sum(-1, keepdims=True) @ v[shared])
        return np.concatenate(out, -1) @ self.weight("self_attn.o_proj", layer).T

    def ffn(self, h, layer):
        gate, up = (h @ self.weight(f"mlp.{name}", layer).T for name in ("gate_proj", "up_proj"))
        return gate / (1 + np.exp(-gate)) * up @ self.weight("mlp.down_proj", layer).T

    def logits(self, ids):
        """[tokens, vocabulary]"""
        x = self.weight("model.embed_tokens")[list(ids)]
        for layer in range(self.config["num_hidden_layers"]):
            x = x + self.attention(self.norm(x, self.weight("input_layernorm", layer)), layer)
            x = x + self.ffn(self.norm(x, self.weight("post_attention_layernorm", layer)), layer)
        head = "lm_head" if "lm_head.weight" in self.tensors else "model.embed_tokens"
        return self.norm(x, self.weight("model.norm")) @ self.weight(head).T


if __name__ == "__main__":
    print(*Llama(sys.argv[1]).logits(map(int, sys.argv[2:])).argmax(-1))
