#!/usr/bin/env python3
"""Random command lines of pkv-fragsim: whatever is asked, the answer is a report whose parts add up, or
one line that says why not; and the naive engine with its checks gives the same report. Prints TAP.

usage: test_fragsim_random.py PROGRAM        PKV_SEED=N repeats one case, PKV_CASES=N sets their number
"""
import json
import os
import random
import sys
import tempfile

import tap_main
from fragsim_program import expect, run

FIRST_SEED = 20_000
POLICIES = ("max", "pow2", "oracle", "max:ideal", "pow2:alloc=first-fit", "oracle:best-fit", "oracle:next-fit",
            "oracle:compact", "static-batch", "orca-real", "orca-real:max_tokens=300", "paged", "paged:block=7",
            "paged+prefix", "paged+swap:block=3", "paged+prefix+swap", "paged+fork:n=3", "paged+beam:width=3",
            "vattn:page=64K", "paged+recompute:block=1", "paged+prefix+fork:n=2")
# (option, values); those of RARE are often refused beside others
USUAL = (("--max-model-len", (50, 500, 1025, 2048)), ("--max-num-seqs", (1, 3, 256)), ("--watermark", (0, 0.05, 0.3)),
         ("--admit", ("fcfs", "skip")), ("--prefill-rate", (1, 5000)), ("--prefill-chunk", (1, 64, 4000)),
         ("--max-num-batched-tokens", (1, 100, 4096)), ("--step-time", ("1", "1ms*batch", "5ms+1us*tokens")),
         ("--window", ("all", "arrivals", "queued", "auto")), ("--slo", ("ttft=1", "tpot=20ms,norm=1")),
         ("--percentile-method", ("nearest",)), ("--seed", (1, 77)), ("--threads", (1, 3)))
RARE = (("--block-tokens", (1, 16, 100)), ("--swap-space", (0, "100MB", 4)), ("--swap-bandwidth", ("inf", "1GB")),
        ("--copy-latency", (0, "1ms")), ("--bandwidth", ("inf", "1GB")), ("--shared-prefix", (1, 40, 5000)),
        ("--request-rate", (0.01, 3, "inf")), ("--arrival", ("constant", "gamma", "artifact")),
        ("--burstiness", (0.2, 5)), ("--concurrency", (1, 4, 1000)), ("--all-at-once", None),
        ("--target-rate", (2,)), ("--time-scale", (0.01, 3)), ("--in-order", None),
        ("--kv-memory", ("1GB", "100MiB")), ("--num-blocks", (30,)), ("--model", ("llama-3-8b", "opt-66b")),
        ("--tensor-parallel", (2, 7)), ("--kv-dtype", ("fp8", "int4")), ("--zero-output", ("keep",)),
        ("--filter", ("vllm", "sglang")), ("--max-requests", (3,)), ("--start", (2,)), ("--duration", (4,)))


def pick(rng, options, share):
    args = []
    for name, values in options:
        if rng.random() < share:
            args += [name] if values is None else [name, str(rng.choice(values))]
    return args


def source(rng, folder):
    """Options that say where requests come from."""
    kind = rng.randrange(4)
    if kind == 0:
        return ["--lengths", rng.choice(("fixed:30,9", "uniform:1-90,1-60", "alpaca-like", "zipf:1,200,1.2,50",
                                         "lognormal:40,1,30,2", "gamma:50,2,20,0.5"))]
    rows = []
    for k in range(rng.randrange(1, 60)):
        i, o = rng.randrange(1, 200), rng.randrange(0, 60)
        ids = [rng.randrange(4) for _ in range(-(-i // 16))]
        rows.append(f'{{"timestamp": {k * rng.randrange(9) * 100}, "input_length": {i}, "output_length": {o}, '
                    f'"hash_ids": {ids}}}\n' if kind == 1 else f"{k},{i},{o}\n")
    name = os.path.join(folder, "t.jsonl" if kind == 1 else "t.csv")
    with open(name, "w", encoding="ascii") as file:
        file.write("".join(rows) if kind == 1 else "arrived_at,num_prefill_tokens,num_decode_tokens\n" + "".join(rows))
    return ["--lengths" if kind == 3 else "--trace", name] + (["--hash-block-size", "16"] if kind == 1 else [])


def check_report(report):
    for p in report["policies"]:
        expect(p["finished"] + p["too_long"] == p["requests"] == report["requests"]["n"], "requests")
        s = p["split"]
        if s is not None:
            parts = [s["token"], s["reservation"], s["internal"], s["external"], *s["external_split"].values()]
            expect(min(parts) >= 0 and abs(sum(parts[:4]) - 1) < 1e-11, f"{p['policy']}: {parts}")
        for name in ("e2e_s", "ttft_s", "tpot_s", "normalized_s_per_token"):
            d = p[name]
            expect(d["n"] == 0 or d["p50"] <= d["p90"] <= d["p99"] <= d["max"], f"{p['policy']}: {name}")


def same(one, other):
    for report in (one, other):
        report["repro_command"] = report["config"]["engine"] = report["config"]["check"] = None
    return one == other


def one_case(seed, folder):
    rng = random.Random(seed)
    args = source(rng, folder)
    if rng.random() < 0.7:
        args += ["--num-prompts", str(rng.randrange(1, 120))] + (["--repeat"] if args[0] == "--trace" else [])
    for policy in rng.sample(POLICIES, rng.randrange(1, 5)):
        args += ["--policy", policy]
    if rng.random() < 0.8:
        args += ["--kv-tokens", str(rng.choice((20, 150, 300, 700, 3000, 20000)))]
    args += pick(rng, USUAL, 0.15) + pick(rng, RARE, 0.02)
    line = " ".join(args)
    code, out, err = run("run", *args, "--json", "-")
    expect(code in (0, 1, 2), f"seed {seed}: exit {code}: {line}: {err}")
    if code == 2:
        expect(out == "" and err.startswith("pkv-fragsim: ") and err.count("\n") == 1, f"seed {seed}: {line}: {err!r}")
        expect("contract" not in err, f"seed {seed}: {line}: no reason given: {err!r}")
        return False
    expect((code == 1) == (err != ""), f"seed {seed}: {line}: {err}")
    report = json.loads(out)
    check_report(report)
    naive = run("run", *args, "--json", "-", "--engine", "naive", "--check")
    expect(naive[0] == code, f"seed {seed}: {line}: exit {naive[0]}: {naive[2]}")
    expect(same(report, json.loads(naive[1])), f"seed {seed}: naive differs: {line}")
    return True


def test_random_lines():
    seed = os.environ.get("PKV_SEED")
    cases = [int(seed)] if seed else range(FIRST_SEED, FIRST_SEED + int(os.environ.get("PKV_CASES", "100")))
    print(f"# seeds {cases[0]} to {cases[-1]}")
    with tempfile.TemporaryDirectory() as folder:
        n_ran = sum(one_case(seed, folder) for seed in cases)
    print(f"# {n_ran} of {len(cases)} lines ran, the others were refused")
    expect(len(cases) == 1 or n_ran > len(cases) / 4, "too few lines ran")


if __name__ == "__main__":
    sys.exit(tap_main.run_tests(globals()))
