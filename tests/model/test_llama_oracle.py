#!/usr/bin/env python3
"""The forward pass against a slow one in numpy that was written from the formulas
(tests/oracle/llama_forward.py): the trained test model and its published ids, and random models of
random dimensions, which are written here too. Prints TAP.

usage: test_llama_oracle.py DUMP_LOGITS [MODELS]      PKV_SEED=n repeats a failure
"""
import json
import os
import pathlib
import random
import struct
import subprocess
import sys
import tempfile

TESTS = pathlib.Path(__file__).resolve().parent.parent
sys.path += [str(TESTS / "tools"), str(TESTS / "oracle")]
import tap_main  # noqa: E402

DEBIANS_PYTHON = "/usr/bin/python3"  # where numpy is when another python3 comes first
try:
    import numpy as np
    from llama_forward import Llama
except ImportError:
    np = None
    if sys.executable != DEBIANS_PYTHON and subprocess.run(
            [DEBIANS_PYTHON, "-c", "import numpy"], stderr=subprocess.DEVNULL, check=False).returncode == 0:
        os.execv(DEBIANS_PYTHON, [DEBIANS_PYTHON, *sys.argv])

DUMP_LOGITS = pathlib.Path(sys.argv[1]).resolve()
N_MODELS = int(sys.argv[2]) if len(sys.argv) > 2 else 30
BOUND = 1e-4  # of the range of the logits


def need_numpy():
    if np is None:
        raise tap_main.Skip("numpy is missing (Debian: python3-numpy)")


def ours(folder, ids, vocab):
    with tempfile.NamedTemporaryFile() as out:
        done = subprocess.run([DUMP_LOGITS, out.name, folder, *map(str, ids)], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, timeout=60, check=False)
        if done.returncode != 0:
            raise AssertionError(f"exit {done.returncode}: {done.stdout.decode()}")
        return np.fromfile(out.name, np.float32).reshape(len(ids), vocab)


def compare(folder, ids, what):
    """Returns the logits of the oracle."""
    want = Llama(folder).logits(ids)
    got = ours(folder, ids, want.shape[1])
    off = np.abs(got - want).max(-1) / (want.max(-1) - want.min(-1))
    if not (off <= BOUND).all():
        first = int(np.argmin(off <= BOUND))
        raise AssertionError(f"{what}: position {first}: logits {off[first]:.1e} of their range apart")
    return want


def test_trained_model():
    need_numpy()
    shared = pathlib.Path(os.environ.get("PKV_SHARED") or os.environ.get("PKV_SHARED_DEFAULT") or "../shared")
    folder = shared / "models" / "stories260K"
    if not (folder / "model.safetensors").exists():
        raise tap_main.Skip(f"{folder} is missing")
    ids = json.loads((folder / "golden.json").read_text())["greedy_ids"]
    logits = compare(folder, ids, "stories260K")
    if list(logits.argmax(-1)[:-1]) != ids[1:]:
        raise AssertionError("the oracle does not write the published text")


# ------------------------------------------------------------------ random models

def draw_rope(dice):
    return dice.choice([
        {"rope_type": "default"},
        {"rope_type": "linear", "factor": dice.choice([2.0, 5.5])},
        {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
         "original_max_position_embeddings": dice.choice([32, 256])},
        {"rope_type": "yarn", "factor": dice.choice([2.0, 16.0]),
         "original_max_position_embeddings": dice.choice([128, 512])},
    ])


def draw_config(dice):
    kv_heads = dice.choice([1, 2, 3])
    return {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama",
        "vocab_size": dice.randint(3, 300), "hidden_size": dice.randint(3, 70),
        "intermediate_size": dice.randint(1, 150), "num_hidden_layers": dice.randint(1, 3),
        "num_attention_heads": kv_heads * dice.choice([1, 2, 3, 4, 7]), "num_key_value_heads": kv_heads,
        "head_dim": 8 * dice.randint(1, 8), "max_position_embeddings": 1024,
        "rms_norm_eps": dice.choice([1e-6, 1e-5, 0.1]), "hidden_act": "silu",
        "tie_word_embeddings": dice.random() < 0.5,
        "rope_parameters": {**draw_rope(dice), "rope_theta": dice.choice([100.0, 10000.0, 500000.0])},
    }


def shapes(c):
    hidden, ffn, dim = c["hidden_size"], c["intermediate_size"], c["head_dim"]
    yield "model.embed_tokens", (c["vocab_size"], hidden)
    yield "model.norm", (hidden,)
    if not c["tie_word_embeddings"]:
        yield "lm_head", (c["vocab_size"], hidden)
    for layer in range(c["num_hidden_layers"]):
        for name, shape in {
                "input_layernorm": (hidden,), "post_attention_layernorm": (hidden,),
                "self_attn.q_proj": (c["num_attention_heads"] * dim, hidden),
                "self_attn.k_proj": (c["num_key_value_heads"] * dim, hidden),
                "self_attn.v_proj": (c["num_key_value_heads"] * dim, hidden),
                "self_attn.o_proj": (hidden, c["num_attention_heads"] * dim),
                "mlp.gate_proj": (ffn, hidden), "mlp.up_proj": (ffn, hidden),
                "mlp.down_proj": (hidden, ffn)}.items():
            yield f"model.layers.{layer}.{name}", shape


def write_model(folder, config, rng, dtype):
    header, data = {}, b""
    for name, shape in shapes(config):
        values = rng.normal(1.0 if len(shape) == 1 else 0.0, 0.2, shape).astype(np.float32)
        raw = values.view(np.uint32) >> 16 if dtype == "BF16" else values  # cut off, not rounded
        raw = raw.astype({"BF16": "<u2", "F16": "<f2", "F32": "<f4"}[dtype]).tobytes()
        header[f"{name}.weight"] = {"dtype": dtype, "shape": list(shape),
                                    "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + data)
    (folder / "config.json").write_text(json.dumps(config))


def test_random_models():
    need_numpy()
    first = int(os.environ.get("PKV_SEED", "1"))
    for seed in range(first, first + N_MODELS):
        dice = random.Random(seed)
        config = draw_config(dice)
        dtype = dice.choice(["F32", "BF16", "F16"])
        ids = [dice.randrange(config["vocab_size"]) for _ in range(dice.randint(1, 200))]
        with tempfile.TemporaryDirectory() as folder:
            write_model(pathlib.Path(folder), config, np.random.default_rng(seed), dtype)
            compare(folder, ids, f"PKV_SEED={seed} {dtype} {json.dumps(config)}")


if __name__ == "__main__":
    sys.exit(tap_main.run_tests(globals()))
