#!/usr/bin/env python3
"""pkv-generate as a user meets it: published texts from every format, samples, beams, many requests
against each alone, JSON against its schema, streams, stops, signals, files. Prints TAP.

usage: test_generate.py PROGRAM
"""
import contextlib
import hashlib
import json
import math
import os
import pty
import random
import re
import signal
import subprocess
import sys
import threading

import tap_main
from generate_program import (PROGRAM, ROOT, answers, document, expect, good, in_folder, lines, refused, run,
                              stories)

FORMATS = ("", "model.safetensors", "stories260K.gguf", "stories260K.bin")
GREEDY = "beeb5cb46785efee81a8545300b31e396b595e5ce6f3b77db201545501981d14"  # 464 bytes, 200 tokens
DRAWN = "fe4ccd65990a90f159e00fc2ca568fa038eebd39f8e67bb1c92103122390a8ea"   # 564 bytes, 256 steps


def is_text(out, n, digest, what):
    expect(len(out) == n and hashlib.sha256(out).hexdigest() == digest, f"{what}: {len(out)} bytes {out[:60]!r}")


# ---------------------------------------------------------------- published texts

def test_published_text():
    for name in FORMATS:
        out = good("-m", stories(name), "-p", "", "-n", 200, "--temp", 0)
        is_text(out, 464, GREEDY, name)


def test_published_draws():
    for name in FORMATS:
        out = good("-m", stories(name), "-p", "", "-n", 256, "--temp", 1, "--top-p", 0.9, "--seed", 133742,
                   "--rng", "xorshift-llama2")
        is_text(out, 564, DRAWN, name)


def test_golden_ids():
    golden = json.loads(stories("golden.json").read_text())["greedy_ids"]
    doc = document("-m", stories(), "--ids", 1, "-n", 255)
    expect(doc["samples"][0]["ids"] == golden[1:], "greedy ids")
    expect(doc["prompt"] == {"text": None, "ids": [1]}, "prompt")
    usage = {"prompt_tokens": 1, "output_tokens": 255, "cached_tokens": 0, "preemptions": 0}
    expect(doc["usage"] == usage, f"{doc['usage']}")


def test_prompt_and_echo():
    """A text that goes on where the prompt ended, leading blanks included."""
    for args in ((), ("--max-seqs", 1), ("--threads", 2), ("--block-tokens", 3), ("--isa", "scalar"), ("--fast",)):
        is_text(good("-m", stories(), "-p", "Once upon", "-n", 198, "--echo", *args), 464, GREEDY, args)
    whole = good("-m", stories(), "-p", "", "-n", 30)
    expect(good("-m", stories(), "-p", "Once upon", "-n", 28) == whole[len("Once upon"):], "without --echo")
    ids = document("-m", stories(), "-p", "Once upon", "-n", 5)["prompt"]["ids"]
    expect(ids == [1, 403, 407], f"ids of the prompt: {ids}")


@in_folder
def test_prompt_files(folder):
    (folder / "x.txt").write_text("Once upon")
    want = good("-m", stories(), "-p", "Once upon", "-n", 20)
    expect(good("-m", stories(), "-f", folder / "x.txt", "-n", 20) == want, "-f FILE")
    expect(good("-m", stories(), "-f", "-", "-n", 20, stdin="Once upon") == want, "-f -")
    expect(good("-m", stories(), "-f", "-", "-n", 20, stdin="Once upon\n") != want, "a newline is text")


def test_special_tokens():
    """Their names are text from a user, and tokens where he says so."""
    for args, n in (((), 1), (("--special",), 3)):
        ids = document("-m", stories("stories260K.gguf"), "-p", "<s>a<s>", "-n", 1, *args)["prompt"]["ids"]
        expect(ids.count(1) == n, f"{args}: {ids}")


@in_folder
def test_tokenizer_of_a_bin(folder):
    """tok*.bin goes before whatever else lies beside a llama2.c model."""
    for name in ("stories260K.bin", "tok512.bin"):
        (folder / name).write_bytes(stories(name).read_bytes())
    (folder / "tokenizer.json").write_text("{}")
    expect(good("-m", folder / "stories260K.bin", "-p", "Once", "-n", 1) == b" upon", "tok512.bin")
    expect(good("-m", "stories260K.bin", "-p", "Once", "-n", 1, cwd=folder) == b" upon", "in this folder")


def test_without_tokenizer():
    out = good("-m", stories(), "--ids", 1, "-n", 4, "-t", "none")
    expect(out == b"403 407 261 378", f"ids as text: {out}")
    sample = document("-m", stories(), "--ids", 1, "-n", 4, "-t", "none")["samples"][0]
    expect(sample["text"] is None and sample["ids"] == [403, 407, 261, 378], f"{sample}")


# ---------------------------------------------------------------- samples and beams

DRAW = ("--temp", 1, "--seed", 7, "-n", 40)


def test_samples():
    """Sample k depends on the seed and on k: not on how many there are beside it."""
    four = document("-m", stories(), "-p", "Once", *DRAW, "--n", 4)["samples"]
    texts = [s["text"] for s in four]
    expect(len(set(texts)) == 4, "four samples differ")
    for n in (1, 2, 3):
        fewer = document("-m", stories(), "-p", "Once", *DRAW, "--n", n)["samples"]
        expect(fewer == four[:n], f"--n {n} differs")
    other = document("-m", stories(), "-p", "Once", "--temp", 1, "--seed", 8, "-n", 40)["samples"]
    expect(other[0]["text"] != texts[0], "another seed")
    out = good("-m", stories(), "-p", "Once", *DRAW, "--n", 4).decode()
    want = "".join(f"--- sample {k}\n{t}" + ("" if t.endswith("\n") else "\n") for k, t in enumerate(texts))
    expect(out == want, f"text of four samples: {out[:80]!r}")


def test_beams():
    beams = document("-m", stories(), "-p", "The", "-n", 6, "--beams", 4, "--n", 4, "--length-penalty", 0.5)
    scores = [s["score"] for s in beams["samples"]]
    expect(scores == sorted(scores, reverse=True) and len(scores) == 4, f"scores {scores}")
    expect(len({tuple(s["ids"]) for s in beams["samples"]}) == 4, "beams differ")
    best, ids = beams["samples"][0], beams["prompt"]["ids"]
    total = 0.0
    for token in best["ids"]:  # its log probabilities, one pass each
        step = document("-m", stories(), "--ids", ",".join(map(str, ids)), "-n", 1, "--logprobs", 20)
        top = {t["id"]: t["logprob"] for t in step["samples"][0]["logprobs"][0]["top"]}
        expect(token in top, f"{token} is not among 20 likeliest")
        total += top[token]
        ids = ids + [token]
    want = total / len(best["ids"]) ** 0.5
    expect(abs(best["score"] - want) < 1e-4, f"score {best['score']}, expected {want}")
    greedy = document("-m", stories(), "-p", "The", "-n", 6)["samples"][0]["ids"]
    expect(document("-m", stories(), "-p", "The", "-n", 6, "--beams", 1)["samples"][0]["ids"] == greedy, "width 1")
    out = good("-m", stories(), "-p", "The", "-n", 6, "--beams", 4, "--n", 2, "--length-penalty", 0.5).decode()
    expect(re.fullmatch(r"--- beam 0, score -\d+\.\d{6}\n.*\n--- beam 1, score -\d+\.\d{6}\n.*\n", out), out)


def test_logprobs():
    sample = document("-m", stories(), "--ids", 1, "-n", 3, "--logprobs", 3)["samples"][0]
    for token in sample["logprobs"]:
        tops = [t["logprob"] for t in token["top"]]
        expect(len(tops) == 3 and tops == sorted(tops, reverse=True), f"{token}")
        expect(token["id"] == token["top"][0]["id"] and token["logprob"] == tops[0], "greedy takes the likeliest")
    # from the published logits of position 0
    logits = json.loads(stories("golden.json").read_text())["logits_pos0"]
    peak = max(logits)
    want = sorted((x - peak - math.log(sum(math.exp(y - peak) for y in logits)) for x in logits), reverse=True)
    for k, top in enumerate(sample["logprobs"][0]["top"]):
        expect(abs(top["logprob"] - want[k]) < 1e-3, f"{top}, expected {want[k]}")


# ---------------------------------------------------------------- many requests

WORDS = "Once upon a time there was a little girl named Lily who had a big red ball and a dog".split()


def mixed_requests(n, seed):
    """Prompts with common beginnings, and all that a line may say."""
    print(f"# seed {seed}")
    rnd, requests = random.Random(seed), []
    for k in range(n):
        r = {"id": f"r{k}", "max_tokens": rnd.choice((1, 2, 7, 20, 60))}
        if rnd.random() < 0.8:
            r["prompt"] = " ".join(WORDS[:rnd.randrange(1, len(WORDS))])
        else:
            r["ids"] = [1] + [rnd.randrange(259, 512) for _ in range(rnd.randrange(1, 30))]
        kind = rnd.randrange(6)
        if kind == 0:
            r.update(beams=rnd.randrange(2, 5), length_penalty=rnd.choice((0.0, 1.0, 2.0)))
        elif kind < 4:
            r.update(temperature=rnd.choice((0.5, 1, 1.5)), seed=rnd.randrange(1000), n=rnd.choice((1, 1, 3)))
            if rnd.random() < 0.5:
                r[rnd.choice(("top_p", "min_p"))] = 0.4
            r["top_k"] = rnd.choice((0, 5))
            r["repeat_penalty"] = rnd.choice((1, 1.2))
        if kind > 0 and rnd.random() < 0.5:
            r.update(logprobs=rnd.randrange(4), stop=[" the", "."], logit_bias={"13": -3, "426": 1})
        if rnd.random() < 0.3:
            r.update(ignore_eos=True, stop_ids=[rnd.randrange(259, 512)])
        requests.append(r)
    return requests


def essence(answer):
    """What must not depend on what else runs."""
    return [answer["samples"], answer["usage"]["prompt_tokens"], answer["usage"]["output_tokens"], answer["error"]]


def test_many_requests_are_each_alone():
    requests = mixed_requests(50, int(os.environ.get("PKV_SEED") or 20261130))
    alone = [answers([r])[0] for r in requests]
    preempted = cached = 0
    for args in ((), ("--max-seqs", 4, "--chunk", 5, "--max-batch-tokens", 16),
                 ("--kv-blocks", 26, "--preempt", "recompute"), ("--kv-blocks", 60, "--block-tokens", 4),
                 ("--kv-blocks", 26, "--preempt", "swap", "--swap-memory", "1MiB", "--no-prefix-cache"),
                 ("--placement", "request", "--no-prefix-cache"), ("--threads", 2)):
        got = answers(requests, *args)
        expect([a["id"] for a in got] == [r["id"] for r in requests], f"{args}: order of the lines")
        expect([a["line"] for a in got] == list(range(1, 51)), f"{args}: numbers of lines")
        for r, a, b in zip(requests, alone, got):
            expect(essence(a) == essence(b), f"{args}: {r} gives\n{b}\nalone\n{a}")
        preempted += sum(a["usage"]["preemptions"] for a in got)
        cached += sum(a["usage"]["cached_tokens"] for a in got)
    expect(preempted > 0, "nothing was preempted: the pools are too large to test it")
    expect(cached > 0, "nothing came from the prefix cache")


def test_defaults_of_lines():
    """What a line leaves out is as the command line says; other names mean the same."""
    plain = [{"prompt": "Once", "max_tokens": 9, "temperature": 1, "seed": 3, "stop": ["a"], "stop_ids": [300]}]
    want = essence(answers(plain)[0])
    given = answers([{"prompt": "Once"}], "-n", 9, "--temp", 1, "--seed", 3, "--stop", "a", "--stop-id", 300)[0]
    expect(essence(given) == want, f"{given}")
    aliases = [{"prompt": "Once", "max_completion_tokens": 9, "temperature": 1, "seed": 3, "stop": "a",
                "stop_token_ids": [300], "custom_id": 7, "repetition_penalty": 1, "num_beams": None}]
    got = answers(aliases)[0]
    expect(essence(got) == want and got["id"] == 7, f"{got}")
    ids = [1234567890.123, [0.1, {"a": 1e300}], "x", None]
    got = answers([{"prompt": "a", "max_tokens": 1, "id": i} for i in ids])
    expect([a["id"] for a in got] == ids, f"ids come back as they are: {got}")
    over = answers([{"prompt": "Once", "stop": [], "stop_ids": [], "max_tokens": 4}], "-n", 9, "--stop", " upon",
                   "--stop-id", 407)[0]
    expect(over["samples"][0]["text"] == " upon a time,", f"{over}")


def test_bias():
    got = answers([{"ids": [1], "max_tokens": 1, "logit_bias": bias} for bias in
                   ({}, {"403": "-inf"}, {"300": 1000})])
    first = [a["samples"][0]["ids"][0] for a in got]
    expect(first[0] == 403 and first[1] == 385 and first[2] == 300, f"{first}")  # 385: second in golden.json


def test_refused_lines():
    requests = [{"id": 1, "prompt": "a", "max_tokens": 5}, {"id": 2, "prompt": "a", "max_tokens": 300},
                {"id": 3, "ids": [5] * 600}, {"id": 4, "prompt": "b", "max_tokens": 5}]
    got = answers(requests, "--kv-blocks", 5, code=4)
    expect([a["error"] is None for a in got] == [True, False, False, True], "which are refused")
    expect(got[1]["error"]["status"] == "PKV_E_NEVER" and "would help" in got[1]["error"]["message"], f"{got[1]}")
    expect(got[1]["samples"] == [] and len(got[3]["samples"][0]["ids"]) == 5, "the others run")


# ---------------------------------------------------------------- JSON and streams

def test_schema():
    try:
        import jsonschema
    except ImportError:
        raise tap_main.Skip("python3-jsonschema is missing") from None
    checker = jsonschema.Draft202012Validator(json.loads((ROOT / "docs/generate.schema.json").read_text()))
    args = ("-m", stories(), "-n", 4, "--json")
    texts = [good(*args, "-p", "x", "--logprobs", 2), good(*args, "--ids", 1, "-t", "none", "--n", 2),
             good(*args, "-p", "x", "--beams", 3)]
    texts += good(*args, "-p", "x", "--stream", "--logprobs", 1).splitlines()
    code, out, _ = run("-m", stories(), "--requests", "-", "--kv-blocks", 5, "--stream",
                       stdin=lines(mixed_requests(6, 5) + [{"prompt": "a", "max_tokens": 300}]))
    expect(code == 4, f"exit {code}")
    for text in texts + out.splitlines():
        checker.validate(json.loads(text))
    for broken in ({}, {**json.loads(texts[0]), "more": 1}):
        expect(not checker.is_valid(broken), "the schema takes anything")


def test_stream_of_events():
    """Positions rise by one per sample, texts joined are the text, the answer comes behind them."""
    requests = mixed_requests(12, 99)
    code, out, err = run("-m", stories(), "--requests", "-", "--stream", "--max-seqs", 8, stdin=lines(requests))
    expect(code == 0 and err == "", f"exit {code}, {err}")
    seen, ended = {}, set()
    for event in map(json.loads, out.splitlines()):
        if "event" not in event:
            for s in event["samples"]:
                ids, text, at = seen.pop((event["line"], s["sample"]))
                expect(ids == s["ids"] and text == s["text"], f"line {event['line']}: {text!r}, {s['text']!r}")
                expect(at is None or at == event["usage"]["prompt_tokens"] + len(ids), "positions")
                expect((event["line"], s["sample"]) in ended, "no end")
            continue
        key = event["line"], event["sample"]
        ids, text, at = seen.get(key, ([], "", None))
        expect(key not in ended, "an event behind the end")
        if event["event"] == "token":
            expect(at is None or event["position"] == at, f"{event}: expected position {at}")
            ids, at = ids + [event["token"]], event["position"] + 1
        seen[key] = ids, text + event["text"], at
        if event["finish"]:
            ended.add(key)
    expect(not seen, f"no answer for {seen.keys()}")


def start(*args, **how):
    return subprocess.Popen([PROGRAM, *map(str, args)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, **how)


def end_of(program):
    """What is left of its output, and its status; one that does not end is killed."""
    clock = threading.Timer(60, program.kill)
    clock.start()
    with program.stdout, program.stderr:
        out, err = program.stdout.read(), program.stderr.read()
        code = program.wait()
    clock.cancel()
    return out, err, code


def test_lines_come_as_they_are_ready():
    program = start("-m", stories(), "--requests", "-")
    program.stdin.write(lines([{"prompt": "a", "max_tokens": 3},
                               {"prompt": "b", "max_tokens": 3, "arrival_ms": 1500}]).encode())
    program.stdin.close()
    first = json.loads(program.stdout.readline())
    expect(first["line"] == 1 and program.poll() is None, "the first line waits for the second")
    rest, _, code = end_of(program)
    second = json.loads(rest)
    expect(code == 0 and second["line"] == 2, "the second line")
    expect(second["times"]["latency_ms"] < 1400, f"latency counts from the arrival: {second['times']}")


# ---------------------------------------------------------------- ends

def test_stops():
    whole = good("-m", stories(), "-p", "", "-n", 100).decode()
    for stop in ("Lily", "red ball", ". ", "girl named"):
        got = document("-m", stories(), "-p", "", "-n", 100, "--stop", "zebra", "--stop", stop)["samples"][0]
        expect(got["text"] == whole[:whole.index(stop)] and got["finish"] == "stop", f"{stop!r}: {got['text']!r}")
    got = document("-m", stories(), "--ids", 1, "-n", 100, "--stop-id", "9,261", "--stop-id", 378)["samples"][0]
    expect(got["ids"] == [403, 407, 261] and got["finish"] == "stop", f"stop id: {got}")
    got = document("-m", stories(), "--ids", 1, "-n", 100, "--stop", "zebra")["samples"][0]
    expect(got["text"] == whole and got["finish"] == "length", "a stop text that does not come")
    got = document("-m", stories(), "--ids", 1, "-n", 100, "--max-context", 50)["samples"][0]
    expect(got["finish"] == "context" and len(got["ids"]) == 49, f"context: {got['finish']}")
    ends = document("-m", stories(), "--ids", 1, "-n", 100, "--stop-id", 2, "--ignore-eos")["samples"][0]
    expect(ends["ids"] == got["ids"] + ends["ids"][49:] and len(ends["ids"]) == 100, "ignore-eos")


def test_deadline():
    got = answers([{"prompt": "a", "max_tokens": 400, "ignore_eos": True, "deadline_ms": 0.001},
                   {"prompt": "a", "max_tokens": 2}])
    expect([a["samples"][0]["finish"] for a in got] == ["deadline", "length"], f"{got}")


@in_folder
def test_signals(folder):
    """What there is gets printed, in a whole file too; what waits for later is cancelled."""
    requests = lines([{"prompt": "a", "max_tokens": 3}, {"prompt": "b", "arrival_ms": 300000}]).encode()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell in the background ignores it for all below
    for number in (signal.SIGINT, signal.SIGTERM):
        for to_file in (False, True):
            out = folder / "out.jsonl"
            more = ("-o", out, "--progress") if to_file else ("--stream",)
            program = start("-m", stories(), "--requests", "-", *more)
            program.stdin.write(requests)
            program.stdin.close()
            if to_file:
                expect(b"requests done" in program.stderr.readline(), "a first step")
            else:
                expect(json.loads(program.stdout.readline())["event"] == "token", "a first event")
            program.send_signal(number)
            text, err, code = end_of(program)
            expect(code == 128 + number and (err == b"" or to_file), f"exit {code}, {err}")
            got = [json.loads(line) for line in (out.read_bytes() if to_file else text).splitlines()]
            got = [a for a in got if "event" not in a]
            expect([a["line"] for a in got] == [1, 2], f"{got}")
            expect(got[1]["samples"][0]["finish"] == "cancel", f"{got[1]}")
            expect(sorted(p.name for p in folder.iterdir()) == (["out.jsonl"] if to_file else []), "files")
            out.unlink(missing_ok=True)


def test_ignored_signal():
    """A job in the background, whose shell ignores Ctrl-C for it, goes on."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        program = start("-m", stories(), "--requests", "-", "--stream")
    finally:
        signal.signal(signal.SIGINT, before)
    program.stdin.write(lines([{"prompt": "a", "max_tokens": 1}, {"prompt": "b", "max_tokens": 1,
                                                                  "arrival_ms": 300}]).encode())
    program.stdin.close()
    program.stdout.readline()
    program.send_signal(signal.SIGINT)
    text, err, code = end_of(program)
    got = [json.loads(line) for line in text.splitlines()]
    expect(code == 0 and err == b"" and got[-1]["samples"][0]["finish"] == "length", f"exit {code}, {err}, {got}")


def test_reader_goes_away():
    program = start("-m", stories(), "-p", "", "-n", 500, "--ignore-eos")
    program.stdin.close()
    program.stdout.read(5)
    program.stdout.close()
    err = program.stderr.read()
    program.stderr.close()
    expect(program.wait(60) in (0, -signal.SIGPIPE, 5) and err == b"", f"said {err}")


@in_folder
def test_output_file(folder):
    want = good("-m", stories(), "-p", "", "-n", 20)
    (folder / "out.txt").write_text("old")
    expect(good("-m", stories(), "-p", "", "-n", 20, "-o", folder / "out.txt") == b"", "stdout")
    expect((folder / "out.txt").read_bytes() == want, "the file")
    expect(good("-m", stories(), "-p", "", "-n", 20, "-o", "-", cwd=folder) == want, "- is stdout")
    expect([p.name for p in folder.iterdir()] == ["out.txt"], "something was left behind")
    if os.path.exists("/dev/full"):
        refused(5, "/dev/full: writing failed: No space left", "-m", stories(), "-p", "", "-o", "/dev/full")
        with open("/dev/full", "wb") as full:
            code, _, err = run("-m", stories(), "-p", "", stdout=full)
        expect(code == 5 and err == "pkv-generate: stdout: writing failed: No space left on device\n", err)


def test_terminal():
    """There the text ends with a newline, and is progress enough."""
    terminal, end = pty.openpty()
    program = subprocess.Popen([PROGRAM, "-m", stories(), "-p", "", "-n", "3"], stdout=end, stderr=end)
    os.close(end)
    out = b""
    with contextlib.suppress(OSError):  # of the last reading
        while got := os.read(terminal, 1000):
            out += got
    os.close(terminal)
    expect(program.wait(60) == 0 and out == b"Once upon a\r\n", f"{out}")
    terminal, end = pty.openpty()
    program = subprocess.Popen([PROGRAM, "-m", stories(), "-p", "", "-n", "3"], stdout=subprocess.PIPE, stderr=end)
    os.close(end)
    expect(program.communicate(timeout=60)[0] == b"Once upon a", "the text elsewhere")
    expect(b"of 1 requests done" in os.read(terminal, 1000), "progress on the terminal")
    os.close(terminal)


# ---------------------------------------------------------------- figures

def test_stats():
    args = ("-m", stories(), "-p", "", "-n", 50)
    code, out, err = run(*args, "--stats", "--peaks", "10,20")
    expect(code == 0 and out == good(*args), "the text stays the same")
    for word in ("1 finished, 1 by length; 0 refused", "prompt     1 tokens", "output     50 tokens", "TTFT", "ITL",
                 "blocks at most", "preempted 0", "exact", "FLOP per byte, memory bounds below 2.00: bound by"):
        expect(word in err, f"{word!r} is not in {err}")
    expect(not re.search(r"\bnan\b|\binf\b", err), err)
    expect(json.loads(run(*args, "--stats-format", "json")[2]), "JSON figures")
    prometheus = run(*args, "--stats-format", "prometheus")[2]
    expect("# TYPE " in prometheus and re.search(r"^\w+(\{[^}]*\})? [-+.\w]+$", prometheus, re.M), prometheus)


def test_progress():
    code, _, err = run("-m", stories(), "-p", "", "-n", 5, "--progress")
    expect(code == 0 and re.match(r"[01] of 1 requests done, \d running, \d waiting; \d+ tokens, ", err), err)
    expect(run("-m", stories(), "-p", "", "-n", 5)[2] == "", "progress where nobody looks")


if __name__ == "__main__":
    sys.exit(tap_main.run_tests(globals()))
