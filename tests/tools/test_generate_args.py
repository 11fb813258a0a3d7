#!/usr/bin/env python3
"""What pkv-generate refuses: wrong command lines, wrong lines of requests, files that are none.
Each with its exit status and one line on stderr, and nothing on stdout. Prints TAP.

usage: test_generate_args.py PROGRAM
"""
import os
import re
import sys

import tap_main
from generate_program import expect, in_folder, refused, run, stories

MODEL = ("-m", "no-such-model")  # command line and requests are judged before a model is opened
P = (*MODEL, "-p", "x")
HUGE = "99999999999999999999999"

COMMAND_LINES = [
    ("no model", ()),
    ("no model", ("-p", "x")),
    ("no prompt", MODEL),
    ("--prompt and --file: one prompt at a time", (*P, "-f", "x")),
    ("--prompt and --ids: one prompt", (*P, "--ids", "1")),
    ("--file and --requests: one prompt", (*MODEL, "-f", "x", "--requests", "y")),
    ("--model: given twice", (*P, "-m", "y")),
    ("--model: an empty text", ("-m", "", "-p", "x")),
    ("--tmep: unknown option; did you mean --temp?", (*P, "--tmep", "1")),
    ("--max-token: unknown option; did you mean --max-tokens?", (*P, "--max-token", "1")),
    ("--frobnicate: unknown option; see", (*P, "--frobnicate")),
    ("'stray': not an option; a prompt is given with -p", (*P, "stray")),
    ("--json takes no value", (*P, "--json=x")),
    ("--temp: a value is missing (T)", (*P, "--temp")),
    ("--temp: 'hot' is not a number from 0 to 1000", (*P, "--temp", "hot")),
    ("--temp: '-1' is not", (*P, "--temp", "-1")),
    ("--temp: 'nan' is not", (*P, "--temp", "nan")),
    ("--temp: 'inf' is not", (*P, "--temp", "inf")),
    ("--temp: '1e999' is not", (*P, "--temp", "1e999")),
    ("--temp: '0x1' is not", (*P, "--temp", "0x1")),
    ("--temp: '' is not", (*P, "--temp", "")),
    ("--max-tokens: '0' is not a whole number from 1", (*P, "-n", "0")),
    ("--max-tokens: '1.5' is not", (*P, "-n", "1.5")),
    ("--max-tokens: '" + HUGE + "' is not", (*P, "-n", HUGE)),
    ("--top-k: '-1' is not a whole number from 0", (*P, "--top-k", "-1")),
    ("--top-p: '0' is not a number above 0, at most 1", (*P, "--top-p", "0")),
    ("--top-p: '1e-60' is not", (*P, "--top-p", "1e-60")),
    ("--top-p: '1.1' is not", (*P, "--top-p", "1.1")),
    ("--min-p: '2' is not a number from 0 to 1", (*P, "--min-p", "2")),
    ("--repeat-penalty: '0' is not", (*P, "--repetition-penalty", "0")),
    ("--seed: '-1' is not a whole number from 0 to 9223372036854775807", (*P, "--seed", "-1")),
    ("--seed: '" + HUGE + "' is not", (*P, "--seed", HUGE)),
    ("--n: '0' is not", (*P, "--n", "0")),
    ("--beams: '17' is not a whole number from 0 to 16", (*P, "--beams", "17")),
    ("n is above the number of beams", (*P, "--beams", "2", "--n", "3")),
    ("beams draw nothing", (*P, "--beams", "2", "--temp", "1")),
    ("beams take no penalties", (*P, "--beams", "2", "--repeat-penalty", "1.1")),
    ("beams have a score and no logprobs", (*P, "--beams", "2", "--logprobs", "1", "--json")),
    ("beams end at stop ids", (*P, "--beams", "2", "--stop", "x")),
    ("--length-penalty means something with --beams", (*P, "--length-penalty", "2")),
    ("--early-stopping means something with --beams", (*P, "--early-stopping")),
    ("--logprobs: '21' is not", (*P, "--logprobs", "21", "--json")),
    ("--logprobs: printed as JSON only", (*P, "--logprobs", "2")),
    ("--rng: 'dice' is not philox or xorshift-llama2", (*P, "--rng", "dice")),
    ("xorshift-llama2 needs a seed", (*P, "--rng", "xorshift-llama2")),
    ("n is 1 with it", (*P, "--rng", "xorshift-llama2", "--seed", "1", "--n", "2")),
    ("leave top_k and min_p out", (*P, "--rng", "xorshift-llama2", "--seed", "1", "--top-k", "3")),
    ("--stop: a stop text is empty", (*P, "--stop", "")),
    ("--stop: a stop text is longer than 256 bytes", (*P, "--stop", "x" * 257)),
    ("--stop: more than 16 stop texts", (*P, *["--stop", "x"] * 17)),
    ("--stop: a stop text is not UTF-8", (*P, "--stop", os.fsdecode(b"\xff"))),
    ("--stop-id: '1,,2' is not a token id", (*P, "--stop-id", "1,,2")),
    ("--stop-id: more than 64 stop ids", (*P, "--stop-id", ",".join("1" * 65))),
    ("--ids: '' is not a list of token ids", (*MODEL, "--ids", "")),
    ("--ids: '1,' is not", (*MODEL, "--ids", "1,")),
    ("--ids: '1,-2' is not", (*MODEL, "--ids", "1,-2")),
    ("--ids: '1 2' is not", (*MODEL, "--ids", "1 2")),
    ("--deadline-ms: '0' is not a number above 0", (*P, "--deadline-ms", "0")),
    ("--block-tokens: '0' is not a whole number from 1 to 2048", (*P, "--block-tokens", "0")),
    ("--kv-blocks: '1' is not", (*P, "--kv-blocks", "1")),
    ("--kv-memory: '0' is not a number of bytes above 0", (*P, "--kv-memory", "0")),
    ("--kv-memory: '2gigs' is not", (*P, "--kv-memory", "2gigs")),
    ("--kv-memory with --kv-blocks: two sizes", (*P, "--kv-memory", "1MiB", "--kv-blocks", "9")),
    ("--kv-dtype: 'f64' is not f32, f16, bf16", (*P, "--kv-dtype", "f64")),
    ("--weights: 'int8' is not f32 or bf16", (*P, "--weights", "int8")),
    ("--preempt: 'kill' is not auto, swap or recompute", (*P, "--preempt", "kill")),
    ("--preempt swap: nowhere to swap to", (*P, "--preempt", "swap")),
    ("--placement: 'heap' is not paged, max, request or pow2", (*P, "--placement", "heap")),
    ("is never swapped", (*P, "--placement", "max", "--swap-memory", "1MiB")),
    ("--max-batch-tokens 8: each of the --max-seqs 9", (*P, "--max-batch-tokens", "8", "--max-seqs", "9")),
    ("--exact with --fast", (*P, "--exact", "--fast")),
    ("--threads: '0' is not", (*P, "--threads", "0")),
    ("--isa: 'sse' is not scalar, avx2", (*P, "--isa", "sse")),
    ("--special with --ids", (*MODEL, "--ids", "1", "--special")),
    ("--echo with --json", (*P, "--echo", "--json")),
    ("--echo with --requests", (*MODEL, "--requests", "x", "--echo")),
    ("--stats-format: 'xml' is not table, json or prometheus", (*P, "--stats-format", "xml")),
    ("--peaks: '12' is not GB/s and GFLOP/s", (*P, "--peaks", "12")),
    ("--peaks: '12,0' is not", (*P, "--peaks", "12,0")),
    ("--peaks: for the table of --stats", (*P, "--peaks", "12,90")),
    ("--peaks: for the table of --stats", (*P, "--peaks", "12,90", "--stats-format", "json")),
    ("--help: 'kernels' is not one of model, prompt, sampling", ("--help", "kernels")),
]

# ^ marks the place that the complaint names
LINES = [
    ("unknown key \"temprature\"; did you mean \"temperature\"?", '{"prompt": "a", ^"temprature": 1}'),
    ("unknown key \"frobnicate\"; see", '{"prompt":"a", ^"frobnicate": 1}'),
    ("unknown key \"Seed\"; did you mean \"seed\"?", '{"prompt":"é\\"", ^"Seed": 1}'),
    ("\"n\" wants a whole number from 1 to 4096", '{"prompt":"a","n": ^0}'),
    ("\"n\" wants", '{"prompt":"a","n": ^1.0}'),
    ("\"n\" wants", '{"prompt":"a","n": ^"2"}'),
    ("\"n\" wants", '{"prompt":"a, \\"n\\": 3","id":{"n":[1,{"n":5}]},"n":^0}'),
    ("\"temperature\" wants a number from 0 to 1000", '{"prompt":"a","temperature":^-1}'),
    ("\"top_p\" wants a number above 0, at most 1", '{"prompt":"a","top_p": ^0}'),
    ("\"ignore_eos\" wants true or false", '{"prompt":"a","ignore_eos": ^1}'),
    ("\"seed\" wants a whole number", '{"prompt":"a","seed":^-1}'),
    ("\"prompt\" wants a text, or token ids", '{"prompt":^{"a":1}}'),
    ("\"prompt\" wants token ids, at least one", '{"prompt":^[]}'),
    ("\"ids\" wants token ids", '{"ids":^"1,2"}'),
    ("\"ids\" wants token ids only", '{"ids":^[1,"2"]}'),
    ("\"ids\" wants token ids only", '{"ids":^[1,-2]}'),
    ("\"ids\" wants token ids only", '{"ids":^[2147483648]}'),
    ("a text and token ids", '{"prompt":"a",^"ids":[1]}'),
    ("token ids twice", '{"prompt":[1],^"ids":[2]}'),
    ("token ids twice", '{"ids":[1],^"prompt":[2]}'),
    ("\"max_new_tokens\" and \"max_tokens\" are the same",
     '{"prompt":"a","max_tokens":3,^"max_new_tokens":4}'),
    ("\"input_ids\" and \"ids\" are the same", '{  "ids":[1], ^"input_ids":[1]}'),
    ("\"stop\": a stop text is empty", '{"prompt":"a","stop":^[""]}'),
    ("\"stop\" wants a text, or a list of texts", '{"prompt":"a","stop": ^1}'),
    ("\"stop\" wants texts only", '{"prompt":"a","stop":^["x", 1]}'),
    ("\"stop\": a stop text with a zero byte", '{"prompt":"a","stop":^"a\\u0000b"}'),
    ("\"stop_ids\" wants a list of token ids", '{"prompt":"a","stop_ids": ^3}'),
    ("\"stop_ids\": not a token id", '{"prompt":"a","stop_ids":^[-3]}'),
    ("\"logit_bias\" wants token ids as keys", '{"prompt":"a","logit_bias":^{"x":1}}'),
    ("\"logit_bias\" wants numbers", '{"prompt":"a","logit_bias":^{"3":"x"}}'),
    ("\"logit_bias\" wants an object", '{"prompt":"a","logit_bias":^[1]}'),
    ("no prompt", '^{"id": 1}'),
    ("no prompt", '^{"prompt": null}'),
    ("beams draw nothing", '^{"prompt":"a","beams":4,"temperature":1}'),
    ("not an object", '^[1]'),
    ("not JSON: '}' expected", '{"prompt": "a" "b"}'),
    ("not JSON", '{"prompt": "a"'),
    ("not JSON: duplicate object key", '{"prompt":"a","n":1,"n":2}'),
    ("not JSON", '{"prompt": "\\ud800"}'),
    ("unknown key \"x\"", '{"prompt":"a"}\n\n{^"x": 1}\n'),
    ("no requests", ''),
    ("no requests", ' \n\r\n'),
]


def test_command_lines():
    for words, args in COMMAND_LINES:
        refused(2, words, *args)
    refused(2, "PKV_ISA: 'avx9' is not scalar", *P, env={"PKV_ISA": "avx9"})


def test_levels_that_are_not_here():
    code, _, err = run(*P, "--isa", "neon")
    if code != 2:  # then it is here, and the model is what is missing
        code, _, err = run(*P, "--isa", "avx2")
    expect(code == 2 and "cannot be used here: not " in err, err)


def place(text):
    """"stdin:LINE:COLUMN: " of the mark, and the text without it."""
    before, mark, behind = text.partition("^")
    if not mark:
        return "", text
    return f"stdin:{before.count(chr(10)) + 1}:{len(before) - before.rfind(chr(10))}: ", before + behind


def test_lines():
    for words, marked in LINES:
        where, text = place(marked)
        refused(2, where + words, *MODEL, "--requests", "-", stdin=text)


@in_folder
def test_files(folder):
    (folder / "bad.jsonl").write_text('{"prompt":"a"}\n{"prompt":"b","n":0}\n')
    refused(2, "bad.jsonl:2:19: \"n\" wants", *MODEL, "--requests", "bad.jsonl", cwd=folder)
    refused(5, "none.jsonl: cannot be read: No such file", *MODEL, "--requests", "none.jsonl", cwd=folder)
    refused(5, "none.txt: cannot be read: No such file", *MODEL, "-f", "none.txt", cwd=folder)
    refused(5, "cannot be read: Is a directory", *MODEL, "-f", folder)
    refused(3, "no-such-model", *P, cwd=folder)
    for name, text in (("x.gguf", b"GGUF"), ("x.bin", b"abc"), ("x.safetensors", b""), ("x.txt", b"hello")):
        (folder / name).write_bytes(text)
        refused(3, name, "-m", name, "-p", "x", cwd=folder)
    (folder / "empty").mkdir()
    refused(3, "empty", "-m", "empty", "-p", "x", cwd=folder)


@in_folder
def test_with_the_model(folder):
    """What only the model or the tokenizer can judge."""
    model = stories()
    refused(2, "--ids: token id 512: the model has 0 to 511", "-m", model, "--ids", "1,512")
    refused(2, "--stop-id: token id 999", "-m", model, "-p", "x", "--stop-id", "999")
    for marked in ('{"ids":[1]}\n{"ids":^[1,600]}', '{"ids":[1]}\n\n{"prompt":"a","stop_ids":^[700]}',
                   '{"ids":[1],  "logit_bias": ^{"800":1}}'):
        where, text = place(marked)
        wrong = re.search("[678]00", text)[0]
        refused(2, f"{where}token id {wrong}: the model has 0 to 511", "-m", model, "--requests", "-", stdin=text)
    refused(3, "none.json", "-m", model, "-t", "none.json", "-p", "x")
    (folder / "tokenizer.json").write_text("{}")
    refused(3, "tokenizer.json", "-m", model, "-t", folder, "-p", "x")
    refused(2, "--tokenizer none: texts need one", "-m", model, "-t", "none", "-p", "x")
    refused(2, "--tokenizer none: texts need one", "-m", model, "-t", "none", "--ids", "1", "--stop", "x")
    refused(5, "/x: cannot be written: No such file", "-m", model, "-p", "x", "-o", folder / "no/x")
    refused(5, "cannot be written", "-m", model, "-p", "x", "-o", folder)
    (folder / "alone.bin").write_bytes((model / "stories260K.bin").read_bytes())
    refused(3, "-t PATH", "-m", folder / "alone.bin", "-p", "x")


@in_folder
def test_never(folder):
    """What can never fit: at once, with what would help; the old output stays."""
    (folder / "out.txt").write_text("old")
    tiny = ("-m", stories(), "--kv-blocks", "3", "-n", "100")
    refused(4, "--kv-memory at least ", *tiny, "-p", "x", "-o", folder / "out.txt")
    refused(4, "max_tokens at most 32 would help", *tiny, "-p", "", "-o", folder / "out.txt")
    refused(4, "--max-seqs at least 8, or n at most 4", "-m", stories(), "-p", "x", "--n", "8", "--max-seqs", "4")
    refused(4, "--max-context is 4", "-m", stories(), "--ids", "1,2,3,4,5", "--max-context", "4")
    refused(2, "generate: --max-context is 5000; 2 to 512", "-m", stories(), "-p", "x", "--max-context", "5000")
    refused(4, "generate: the pool has room for 0 blocks", "-m", stories(), "-p", "x", "--kv-memory", "3KiB")
    expect((folder / "out.txt").read_text() == "old" and len(list(folder.iterdir())) == 1, "a file was touched")


def test_help():
    code, out, err = run("--help")
    expect(code == 0 and err == "", "--help")
    for word in ("--model", "--stop-id", "--kv-dtype", "examples", "Exit status", "logit_bias", "--peaks"):
        expect(word in out.decode(), f"{word} is not in the help")
    expect(run("-m", "x", "--help")[1] == out, "--help behind other options")
    groups = "model prompt sampling stopping memory scheduling output requests".split()
    parts = [run("--help", group) for group in groups]
    expect(all(code == 0 and part and len(part) < len(out) for code, part, _ in parts), "help of a group")
    whole = set(out.decode().splitlines())
    for group, (_, part, _) in zip(groups, parts):
        expect(set(part.decode().splitlines()) <= whole, f"--help {group} says something else")
    expect(run("--version")[1].startswith(b"pkv-generate "), "--version")
    if os.path.exists("/dev/full"):
        with open("/dev/full", "wb") as full:
            code, _, err = run("--help", stdout=full)
        expect(code == 5 and "stdout: writing failed" in err, f"full device: exit {code}, {err!r}")


if __name__ == "__main__":
    sys.exit(tap_main.run_tests(globals()))
