#!/usr/bin/env python3
"""What people read: the tables of pkv-fragsim run and the text of inspect. Figures against the JSON of
the same run, widths, colours on a terminal, tables only where they say something. Prints TAP.

usage: test_fragsim_table.py PROGRAM
"""
import json
import os
import pty
import re
import subprocess
import sys

import tap_main
from fragsim_program import PROGRAM, expect, good, in_folder, report, run

MANY = ("--policy", "max", "--policy", "oracle:best-fit", "--policy", "oracle:alloc=compact", "--policy",
        "static-batch", "--policy", "orca-real", "--policy", "paged", "--policy", "paged+prefix+swap:block=32",
        "--policy", "paged+fork:n=3", "--policy", "paged+beam:width=4,switch=0.25", "--policy", "vattn:page=64K")
SCENES = ((), MANY, (*MANY, "--model", "opt-13b", "--slo", "ttft=1", "--prefill-rate", "9999", "--shared-prefix",
                     "50", "--prefill-chunk", "512", "--max-num-batched-tokens", "2048", "--admit", "skip"),
          ("--concurrency", "20"), ("--kv-tokens", "1000000"), ("--max-model-len", "700"),
          ("--paper-accounting", "--policy", "max"))


def tables(text):
    """{title: {policy: [numbers]}}: a title line, then rows until a blank line."""
    found = {}
    for part in re.sub(r"\n {18}(?=\S| )", " ", text).split("\n\n"):
        lines = part.strip("\n").splitlines()
        title = re.split(r" {2,}", lines[0])[0]
        found[title] = {line.split()[0]: [None if word == "-" else float(word) for word in line.split()[1:]]
                        for line in lines[1:] if re.fullmatch(r"\S+( +(-|[-+.e0-9]+))+", line)}
    return found


def test_lines_fit():
    for args in SCENES:
        for width in (80, 120):
            out = good("run", "--num-prompts", "250", *args, "--width", width)
            wide = [line for line in out.splitlines() if len(line) > width]
            expect(not wide, f"{args}: wider than {width}: {wide}")
    for args in (("capacity", *MANY), ("capacity", "--kv-memory", "30GB", "--model", "yi-34b")):
        wide = [line for line in good(*args).splitlines() if len(line) > 80]
        expect(not wide, f"{args}: {wide}")


def test_split_and_service_are_those_of_the_json():
    args = ("run", "--num-prompts", "250", *MANY)
    text, data = tables(good(*args, "--width", "120")), report(*args)
    split, service = text["% of the pool"], text["service"]
    expect(len(split) == len(service) == len(data["policies"]) == 10, str(split))
    for row, times, p in zip(split.values(), service.values(), data["policies"]):
        s = p["split"]
        want = [s["token"], s["reservation"], s["internal"], s["external"],
                *(s["external_split"][k] for k in ("rounding", "unusable", "short", "limited", "idle"))]
        expect(all(abs(got - 100 * w) <= 0.0501 for got, w in zip(row, want)) and len(row) == 9, f"{row}, {want}")
        want = [p["mean_batch"], p["max_batch"], p["preemptions"],
                *(p["normalized_s_per_token"][k] for k in ("mean", "p50", "p99")), p["ttft_s"]["p50"],
                p["ttft_s"]["p99"], p["tpot_s"]["p50"], p["tpot_s"]["p99"], p["e2e_s"]["p50"]]
        expect(len(times) == 11 and all(abs(got - w) <= max(6e-4 * abs(w), 0.0051) for got, w in zip(times, want)),
               f"{times}, {want}")


def test_bars_show_the_shares():
    args = ("run", "--num-prompts", "250", "--policy", "max", "--policy", "pow2", "--policy", "paged")
    bars = re.findall(r"^(\S+) +\|([#=.\- ]*)\|", good(*args), re.M)
    for (name, bar), p in zip(bars, report(*args)["policies"]):
        s = p["split"]
        expect(name == p["policy"] and len(bar) == 60, bar)
        for sign, share in (("#", s["token"]), ("=", s["reservation"]), ("-", s["internal"]),
                            (".", s["external_split"]["rounding"])):
            expect(abs(bar.count(sign) - 60 * share) <= 1, f"{name}: {bar.count(sign)} {sign} for {share}")
    merged = good(*args, "--paper-accounting")
    expect("unusab" not in merged and ". rounding" not in merged and "blank: external" in merged, merged)
    expect(all(len(row) == 4 for row in tables(merged)["% of the pool"].values()), "four figures")


def test_tables_only_where_they_matter():
    plain = set(tables(good("run", "--num-prompts", "100", "--kv-tokens", "1000000")))
    expect(not plain & {"prefix cache, %", "moves", "goals met", "memory", "sequences", "places", "computed again"},
           str(plain))
    for title, args in (("prefix cache, %", ("--policy", "paged+prefix")), ("sequences", ("--policy", "paged+fork")),
                        ("moves", ("--policy", "oracle:alloc=compact")), ("goals met", ("--slo", "tpot=1")),
                        ("memory", ("--model", "opt-13b")), ("places", ("--policy", "oracle:best-fit")),
                        ("computed again", ("--prefill-rate", "1000")),
                        ("parts of these, %", ("--policy", "static-batch"))):
        got = tables(good("run", "--num-prompts", "250", *args))
        expect(got.get(title), f"{title!r} is not in {sorted(got)}")
    args = ("run", "--num-prompts", "250", "--policy", "paged+prefix:block=100", "--policy", "static-batch",
            "--shared-prefix", "300", "--watermark", "0.1")
    for row, p in zip(tables(good(*args))["parts of these, %"].values(), report(*args)["policies"]):
        s = p["split"]
        want = [s[f"of_which_{k}"] for k in ("watermark", "tail", "cached", "dead")]
        expect(all(abs(a - 100 * b) <= 6e-4 * a for a, b in zip(row, want)), f"{row}, {want}")
        expect(row[4] is None if p["policy"] == "static-batch" else abs(row[4] - 100 * s["logical"]) < 0.06, f"{row}")
        expect(sum(x > 0 for x in want) >= (1 if p["policy"] == "static-batch" else 3), f"{p['policy']}: {want}")
    args = ("run", "--num-prompts", "250", "--policy", "paged+prefix", "--shared-prefix", "64", "--slo", "ttft=60",
            "--model", "llama-3-8b")
    got, p = tables(good(*args)), report(*args)["policies"][0]
    (hits,), (goals,), (memory,) = (got[t].values() for t in ("prefix cache, %", "goals met", "memory"))
    want = [p["hits"]["rate"], p["hits"]["block_rate"], p["hits"]["mean_rate"]]
    expect(all(abs(a - 100 * b) <= 0.006 for a, b in zip(hits, want)), f"{hits}, {want}")
    expect(goals[0] == p["good"] and abs(goals[1] - 100 * p["good"] / p["finished"]) < 0.06, f"{goals}")
    expect(abs(memory[0] - p["waste"]["byte_s"] / 2**30) <= 6e-4 * memory[0], f"{memory}, {p['waste']}")


def words(text):
    return " ".join(text.split())


def test_notes():
    out = words(good("run", "--num-prompts", "20", "--kv-tokens", "1000000"))
    expect("no pressure: policies tie" in out and "tenths of the span" not in out, out)
    out = words(good("run", "--num-prompts", "200", "--policy", "paged"))
    expect("no pressure" not in out, "nobody waits with 8 requests per second?")
    out = words(good("run", "--num-prompts", "20", "--policy", "paged+prefix"))
    expect("nothing is known of what the prompts say" in out, out)
    out = words(good("run", "--num-prompts", "20", "--policy", "static-batch", "--max-model-len", "1025"))
    expect("static-batch: a buddy chunk for --max-model-len 1025 has 2048 slots, 2.00 times" in out, out)
    # 2048 is 1.1998 times 1707 and 1.2005 times 1706
    for limit, warned in ((1024, False), (1706, True), (1707, False), (2048, False)):
        out = good("run", "--num-prompts", "20", "--policy", "max", "--max-model-len", limit)
        expect(("buddy chunk" in out) == warned, f"{limit}: {out}")


SLOW_HEAD = "arrived_at,num_prefill_tokens,num_decode_tokens\n0,5,5\n" + "".join(
    f"{90 + k / 10},5,5\n" for k in range(101))


@in_folder
def test_profile(folder):
    """One request in nine tenths of the span of 100 s, a hundred and one in the last."""
    (folder / "t.csv").write_text(SLOW_HEAD)
    out = words(good("run", "--trace", "t.csv", "--policy", "paged", cwd=folder))
    expect("first 0.1, slowest 0 (tenth 2), busiest 10.1 (tenth 10), last 10.1" in out, out)
    out = words(good("inspect", "t.csv", cwd=folder))
    expect("each tenth of the span 0.1 0 0 0 0 0 0 0 0 10.1" in out, out)


@in_folder
def test_inspect_by_hand(folder):
    # three prompts of 3 ids of 512; the second shares two, the third one; the last id covers less
    rows = [(0, 1536, 10, [1, 2, 3]), (500, 1536, 20, [1, 2, 4]), (500, 1030, 30, [1, 5, 6])]
    (folder / "t.jsonl").write_text("".join(
        f'{{"timestamp": {t}, "input_length": {i}, "output_length": {o}, "hash_ids": {ids}}}\r\n'
        for t, i, o, ids in rows))
    out = words(good("inspect", "t.jsonl", cwd=folder))
    prompts, found = 1536 * 2 + 1030, 1024 + 512
    mean = (0 + 1024 / 1536 + 512 / 1030) / 3
    for piece in ("3 read = 3 used", "requests 3 in 0.500 s, 4.000 per second", "in ms; span 0.500 s, mean gap 0.25 s",
                  "1 equal to the one before", "CRLF", "9 ids of 512 tokens, 6 different",
                  f"{100 * found / prompts:.2f} % of the prompt tokens", f"{100 * 3 / 9:.2f} % of the ids",
                  f"{100 * mean:.2f} % as mean per request", f"E[out^2]/E[out] {(100 + 400 + 900) / 60:.1f}"):
        expect(piece in out, f"{piece!r} is not in {out}")
    expect("shareable but below" not in out, "ids of 512 are whole blocks of 16")
    out = words(good("inspect", "t.jsonl", "--block-tokens", "1000", cwd=folder))
    # whole blocks of 1000: one of the second prompt's 1024 shared tokens, none of the third's 512
    expect(f"{100 * 1000 / prompts:.2f} % in blocks of 1000" in out and "536 tokens are shareable but below a block "
           "of 1000" in out, out)


def on_terminal(*args, **more):
    """Output on a pseudo terminal."""
    main, side = pty.openpty()
    done = subprocess.Popen([PROGRAM, *args], stdout=side, stderr=subprocess.PIPE,
                            env={**os.environ, **more})
    os.close(side)
    text = b""
    while True:
        try:
            piece = os.read(main, 65536)
        except OSError:
            break
        if not piece:
            break
        text += piece
    done.communicate()
    os.close(main)
    return text.decode()


def test_colours():
    args = ("run", "--num-prompts", "50", "--policy", "paged", "--quiet")[:-1]
    os.environ.pop("NO_COLOR", None)
    expect("\x1b[" in on_terminal(*args), "no colour on a terminal")
    expect("\x1b[" in on_terminal(*args, NO_COLOR=""), "an empty NO_COLOR counts as none")
    expect("\x1b[" not in on_terminal(*args, NO_COLOR="1"), "NO_COLOR")
    plain = on_terminal(*args, NO_COLOR="1").replace("\r\n", "\n")
    expect(plain == good(*args), "a terminal without colours shows the same")
    expect("\x1b[" not in good(*args), "colours in a pipe")


def test_quiet():
    args = ("run", "--num-prompts", "5", "--quiet")
    expect(good(*args) == "", "--quiet prints")
    expect(good(*args, "--repro-command").endswith("--quiet --repro-command\n"), "just the line")
    swept = good("sweep", "--num-prompts", "5", "--request-rate", "1,2", "--quiet", "--repro-command")
    expect(swept.endswith("--quiet --repro-command\n") and swept.count("\n") == 1, "just the line of a sweep")
    expect(good("capacity", "--quiet") == "", "capacity --quiet prints")
    code, out, err = run("capacity", "--json", "-")
    expect(code == 0 and json.loads(out)["schema"] == "pkv-fragsim/capacity", err)


if __name__ == "__main__":
    sys.exit(tap_main.run_tests(globals()))
