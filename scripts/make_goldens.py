#!/usr/bin/env python3
"""Expected values of small random models of the Llama family, by torch and transformers.

Run by hand where both are installed (pip install torch transformers numpy); no build and no test
needs them. Writes one file for each model, which tests/model/test_model_golden.c reads. Weights are in
none of them: each tensor comes from Philox4x32-10, keyed by its name, here as in the test.

Everything is computed in double precision with plain attention, also where transformers would take
float32 (angles, norms, softmax): the formulas are theirs, the rounding is not. Rotary variants that
depend on the length in use are taken in the form for the configured context, once.

usage: make_goldens.py [--out FOLDER] [NAME...]
"""
import argparse
import hashlib
import json
import math
import pathlib
import random
import sys
import types

import numpy as np
import torch
import transformers
from transformers import modeling_rope_utils
from transformers.models.llama import modeling_llama

DEVIATION = 0.2  # 0.02 gives flat logits, and margins that prove nothing
PROBE_POSITIONS = [*range(8), *range(98, 104), *range(4994, 5004)]
PROBE_ROWS = [0, 1, 7, 10, 20, 23]  # positions 0, 1, 7, 100, 5000, 5003
N_GREEDY = 32
SURE = 3e-3  # of the range of the logits: the least margin of a greedy id that tests compare
N_BEAMS, BEAM_NEW = 4, 16
PENALTIES = [-1.0, 0.0, 1.0, 2.0]


def model(heads, kv_heads, head_dim=None, hidden=64, layers=2, vocab=256, context=8192, tied=False,
          theta=10000.0, rope=None, eos=2, generation_eos=None, beams=False):
    """`rope` is in the spelling of rope_parameters, without the theta. transformers wants `hidden` to
    be a multiple of `heads`, also where head_dim is something else."""
    return dict(heads=heads, kv_heads=kv_heads, head_dim=head_dim, hidden=hidden, layers=layers,
                vocab=vocab, context=context, tied=tied, theta=theta, rope=rope or {"rope_type": "default"}, eos=eos,
                generation_eos=generation_eos, beams=beams)


def yarn(**more):
    return {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 2048, **more}


def longrope(**more):
    return {"rope_type": "longrope", "original_max_position_embeddings": 2048,
            "short_factor": [1.0, 1.0, 1.05, 1.1, 1.15, 1.2, 1.3, 1.5],
            "long_factor": [1.0, 1.1, 1.4, 2.0, 2.9, 3.5, 4.0, 4.5], **more}


MODELS = {
    "llama2": model(4, 2, layers=3, beams=True),
    "llama2_tied": model(6, 2, head_dim=16, hidden=60, vocab=320, tied=True, eos=[2, 7], generation_eos=[7, 2, 9]),
    "llama3": model(4, 1, head_dim=64, layers=3, vocab=384, context=131072, theta=500000.0, eos=[301, 308],
                    generation_eos=[301, 308, 309], beams=True,
                    rope={"rope_type": "llama3", "factor": 32.0, "low_freq_factor": 1.0,
                          "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}),
    "linear": model(4, 1, rope={"rope_type": "linear", "factor": 4.0}),
    "dynamic": model(4, 2, rope={"rope_type": "dynamic", "factor": 2.0,
                                 "original_max_position_embeddings": 2048}),
    "yarn": model(4, 2, head_dim=32, rope=yarn()),
    "yarn_factor": model(4, 2, rope=yarn(attention_factor=1.3, beta_fast=16.0, beta_slow=2.0)),
    "yarn_mscale": model(4, 2, head_dim=32, rope=yarn(mscale=0.707, mscale_all_dim=1.0)),
    "longrope": model(4, 2, rope=longrope()),
    "longrope_factor": model(4, 2, rope=longrope(factor=16.0)),  # not the ratio of the lengths
    **{f"heads_{h}_{kv}": model(h, kv, head_dim=16, hidden=hidden, layers=1)
       for h, kv, hidden in ((8, 4, 64), (28, 4, 56), (9, 3, 72), (48, 2, 48), (8, 1, 64))},
}


# ------------------------------------------------------------------ weights

def philox(seed, n_words):
    """Words of the stream with this key whose counter begins at 0."""
    low = np.uint64(0xFFFFFFFF)
    c = [np.zeros((n_words + 3) // 4, np.uint64) for _ in range(4)]
    c[0] += np.arange(len(c[0]), dtype=np.uint64)
    key = [seed & 0xFFFFFFFF, seed >> 32]
    for _ in range(10):
        p0, p1 = np.uint64(0xD2511F53) * c[0], np.uint64(0xCD9E8D57) * c[2]
        c = [p1 >> np.uint64(32) ^ c[1] ^ np.uint64(key[0]), p1 & low,
             p0 >> np.uint64(32) ^ c[3] ^ np.uint64(key[1]), p0 & low]
        key = [(key[0] + 0x9E3779B9) & 0xFFFFFFFF, (key[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return np.stack(c, axis=1).reshape(-1)[:n_words].astype(np.uint32)


def to_bf16(values):
    """Upper halves of float32, to nearest even."""
    bits = values.astype(np.float32).view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)


def draw(name, shape):
    """Uniform with the deviation, around 1 for norms and around 0 for matrices: bfloat16 as words."""
    seed = int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "little")
    words = philox(seed, math.prod(shape)).view(np.int32).astype(np.float64)
    mean = 1.0 if len(shape) == 1 else 0.0
    return to_bf16(mean + words * (DEVIATION * 1.7320508075688772 * 2.0 ** -31)).reshape(shape)


def fill(net):
    """Returns the SHA-256 over names and words, in order of name."""
    digest = hashlib.sha256()
    for name, parameter in sorted(net.named_parameters()):
        words = draw(name, tuple(parameter.shape))
        floats = (words.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
        parameter.data = torch.from_numpy(floats)
        digest.update(name.encode() + words.astype("<u2").tobytes())
    return digest.hexdigest()


# ------------------------------------------------------------------ configuration

def config_new(m):
    """As transformers 5 writes it."""
    config = {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": m["vocab"],
        "hidden_size": m["hidden"], "intermediate_size": 96, "num_hidden_layers": m["layers"],
        "num_attention_heads": m["heads"], "num_key_value_heads": m["kv_heads"],
        "max_position_embeddings": m["context"], "rms_norm_eps": 1e-5, "hidden_act": "silu",
        "tie_word_embeddings": m["tied"], "attention_bias": False, "mlp_bias": False,
        "initializer_range": DEVIATION, "bos_token_id": 1, "eos_token_id": m["eos"], "dtype": "float32",
        "rope_parameters": {**m["rope"], "rope_theta": m["theta"]},
    }
    if m["head_dim"]:
        config["head_dim"] = m["head_dim"]
    return config


def config_old(m):
    """As transformers 4 wrote it: type before llama3 came, rope_type from then on, and longrope's
    original length beside the object."""
    config = config_new(m)
    del config["rope_parameters"], config["dtype"]
    config.update(rope_theta=m["theta"], torch_dtype="float32", rope_scaling=None)
    rope = dict(m["rope"])
    kind = rope.pop("rope_type")
    if kind == "default":
        return config
    if kind == "longrope":
        key = "original_max_position_embeddings"
        config[key] = rope.pop(key)
    config["rope_scaling"] = {"rope_type" if kind == "llama3" else "type": kind, **rope}
    return config


def hf_config(config, m):
    """transformers calls the original context of the dynamic kind max_position_embeddings, and takes
    the length in use from the positions."""
    config = json.loads(json.dumps(config))
    if m["rope"]["rope_type"] == "dynamic":
        config["max_position_embeddings"] = m["rope"]["original_max_position_embeddings"]
    return transformers.LlamaConfig(attn_implementation="eager", **config)


# ------------------------------------------------------------------ double precision

class DoubleTorch:
    """torch, where float32 is float64."""

    def __getattr__(self, name):
        return torch.float64 if name in ("float", "float32") else getattr(torch, name)


def in_double(function, *args):
    """What a function of transformers returns where neither a type nor a method rounds to float32."""
    there = torch.Tensor.float
    modeling_llama.torch = modeling_rope_utils.torch = DoubleTorch()
    torch.Tensor.float = torch.Tensor.double
    try:
        return function(*args)
    finally:
        modeling_llama.torch = modeling_rope_utils.torch = torch
        torch.Tensor.float = there


def frequencies(config, limit):
    kind = config.rope_parameters["rope_type"]
    if kind == "default":
        return modeling_llama.LlamaRotaryEmbedding.compute_default_rope_parameters(config)
    return modeling_rope_utils.ROPE_INIT_FUNCTIONS[kind](config, seq_len=limit)


def checked_frequencies(m):
    """In double; equal for both spellings, and those of float32 but for its rounding."""
    plain = [frequencies(hf_config(c(m), m), m["context"]) for c in (config_new, config_old)]
    inv_freq, amplitude = in_double(frequencies, hf_config(config_new(m), m), m["context"])
    assert inv_freq.dtype == torch.float64
    for rounded, same in plain:
        assert rounded.dtype == torch.float32 and same == amplitude
        torch.testing.assert_close(rounded.double(), inv_freq, rtol=1e-6, atol=0)
    return inv_freq, amplitude


def build(m):
    """The model in double, its frequencies, the digest of its weights."""
    inv_freq, amplitude = checked_frequencies(m)
    net = transformers.LlamaForCausalLM(hf_config(config_new(m), m)).eval()
    digest = fill(net)

    def rotary(self, x, position_ids):
        angles = position_ids[..., None].double() * inv_freq
        angles = torch.cat((angles, angles), dim=-1)
        return angles.cos() * amplitude, angles.sin() * amplitude

    net.model.rotary_emb.forward = types.MethodType(rotary, net.model.rotary_emb)
    return net, inv_freq, amplitude, digest


def run(net, ids, positions):
    """Logits, and the hidden states after the embedding and after each layer."""
    hidden = []

    def keep(_module, _inputs, output):
        hidden.append((output[0] if isinstance(output, tuple) else output)[0])

    hooks = [part.register_forward_hook(keep) for part in (net.model.embed_tokens, *net.model.layers)]
    ones = torch.ones(1, len(ids), dtype=torch.long)  # without it a gap in positions starts a sequence
    with torch.no_grad():
        logits = in_double(lambda: net(
            input_ids=torch.tensor([ids]), position_ids=torch.tensor([positions]), attention_mask=ones,
            use_cache=False).logits[0])
    for hook in hooks:
        hook.remove()
    assert logits.dtype == torch.float64 and all(h.dtype == torch.float64 for h in hidden)
    return logits, hidden


# ------------------------------------------------------------------ what is stored

def digits(values):
    return [float(f"{v:.8g}") for v in values]


def probe(net, ids):
    logits, hidden = run(net, ids, PROBE_POSITIONS)
    return {
        "ids": ids, "positions": PROBE_POSITIONS, "rows": PROBE_ROWS,
        "hidden": [[digits(h[row].tolist()) for row in PROBE_ROWS] for h in hidden],
        "logits": [digits(logits[row].tolist()) for row in PROBE_ROWS],
    }


def greedy(net, prompt):
    """None where some id is not sure."""
    ids, margins, ranges = list(prompt), [], []
    for _ in range(N_GREEDY):
        row = run(net, ids, list(range(len(ids))))[0][-1]
        best = torch.topk(row, 2).values
        margins.append((best[0] - best[1]).item())
        ranges.append((row.max() - row.min()).item())
        ids.append(int(row.argmax()))
    if any(m < SURE * r for m, r in zip(margins, ranges)):
        return None
    return {"prompt": prompt, "ids": ids[len(prompt):], "margins": digits(margins), "ranges": digits(ranges)}


def search(net, prompt, penalty, early, ends):
    with torch.no_grad():
        out = in_double(lambda: net.generate(
            torch.tensor([prompt]), attention_mask=torch.ones(1, len(prompt), dtype=torch.long),
            do_sample=False, num_beams=N_BEAMS, num_return_sequences=N_BEAMS, max_new_tokens=BEAM_NEW,
            length_penalty=penalty, early_stopping=early, eos_token_id=ends, pad_token_id=0,
            return_dict_in_generate=True, output_scores=True))
    found = []
    for ids in out.sequences[:, len(prompt):].tolist():
        end = next((i + 1 for i, token in enumerate(ids) if token in ends), len(ids))
        found.append(ids[:end])
    return {"length_penalty": penalty, "early_stopping": early, "ids": found,
            "scores": digits(out.sequences_scores.tolist())}


class OlderRule:
    """Up to version 4.49, a search without early stopping went on while the best of all continuations
    could still become a result, also when that one had just ended; since then, while the best that
    goes on could. The results we keep are those on which both rules agree."""

    def __init__(self, net):
        self.net = net

    def __enter__(self):
        ranked, rule, best = self.net._get_top_k_continuations, self.net._check_early_stop_heuristic, []

        def rank(*args, **kwargs):
            found = ranked(*args, **kwargs)
            best[:] = [found[0].max().reshape(1, 1)]
            return found

        def older_rule(**kwargs):
            kwargs["running_beam_scores"] = best[0]
            return rule(**kwargs)

        self.net._get_top_k_continuations, self.net._check_early_stop_heuristic = rank, older_rule

    def __exit__(self, *_):
        del self.net._get_top_k_continuations, self.net._check_early_stop_heuristic


def beams(net, prompt, vocab):
    """All penalties with such ends that penalties and stopping rules differ in what they find, and
    that the rule without early stopping is what ends a search with penalty 1."""
    dice = random.Random(5)
    while True:
        ends = sorted(dice.sample(range(vocab), dice.randint(10, 60)))
        plain, early = (search(net, prompt, 1.0, stop, ends)["ids"] for stop in (False, True))
        if plain == early or max(map(len, plain)) == BEAM_NEW:
            continue
        with OlderRule(net):
            older = {p: search(net, prompt, p, False, ends) for p in PENALTIES}
        searches = [search(net, prompt, p, stop, ends) for p in PENALTIES for stop in (False, True)]
        agree = all(s["early_stopping"] or s == older[s["length_penalty"]] for s in searches)
        if agree and len({json.dumps(s["ids"]) for s in searches}) >= 4:
            return {"prompt": prompt, "max_new": BEAM_NEW, "end_ids": ends, "searches": searches}


def golden(name):
    m = MODELS[name]
    dice = random.Random(name)
    ids = dice.sample(range(m["vocab"]), len(PROBE_POSITIONS))  # equal tokens would hide angles
    net, inv_freq, amplitude, digest = build(m)
    found = None
    while not found:
        prompt = [1] + [dice.randrange(m["vocab"]) for _ in range(11)]
        found = greedy(net, prompt)
    out = {
        "made_by": "scripts/make_goldens.py",
        "versions": {"torch": torch.__version__.split("+")[0], "transformers": transformers.__version__,
                     "python": sys.version.split()[0]},
        "weights_sha256": digest,
        "config": config_new(m), "config_old": config_old(m),
        "generation_config": {"eos_token_id": m["generation_eos"]} if m["generation_eos"] else None,
        "inv_freq": inv_freq.tolist(), "rope_amplitude": amplitude,
        "probe": probe(net, ids),
        "greedy": found,
        "beams": beams(net, prompt, m["vocab"]) if m["beams"] else None,
    }
    return out


def text(out):
    """Readable, but one line for each list of numbers."""
    def lines(value, indent):
        pad = " " * indent
        if isinstance(value, dict) and value:
            inner = [f'{pad} {json.dumps(k)}: {lines(v, indent + 1)}' for k, v in value.items()]
            return "{\n" + ",\n".join(inner) + f"\n{pad}}}"
        if isinstance(value, list) and value and isinstance(value[0], (list, dict)):
            return "[\n" + ",\n".join(f"{pad} {lines(v, indent + 1)}" for v in value) + f"\n{pad}]"
        return json.dumps(value, separators=(",", ":"))
    return lines(out, 0) + "\n"


def main():
    here = pathlib.Path(__file__).resolve().parent.parent
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=pathlib.Path, default=here / "tests" / "model" / "golden")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(MODELS)}; default: all")
    args = parser.parse_args()
    torch.manual_seed(1)
    args.out.mkdir(parents=True, exist_ok=True)
    for name in args.names or MODELS:
        out = golden(name)
        path = args.out / f"{name}.json"
        path.write_text(text(out))
        print(f"{path}: {path.stat().st_size} bytes, smallest margin {min(out['greedy']['margins']):.4f}", flush=True)


if __name__ == "__main__":
    main()
