#!/usr/bin/env python3
"""Writes tests/attacks: small files that are wrong in one way each, and odd ones that are right.

    python3 scripts/make_attacks.py            write the folder and its manifest.json
    python3 scripts/make_attacks.py --check    does the folder hold just what would be written?
    python3 scripts/make_attacks.py --fuzz DIR inputs of the fuzz targets, DIR/<target>/<file>

manifest.json lists for each case what to open, what is wrong with it, the status of the library, the exit
status of pkv-generate for requests, and a part of the message that names the place.
"""
import argparse
import json
import pathlib
import shutil
import sys

sys.dont_write_bytecode = True  # a build runs this; it leaves the tree as it was
import attack_models  # noqa: E402
import attack_texts  # noqa: E402
from attack_formats import CONFIG, compact  # noqa: E402

FOLDER = pathlib.Path(__file__).resolve().parent.parent / "tests/attacks"
MAX_FILE, MAX_ALL = 4096, 400000

# kind: its cases, and how the file is called that is opened
KINDS = {
    "safetensors": (attack_models.safetensors_cases, "{}.safetensors"),
    "index": (attack_models.index_cases, "{}/model.safetensors.index.json"),
    "config": (attack_models.config_cases, "{}.json"),
    "gguf": (attack_models.gguf_cases, "{}.gguf"),
    "split": (attack_models.split_cases, "{}/"),
    "llama2c": (attack_models.llama2c_cases, "{}.bin"),
    "tokenizer_json": (attack_texts.json_cases, "{}.json"),
    "tiktoken": (attack_texts.tiktoken_cases, "{}.tiktoken"),
    "sentencepiece": (attack_texts.spm_cases, "{}.model"),
    "vocab_bpe": (attack_texts.bpe_cases, "{}/vocab.bpe"),
    "tok512": (attack_texts.tok512_cases, "{}.bin"),
    "gguf_tokenizer": (attack_texts.gguf_tokenizer_cases, "{}.gguf"),
    "requests": (attack_texts.requests_cases, "{}.jsonl"),
}


def collect():
    """{path: bytes} of the folder, and the manifest."""
    files, manifest = {}, []
    files["safetensors/config.json"] = compact(CONFIG) + b"\n"
    for kind, (cases, pattern) in KINDS.items():
        for name, wrong, status, says, content, *more in cases():
            path = kind + "/" + pattern.format(name)
            if isinstance(content, dict):
                if path.endswith("/"):
                    path += next(iter(content))
                folder = f"{kind}/{name}/"
                files.update({folder + f: b for f, b in content.items()})
            else:
                files[path] = content
            case = {"kind": kind, "file": path, "wrong": wrong, "says": says}
            case["exit" if kind == "requests" else "status"] = status
            if more:
                case["vocab_size"] = more[0]
            if any(c["file"] == path for c in manifest):
                raise ValueError(f"{path} comes twice")
            manifest.append(case)
    text = "[\n" + ",\n".join(json.dumps(case) for case in manifest) + "\n]\n"
    check_sizes(files)
    files["manifest.json"] = text.encode()
    return files, manifest


def check_sizes(files):
    for name, raw in files.items():
        if len(raw) > MAX_FILE:
            raise ValueError(f"{name} has {len(raw)} bytes, at most {MAX_FILE} are small")
    total = sum(map(len, files.values()))
    if total > MAX_ALL:
        raise ValueError(f"{total} bytes in all, at most {MAX_ALL}")


def write(folder, files):
    for name, raw in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(raw)


def check(files):
    """What is missing, different, or there for no reason."""
    have = {str(p.relative_to(FOLDER)) for p in FOLDER.rglob("*") if p.is_file()} - {"README.md"}
    yield from (f"{name} is missing" for name in sorted(set(files) - have))
    yield from (f"{name} is nobody's" for name in sorted(have - set(files)))
    for name in sorted(have & set(files)):
        if (FOLDER / name).read_bytes() != files[name]:
            yield f"{name} differs"


def fuzz_inputs(files, manifest):
    """{target/name: bytes}. The target of tokenizers has the format in its first byte, and pairs in
    one input; the others take files as they are."""
    first = {"sentencepiece": b"\0", "tiktoken": b"\6", "gguf_tokenizer": b"\2", "tokenizer_json": b"\3",
             "tok512": b"\x0b"}
    plain = {"safetensors": ["safetensors"], "gguf": ["gguf", "weights"], "llama2c": ["gguf", "weights"],
             "split": ["gguf"], "index": ["index"], "config": ["model_config"], "requests": ["requests"]}
    for case in manifest:
        kind, path = case["kind"], case["file"]
        flat = path.replace("/", "-")
        for target in plain.get(kind, []):
            yield f"{target}/{flat}", files[path]
        if kind in first:
            yield f"tokenizer/{flat}", first[kind] + files[path]
        if kind == "vocab_bpe":
            encoder = files.get(path.replace("vocab.bpe", "encoder.json"), b"")
            yield f"tokenizer/{flat}", b"\5" + files[path] + b"\0" + encoder


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--fuzz", metavar="DIR", type=pathlib.Path)
    args = parser.parse_args()
    files, manifest = collect()
    if args.check:
        found = list(check(files))
        for line in found:
            print(f"tests/attacks: {line}: run scripts/make_attacks.py")
        return 1 if found else 0
    if args.fuzz:
        write(args.fuzz, dict(fuzz_inputs(files, manifest)))
        return 0
    for kind in KINDS:
        shutil.rmtree(FOLDER / kind, ignore_errors=True)
    write(FOLDER, files)
    counts = {kind: sum(c["kind"] == kind for c in manifest) for kind in KINDS}
    print(", ".join(f"{n} {kind}" for kind, n in counts.items()))
    print(f"{len(files)} files, {sum(map(len, files.values()))} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
