#!/usr/bin/env python3
"""pkv-info model, tokenize and kv-size as a user meets them: text, JSON, exit codes, wrong command
lines and broken files. Figures come from the formulas, not from the program. Prints TAP.

usage: test_info_verbs.py PROGRAM
"""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import tap_main

PROGRAM = pathlib.Path(sys.argv[1]).resolve()
SHARED = pathlib.Path(os.environ.get("PKV_SHARED") or os.environ.get("PKV_SHARED_DEFAULT", "../shared"))
STORIES = SHARED / "models/stories260K"
DTYPES = ["f32", "f16", "bf16", "e4m3", "e5m2", "int8", "int4"]
LLAMA_3_8B = {
    "architectures": ["LlamaForCausalLM"], "hidden_act": "silu", "hidden_size": 4096,
    "intermediate_size": 14336, "max_position_embeddings": 8192, "num_attention_heads": 32,
    "num_hidden_layers": 32, "num_key_value_heads": 8, "tie_word_embeddings": False,
    "torch_dtype": "bfloat16", "vocab_size": 128256, "license": "llama3",
}


def run(*args, text=None, binary=False):
    done = subprocess.run([PROGRAM, *map(str, args)], input=text, capture_output=True, text=not binary,
                          timeout=120)
    return done.returncode, done.stdout, done.stderr


def expect(condition, what):
    if not condition:
        raise AssertionError(what)


def refused(status, words, *args, text=None):
    code, out, err = run(*args, text=text)
    expect(code == status and words in err,
           f"{args}: exit {code}, said {err!r}, expected {status} and {words!r}")
    expect(err.startswith("pkv-info: ") and err.count("\n") == 1, f"{args}: not one line: {err!r}")
    expect(out == "", f"{args}: printed {out!r}")


def said(*args, text=None):
    code, out, err = run(*args, text=text)
    expect(code == 0 and err == "", f"{args}: exit {code}, said {err!r}")
    return out


def answer(*args, text=None):
    return json.loads(said(*args, "--json", text=text))


def stories(name=""):
    path = STORIES / name
    if not path.exists():
        raise tap_main.Skip(f"SKIPPED: {path} is missing")
    return path


class Folder:
    """A fresh folder with the files of a model."""

    def __enter__(self):
        self.path = pathlib.Path(tempfile.mkdtemp(prefix="pkv_info_"))
        return self.path

    def __exit__(self, *_):
        shutil.rmtree(self.path)


# ---------------------------------------------------------------- model


def test_model_text():
    path = stories("stories260K.bin")
    out = said("model", path)
    for line in ("heads         8 of 8, 4 of K and V (GQA, 2:1)", "ids           bos 1, eos 1 2",
                 "layer 4               45,440   178 KiB      90,624       256                128 B",
                 "total                260,032  1016 KiB     518,656     1,280                640 B"):
        expect(line in out.splitlines(), f"no line {line!r} in\n{out}")
    expect(all(line == line.rstrip() for line in out.splitlines()), "blanks at the end of a line")
    for word in ("model ", "dimensions ", "arithmetic ", "positions ", "weights ", "memory ", "digest ",
                 "licence ", "tokenizer "):
        expect(any(line.startswith(word) for line in out.splitlines()), f"no line begins with {word!r}")


def test_model_json():
    stories()
    for name, form, eos in (("stories260K.bin", "llama2.c", [1, 2]), ("stories260K.gguf", "gguf", [2]),
                            ("", "safetensors", [2])):
        info = answer("model", stories(name), "--kv-dtype", "f32")
        config = info["config"]
        expect(info["format"] == form and config["eos"] == eos and config["bos"] == 1, f"{name}: {info}")
        expect((config["layers"], config["hidden"], config["kv_heads"]) == (5, 64, 4), f"{name}: {config}")
        expect(info["parameters"] == 260032 and info["weight_bytes"] == 4 * 260032, f"{name}: sizes")
        expect(len(info["digest"]) == 64 and "tensors" not in info, f"{name}: digest, tensors")
        parts = info["parts"]
        expect([p["part"] for p in parts] == ["embedding", *(f"layer {k}" for k in range(5)), "last norm",
                                              "head (embedding)"], f"{name}: parts {parts}")
        layer = 2 * 64 * 64 + 2 * 32 * 64 + 3 * 172 * 64
        expect(parts[1] == {"part": "layer 0", "parameters": layer + 128, "bytes": 4 * (layer + 128),
                            "flop_per_token": 2 * layer, "flop_per_key": 4 * 64,
                            "kv_bytes_per_token": 256.0}, f"{name}: {parts[1]}")
        expect(parts[-1]["flop_per_token"] == 2 * 512 * 64 and parts[-1]["parameters"] == 0, f"{name}: head")
        for key in ("parameters", "bytes", "flop_per_token", "flop_per_key", "kv_bytes_per_token"):
            expect(info["total"][key] == sum(p[key] for p in parts), f"{name}: sum of {key}")
        expect(info["total"]["kv_bytes_per_token"] == 1280, f"{name}: K and V")
        expect(info["tokenizer"]["ids"] == 512, f"{name}: {info['tokenizer']}")


def test_model_bf16_and_tensors():
    path = stories("stories260K.gguf")
    info = answer("model", path, "--weights-dtype", "bf16", "--tensors")
    expect(info["weights_dtype"] == "bf16", "weights_dtype")
    norms = 11 * 64
    expect(info["weight_bytes"] == 2 * (260032 - norms) + 4 * norms, f"{info['weight_bytes']} bytes")
    expect(sum(p["bytes"] for p in info["parts"]) == info["weight_bytes"], "sum of the parts")
    tensors = {t["name"]: t for t in info["tensors"]}
    expect(len(tensors) == 47 and sum(t["bytes"] for t in info["tensors"]) == 4 * 260032, "all tensors")
    expect(tensors["blk.3.ffn_down.weight"]["dims"] == [64, 172], "dims of ffn_down")
    lines = said("model", path, "--tensors").splitlines()
    expect(sum(line.startswith("blk.") for line in lines) == 45, "lines of tensors")


def test_selftest():
    stories()
    for name in ("stories260K.bin", "stories260K.gguf", ""):
        out = said("model", stories(name), "--selftest")
        expect("255 of 255 ids of golden.json are equal: ok" in out, f"{name}: {out}")
    expect(answer("model", stories(), "--selftest")["selftest"] == {"ok": True, "ids": 255, "equal": 255},
           "JSON of the self-test")


def golden(path, ids):
    (path / "golden.json").write_text(json.dumps({"greedy_ids": ids}), encoding="utf-8")


def test_selftest_that_fails():
    stories()
    ids = json.loads((STORIES / "golden.json").read_text(encoding="utf-8"))["greedy_ids"]
    with Folder() as folder:
        model = folder / "stories260K.bin"
        shutil.copy(STORIES / "stories260K.bin", model)
        refused(5, "--selftest: ", "model", model, "--selftest")
        for bad in ([1], [1, 512], [1, -1], [1, "2"], {}, [1] * 513):
            golden(folder, bad)
            refused(5, "greedy_ids is no list of 2 to 512 ids below 512", "model", model, "--selftest")
        golden(folder, ids[:20] + [7] + ids[21:])
        code, out, err = run("model", model, "--selftest")
        expect(code == 3 and err == f"pkv-info: self-test: id 20 is {ids[20]}, golden.json has 7\n",
               f"exit {code}, {err!r}")
        expect("19 of 255 ids of golden.json are equal, then they differ" in out, out)
        golden(folder, ids[:30])
        expect("29 of 29" in said("model", model, "--selftest"), "a shorter list")
        # Rows of q in another order: the file opens as before, the ids show it.
        damaged = bytearray(model.read_bytes())
        wq = 28 + 4 * (512 * 64 + 5 * 64)  # behind the embedding and the norms of attention
        rows = [damaged[wq + 256 * k:wq + 256 * (k + 1)] for k in range(5 * 64)]
        damaged[wq:wq + 5 * 64 * 256] = b"".join(reversed(rows))
        model.write_bytes(damaged)
        code, _, err = run("model", model, "--selftest")
        expect(code == 3 and "self-test: id " in err, f"damaged: exit {code}, {err!r}")


def test_notes_of_models():
    stories()
    info = answer("model", stories("stories260K.bin"))
    expect(info["notes"] == [], f"notes {info['notes']}")
    tokenizer = SHARED / "tokenizers/mistral/tokenizer.model.v1"
    if tokenizer.exists():
        notes = answer("model", stories("stories260K.bin"), "-t", tokenizer)["notes"]
        expect(any("32000 ids, the model 512" in note for note in notes), f"notes {notes}")
        expect("note          the tokenizer has 32000" in said("model", stories(), "-t", tokenizer), "text")


def test_model_refusals():
    refused(2, "which model?", "model")
    refused(2, "one argument too many", "model", "a", "b")
    refused(2, "unknown option", "model", "--nothing")
    refused(2, "--kv-dtype wants f32, f16", "model", "x", "--kv-dtype", "f8")
    refused(3, "No such file", "model", "/nowhere/model.gguf")
    with Folder() as folder:
        refused(3, "holds no model.safetensors", "model", folder)
        (folder / "a.gguf").write_bytes(b"GGUF\3\0\0\0")
        refused(3, "a.gguf: byte ", "model", folder / "a.gguf")


def test_model_refusals_of_options():
    refused(3, "No such file", "model", stories(), "-t", "/nowhere/tokenizer.json")
    refused(3, "f32 or bf16, not f16", "model", stories(), "--weights-dtype", "f16")


# ---------------------------------------------------------------- tokenize


def tok512(*args, text=None):
    return ["tokenize", "-t", STORIES / "tok512.bin", "--vocab-size", 512, *args]


def test_tokenize():
    stories()
    once = [403, 407, 261, 378]
    got = answer(*tok512("Once upon a time", "--check"))
    expect(got["ids"] == once and got["n_ids"] == 4 and got["n_bytes"] == 16, f"{got}")
    expect(got["round_trip"] is True and got["tokenizer"]["source"] == "llama2.c", f"{got}")
    expect([p["text"] for p in got["pieces"]] == [" Once", " upon", " a", " time"], f"{got['pieces']}")
    got = answer(*tok512("--add-special", "Once"))
    expect(got["ids"] == [1, 403] and got["round_trip"] is None, f"{got}")
    expect(got["pieces"][0]["special"] is True, f"{got}")
    out = said(*tok512("Once upon a time", "--check"))
    expect('403  " Once"' in out, out)
    expect("4 ids, 16 bytes, 16 characters, 4.00 bytes per id; round trip gives the same bytes" in out, out)
    expect(said(*tok512("Once", "--count")) == "1 ids, 4 bytes, 4 characters, 4.00 bytes per id\n", "count")
    expect(answer("tokenize", "-m", STORIES / "stories260K.bin", "-t", STORIES / "tok512.bin",
                  "Once")["ids"] == [403], "-m gives the size of the vocabulary")
    expect(answer("tokenize", "-m", STORIES / "stories260K.gguf", "Once")["ids"] == [403],
           "-m gives the tokenizer")
    for name in ("stories260K.bin", "model.safetensors"):
        expect(answer("tokenize", "-m", STORIES / name, "Once")["ids"] == [403],
               f"the tokenizer beside {name}")
    expect(answer("model", STORIES / "stories260K.bin")["tokenizer"]["source"] == "llama2.c",
           "tok512.bin is the tokenizer of a .bin")


def test_tokenize_input():
    stories()
    text = "Once upon\na time"
    want = answer(*tok512(text))["ids"]
    with Folder() as folder:
        file = folder / "text"
        file.write_text(text, encoding="utf-8")
        expect(answer(*tok512("-f", file))["ids"] == want, "-f FILE")
    expect(answer(*tok512("-f", "-"), text=text)["ids"] == want, "-f -")
    expect(answer(*tok512(), text=text)["ids"] == want, "standard input")
    expect("9 bytes" in said(*tok512("--", "--special")), "-- ends the options")
    expect(answer(*tok512(""), text=text)["n_ids"] == 0, "an empty text")
    expect(said(*tok512("")) == "0 ids, 0 bytes, 0 characters\n", "an empty text")
    got = answer(*tok512("gr\u00fc\u00df"))
    expect((got["n_bytes"], got["n_characters"]) == (6, 4), f"characters {got}")
    long = answer(*tok512(), text="Once upon a time. " * 5000)
    expect(long["n_bytes"] == 90000, "a long text")


def test_tokenize_special():
    stories()
    gguf = ["tokenize", "-t", STORIES / "stories260K.gguf"]
    expect(1 not in answer(*gguf, "<s>x")["ids"], "text is text")
    expect(answer(*gguf, "--special", "<s>x")["ids"][0] == 1, "--special")


def test_decode():
    stories()
    expect(said(*tok512("--ids", "1,403 407,261,378")) == "Once upon a time\n", "ids to text")
    got = answer(*tok512("--ids=1,403"))
    expect(got["text"] == "Once" and got["hex"] == b"Once".hex() and len(got["pieces"]) == 2, f"{got}")
    expect("<s>" in said(*tok512("--ids", "1,403", "--special")), "special tokens are shown")
    expect(said(*tok512("--ids", "")) == "\n", "no ids")
    refused(2, "there is no id 512", *tok512("--ids", "403,512"))
    refused(2, "--ids wants numbers with commas between them, not 'x", *tok512("--ids", "1,x"))
    refused(2, "--ids wants numbers", *tok512("--ids", "-1"))


def test_round_trip_that_fails():
    """Bytes that are no UTF-8 come back as U+FFFD."""
    stories()
    code, out, _ = run(*tok512("--check", "--count"), text=b"a\xff", binary=True)
    expect(code == 3 and b"OTHER bytes" in out, f"exit {code}, {out!r}")


def test_tokenize_refusals():
    refused(2, "which tokenizer?", "tokenize", "text")
    refused(2, "--ids and a text", "tokenize", "-t", "x", "--ids", "1", "text")
    refused(2, "a text and --file", "tokenize", "-t", "x", "-f", "y", "text")
    refused(2, "are for texts", "tokenize", "-t", "x", "--ids", "1", "--check")
    refused(2, "--vocab-size wants a whole number from 1", "tokenize", "-t", "x", "--vocab-size", "0")
    refused(3, "No such file", "tokenize", "-t", "/nowhere", "text")
    refused(3, "No such file", "tokenize", "-m", "/nowhere.gguf", "text")


def test_tokenize_refusals_of_files():
    stories()
    refused(5, "No such file", *tok512("-f", "/nowhere"))
    refused(3, "vocab_size", "tokenize", "-t", STORIES / "tok512.bin", "text")


# ---------------------------------------------------------------- kv-size


def bytes_per_token(layers, kv_heads, dim, dtype):
    bits = {"f32": 32, "f16": 16, "bf16": 16, "int4": 4}.get(dtype, 8)
    scale = {"e4m3": 4, "int8": 4, "int4": 8}.get(dtype, 0)
    return 2 * layers * kv_heads * (dim * bits // 8 + scale)


def rows_of(info, variant):
    return {r["kv_dtype"]: r for r in info["rows"] if r["variant"] == variant}


def test_kv_size_of_a_configuration():
    with Folder() as folder:
        path = folder / "config.json"
        path.write_text(json.dumps(LLAMA_3_8B), encoding="utf-8")
        info = answer("kv-size", path, "--mem", "24GiB", "--reserve", "1GiB", "--activations", "512MiB",
                      "--tokens", 1000, "--bandwidth", "1TB/s")
        folder_info = answer("kv-size", folder, "--mem", "24GiB", "--reserve", "1GiB", "--activations",
                             "512MiB", "--tokens", 1000, "--bandwidth", "1e12")
        out = said("kv-size", path)
    model, budget = info["model"], info["budget"]
    expect(model["layers"] == 32 and model["parameters"] == 8030261248, f"{model}")
    expect(model["license"] == "llama3", f"{model}")
    weights = 2 * 8030261248
    left = (24 << 30) - weights - (1 << 30) - (512 << 20)
    expect(budget["weight_bytes"] == weights and budget["weights_from"] == "dimensions", f"{budget}")
    expect(budget["kv_bytes"] == left and budget["max_tokens"] == 8192, f"{budget}")
    heads = {"GQA 4:1": 8, "MHA": 32, "MQA": 1}
    for variant, kv_heads in heads.items():
        rows = rows_of(info, variant)
        expect(sorted(rows) == sorted(DTYPES), f"{variant}: {sorted(rows)}")
        for dtype, row in rows.items():
            token = bytes_per_token(32, kv_heads, 128, dtype)
            block = -(-16 * token // 512) * 512
            blocks = left // block
            want = {"bytes_per_token": token, "block_bytes": block, "blocks_per_seq": 63,
                    "seq_bytes": 63 * block, "reserved_bytes": 8192 * token, "blocks": blocks,
                    "usable_tokens": 16 * (blocks - 1), "max_seqs": (blocks - 1) // 63,
                    "max_seqs_reserved": left // (8192 * token), "own": variant == "GQA 4:1"}
            for key, value in want.items():
                expect(row[key] == value, f"{variant} {dtype}: {key} is {row[key]}, expected {value}")
            alone = (weights + 1000 * token) / 1e9
            every = (weights + row["max_seqs"] * 1000 * token) / 1e9
            expect(abs(row["ms_alone"] / alone - 1) < 1e-9, f"{variant} {dtype}: ms_alone")
            if row["max_seqs"]:
                expect(abs(row["ms_all"] / every - 1) < 1e-9, f"{variant} {dtype}: ms_all")
                expect(abs(row["tokens_per_s_all"] / (1000 * row["max_seqs"] / every) - 1) < 1e-9, "rate")
    expect(rows_of(info, "MLA 512+64")["bf16"]["bytes_per_token"] == 32 * 576 * 2, "latent row")
    for key in ("budget", "rows"):
        expect(folder_info[key] == info[key], f"the folder gives other {key}")
    expect(len(info["notes"]) == 1 and "no weights are read" in info["notes"][0], f"{info['notes']}")
    expect("that fit" not in out and "128 KiB" in out, f"without --mem: {out}")


def test_kv_size_by_options():
    base = ["kv-size", "--layers", 61, "--heads", 128, "--latent", 512, "--rope-dim", 64]
    row = rows_of(answer(*base), "MLA 512+64")["bf16"]
    expect(row["bytes_per_token"] == 70272 and "max_seqs" not in row and row["ms_alone"] is None, f"{row}")
    one = answer("kv-size", "--layers", 5, "--kv-heads", 4, "--head-dim", 8, "--kv-dtype", "f32")
    expect([r["bytes_per_token"] for r in one["rows"] if r["own"]] == [1280], f"{one['rows']}")
    expect(one["budget"]["weights_from"] is None and one["model"]["heads"] is None, f"{one}")
    many = answer("kv-size", "--layers", 80, "--heads", 64, "--kv-heads", 8, "--head-dim", 128, "--tp", 8,
                  "--params", "70B", "--weight-dtype", "int8", "--mem", "80e9", "--kv-dtype", "f16")
    expect(many["budget"]["kv_bytes"] == 80 * 10**9 - 70 * 10**9 // 8, f"{many['budget']}")
    expect(rows_of(many, "GQA 8:1")["f16"]["bytes_per_token"] == 40 * 1024, "a rank's heads")
    window = answer("kv-size", "--layers", 6, "--kv-heads", 1, "--head-dim", 64, "--window", 32,
                    "--window-layers", 4, "--tokens", 1000, "--kv-dtype", "f16")
    own = [r for r in window["rows"] if r["own"]][0]
    expect(own["blocks_per_seq"] == 63 + 2 * 3, f"two groups of two window layers: {own}")
    expect(own["block_bytes"] == 2 * 2 * 64 * 2 * 16, f"{own}")


def test_kv_size_times():
    """Bytes over bandwidth: a rank's share of the weights, and what window layers see."""
    info = answer("kv-size", "--layers", 4, "--heads", 8, "--kv-heads", 8, "--head-dim", 64, "--tp", 2,
                  "--weights", "10e9", "--bandwidth", "1e12", "--tokens", 5000, "--kv-dtype", "f16")
    own = info["rows"][0]
    expect(info["budget"]["max_tokens"] == 5000, "at least the tokens that are asked for")
    token = bytes_per_token(4, 4, 64, "f16")
    expect(abs(own["ms_alone"] - (5e9 + 5000 * token) / 1e9) < 1e-9, f"two ranks: {own}")
    info = answer("kv-size", "--layers", 4, "--kv-heads", 1, "--head-dim", 64, "--window", 100,
                  "--bandwidth", "1GB/s", "--tokens", 1000, "--kv-dtype", "f16")
    own = info["rows"][0]
    expect(info["model"]["window_layers"] == 4 and own["blocks_per_seq"] == 8, f"all layers: {own}")
    expect(abs(own["ms_alone"] - 100 * bytes_per_token(4, 1, 64, "f16") / 1e6) < 1e-9, f"window: {own}")
    text = said("kv-size", "--layers", 1, "--kv-heads", 1, "--head-dim", 256, "--params", 1500)
    expect("1.50 k parameters as f16 (from --params)" in text, text)


def test_kv_size_of_weight_files():
    stories()
    for name in ("stories260K.bin", "stories260K.gguf", "", "config.json"):
        info = answer("kv-size", stories(name), "--mem", "4MiB", "--kv-dtype", "f32", "--tokens", 100)
        expect(info["budget"]["weight_bytes"] == 4 * 260032, f"{name}: {info['budget']}")
        own = [r for r in info["rows"] if r["own"]][0]
        blocks = ((4 << 20) - 4 * 260032) // (1280 * 16)
        expect(own["max_seqs"] == (blocks - 1) // 7 and own["blocks"] == blocks, f"{name}: {own}")
    half = answer("kv-size", stories(), "--weight-dtype", "bf16")
    expect(half["budget"]["weight_bytes"] == 2 * 260032, "as if they were bf16")


def test_kv_size_that_cannot_fit():
    base = ["kv-size", "--layers", 32, "--kv-heads", 8, "--head-dim", 128, "--kv-dtype", "f16"]
    code, out, err = run(*base, "--mem", "100MiB")
    expect(code == 4 and "64 blocks of 2097152 bytes" in err and err.count("\n") == 1, f"{code}, {err!r}")
    expect("GQA" in out or "8 heads" in out, "the table is printed all the same")
    code, _, err = run(*base, "--heads", 32, "--mem", "100MiB")
    expect(code == 4 and "64 blocks of 2097152 bytes" in err, f"of the model as it is: {err!r}")
    code, _, err = run(*base, "--mem", "130MiB")
    expect(code == 0 and err == "", f"65 blocks: exit {code}, {err!r}")
    code, out, err = run(*base, "--mem", "1GiB", "--weights", "2GiB", "--json")
    expect(code == 4 and "leave nothing" in err, f"weights: exit {code}, {err!r}")
    expect(json.loads(out)["budget"]["kv_bytes"] == 0, "JSON all the same")


def test_kv_size_notes():
    with Folder() as folder:
        path = folder / "config.json"
        path.write_text(json.dumps({**LLAMA_3_8B, "attn_layer_period": 8}), encoding="utf-8")
        notes = answer("kv-size", path, "--max-tokens", 9000)["notes"]
        expect(any("attn_layer_period is not taken into account" in note for note in notes), f"{notes}")
        expect(any("9000 tokens are more than the model's context of 8192" in n for n in notes), f"{notes}")


def test_kv_size_refusals():
    refused(2, "missing: --layers, --kv-heads, --head-dim", "kv-size")
    refused(2, "missing: --head-dim", "kv-size", "--layers", 1, "--heads", 2)
    base = ["kv-size", "--layers", 2, "--kv-heads", 2, "--head-dim", 64]
    refused(2, "head_dim is 12", "kv-size", "--layers", 2, "--kv-heads", 2, "--head-dim", 12)
    refused(2, "tp is 3", *base, "--tp", 3)
    refused(2, "max_tokens is 5", *base, "--tokens", 6, "--max-tokens", 5)
    refused(2, "--rope-dim stands beside --latent", *base, "--rope-dim", 8)
    refused(2, "--window-layers wants --window", *base, "--window-layers", 1)
    refused(2, "n_window_layers is 3", *base, "--window", 8, "--window-layers", 3)
    refused(2, "--mem wants a size like 24GiB", *base, "--mem", "24 gigs")
    refused(2, "--mem wants a size", *base, "--mem", "-1")
    refused(2, "--params wants a number", *base, "--params", "8x")
    refused(2, "--bandwidth wants bytes per second", *base, "--bandwidth", "fast")
    refused(2, "--tokens wants a whole number from 1", *base, "--tokens", "0")
    refused(2, "--kv-dtype wants f32", *base, "--kv-dtype", "f8")
    refused(2, "--tokens wants N behind it", *base, "--tokens")
    refused(3, "No such file", "kv-size", "/nowhere/config.json")
    with Folder() as folder:
        path = folder / "config.json"
        path.write_text("{}", encoding="utf-8")
        refused(3, "config.json: missing: num_hidden_layers, num_key_value_heads or num_attention_heads, "
                "head_dim or hidden_size", "kv-size", path)
        path.write_text("{", encoding="utf-8")
        refused(3, "config.json: byte", "kv-size", path)


if __name__ == "__main__":
    sys.exit(tap_main.run_tests(globals()))
