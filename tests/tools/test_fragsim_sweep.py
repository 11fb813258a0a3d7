#!/usr/bin/env python3
"""Sweeps of pkv-fragsim against single runs; and the same bytes on any number of threads. Prints TAP.

usage: test_fragsim_sweep.py PROGRAM
"""
import csv
import json
import re
import sys

import tap_main
from fragsim_program import (TRACE, compare_row, expect, good, in_folder, refused, report, run)


# ---------------------------------------------------------------- sweep

def options_at(place):
    return [part for pair in place.items() for part in pair]


@in_folder
def test_sweep_is_its_single_runs(folder):
    (folder / "t.csv").write_text(TRACE)
    policies = ("--policy", "paged", "--policy", "oracle:best-fit", "--slo", "ttft=2")
    cases = (
        ("--num-prompts", "150", "--request-rate", "2,8,inf", "--block-tokens", "1-16*4"),
        ("--num-prompts", "100-200+50", "--seed", "1,2", "--kv-tokens", "4000,9000"),
        ("--trace", "t.csv", "--target-rate", "2,6", "--kv-memory", "2GiB,3GiB", "--max-model-len", "400"),
        ("--num-prompts", "80", "--watermark", "0,0.05", "--max-num-seqs", "5,500", "--max-model-len",
         "600,1200", "--prefill-rate", "1000,100000"),
    )
    for case in cases:
        whole = json.loads(good("sweep", *case, *policies, "--json", "-", "--csv", "s.csv", cwd=folder))
        rows = csv.DictReader((folder / "s.csv").read_text().splitlines())
        axes = {axis["option"]: axis["values"] for axis in whole["axes"]}
        n_points = 1
        for values in axes.values():
            n_points *= len(values)
        expect(len(whole["points"]) == n_points, "the whole grid")
        fixed = [arg for arg in zip(case[::2], case[1::2]) if arg[0] not in axes]
        for point in whole["points"]:
            single = report("run", *[part for arg in fixed for part in arg], *options_at(point["at"]),
                            *policies, cwd=folder)
            expect(point["policies"] == single["policies"], f"{point['at']}: policies")
            expect(all(single["config"][k] == v for k, v in point["config"].items()), "configuration")
            used = dict(whole["inputs"][point["input"]])
            expect(used.pop("requests") == single["requests"], f"{point['at']}: requests")
            expect(used == single["input"], f"{point['at']}: input")
            for policy in point["policies"]:
                row = next(rows)
                for option, value in point["at"].items():
                    expect(row.pop(option) == value, f"{option} in CSV")
                compare_row(row, policy, point["config"])
        expect(next(rows, None) is None, "more rows than points and policies")


def test_knee():
    """The highest rate at which latency stays within K times that of a closed loop of one client."""
    args = ("--num-prompts", "300", "--policy", "max", "--policy", "paged")
    rates = [0.25, 0.5, 1, 2, 4, 8]
    for factor in (1.05, 2, 50, 0.5):
        whole = report("sweep", *args, "--request-rate", "8,0.25-4*2,inf", "--knee", factor)
        alone = report("run", *args, "--concurrency", "1")["policies"]
        expect(whole["knee_factor"] == factor, "factor")
        for k, knee in enumerate(whole["knees"]):
            limit = factor * alone[k]["normalized_s_per_token"]["mean"]
            expect(knee["alone_s_per_token"] == alone[k]["normalized_s_per_token"]["mean"], "alone")
            latency = {float(p["at"]["--request-rate"]): p["policies"][k]["normalized_s_per_token"]["mean"]
                       for p in whole["points"] if p["at"]["--request-rate"] != "inf"}
            expect(sorted(latency) == rates, "rates")
            within = [rate for rate in rates if latency[rate] <= limit]
            expect(knee["requests_per_s"] == (max(within) if within else None), f"{factor}: {knee}, {latency}")
            expect(knee["highest_tried"] == (bool(within) and max(within) == 8), f"{factor}: {knee}")
    out = good("sweep", *args, "--request-rate", "0.25-8*2", "--max-num-seqs", "1,256")
    expect(out.count("\nknee at max-num-seqs") == 4 and "2 times" in out, out)
    expect("knee" not in good("sweep", *args, "--max-num-seqs", "1,256"), "no rate, no knee")


def test_sweep_refuses():
    small = ("sweep", "--num-prompts", "5")
    refused("no option has several values", *small)
    refused("no option has several values", *small, "--request-rate", "4")
    refused("--knee needs several values of --request-rate", *small, "--seed", "1,2", "--knee", "3")
    refused("simulations, at most 20000", *small, "--seed", "1-200+1", "--max-num-seqs", "1-200+1")
    refused("stdin can be read only once", "sweep", "--trace", "-", "--target-rate", "1,2", stdin=TRACE)
    refused("at most 4 options", *small, *[part for name in ("seed", "kv-tokens", "max-num-seqs",
                                                             "max-model-len", "request-rate")
                                           for part in ("--" + name, "1000,2000")])
    refused("has no room for one block", *small, "--kv-tokens", "1000,10")
    refused("--max-num-seqs: '0'", *small, "--max-num-seqs", "4,0")
    code, _, err = run(*small, "--max-model-len", "2,3")
    expect(code == 1 and "no request finished anywhere" in err, err)
    good("sweep", "--trace", "-", "--all-at-once", "--max-num-seqs", "1,2", stdin=TRACE)


def test_sweep_tells_of_rejected_requests():
    args = ("sweep", "--num-prompts", "100", "--policy", "max", "--policy", "paged")
    whole = report(*args, "--max-model-len", "500,300,2048")
    worst = [max(point["policies"][k]["too_long"] for point in whole["points"]) for k in range(2)]
    expect(worst[0] > 20 and whole["notes"] == [
        f"{name}: requests are too long and were rejected, at most {n} of 100 at a point"
        for name, n in zip(("max", "paged"), worst)], str(whole["notes"]))
    expect(report(*args, "--max-model-len", "2048,4096")["notes"] == [], "nothing is rejected")


# ---------------------------------------------------------------- the same bytes

@in_folder
def test_threads_change_nothing(folder):
    commands = (
        ("run", "--num-prompts", "200", "--json", "a", "--csv", "b", "--timeseries", "c", "--events", "d"),
        ("sweep", "--num-prompts", "100", "--request-rate", "1-8*2", "--block-tokens", "4,16", "--json", "a",
         "--csv", "b"),
    )
    for command in commands:
        seen = set()
        for path in folder.iterdir():
            path.unlink()
        for threads in (1, 2, 7, 1):
            table = good(*command, "--threads", threads, cwd=folder)
            texts = [path.read_text() for path in sorted(folder.iterdir())]
            expect(len(texts) == len({"a", "b", "c", "d"} & set(command)), "files")
            texts = [re.sub(r'"repro_command": .*', "", text) for text in texts]
            seen.add((table, *texts))
        expect(len(seen) == 1, f"{command[0]}: the number of threads shows")


def test_first_failure_is_told_once():
    """Which simulation fails first by the clock must not show."""
    seen = {run("run", "--num-prompts", "30000", "--policy", "paged", "--policy", "max", "--policy", "oracle",
                "--all-at-once", "--step-time", "1000s+1000s*batch+1s*tokens", "--threads", threads)
            for threads in (1, 2, 7)}
    expect(len(seen) == 1, str(seen))
    code, out, err = seen.pop()
    expect(code == 2 and out == "" and err.startswith("pkv-fragsim: paged:block=16: ") and
           err.count("\n") == 1, err)
    seen = {run("sweep", "--policy", "paged", "--policy", "max", "--all-at-once", "--num-prompts",
                "10,20,30000,30001", "--max-num-seqs", "5,6", "--step-time",
                "1000s+1000s*batch+1s*tokens", "--threads", threads) for threads in (1, 2, 7)}
    expect(seen == {(2, "", "pkv-fragsim: paged:block=16 at --num-prompts 30000, --max-num-seqs 5: the run "
                            "lasts longer than 2^62 ns\n")}, str(seen))


if __name__ == "__main__":
    sys.exit(tap_main.run_tests(globals()))
