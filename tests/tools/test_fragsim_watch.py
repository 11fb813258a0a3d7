#!/usr/bin/env python3
"""The time series and the events of pkv-fragsim, against the totals of the same run. Prints TAP.

usage: test_fragsim_watch.py PROGRAM
"""
import csv
import json
import os
import random
import re
import sys

import tap_main
from fragsim_program import TRACE, close, expect, flat, good, in_folder, refused, report, run


# ---------------------------------------------------------------- series

WATCHED = (
    ("--num-prompts", "150", "--request-rate", "20"),
    ("--num-prompts", "100", "--all-at-once", "--policy", "paged", "--policy", "max:best-fit", "--policy",
     "oracle:compact", "--policy", "static-batch", "--policy", "orca-real", "--policy", "vattn:page=64K"),
    ("--num-prompts", "100", "--concurrency", "40", "--policy", "paged+prefix", "--shared-prefix", "100",
     "--kv-tokens", "6007"),
    ("--num-prompts", "100", "--request-rate", "20", "--policy", "paged+swap", "--policy",
     "paged+fork:n=2", "--kv-tokens", "5000", "--max-model-len", "1500"),
    ("--num-prompts", "100", "--request-rate", "20", "--policy", "paged", "--prefill-rate", "3000",
     "--prefill-chunk", "100", "--max-num-batched-tokens", "300"),
)
PARTS = "token reservation internal rounding unusable short limited idle".split()


def of_policies(rows):
    groups = {}
    for row in rows:
        groups.setdefault(row["policy"], []).append(row)
    return groups


def nanoseconds(text):
    whole, part = text.split(".")
    expect(len(part) == 9, f"{text}: not whole nanoseconds")
    return int(whole) * 10**9 + int(part)


def whole_numbers(rows):
    return [{name: nanoseconds(text) if name == "t_s" else text if name == "policy" else int(text)
             for name, text in row.items()} for row in csv.DictReader(rows.splitlines())]


def watched(folder, *args):
    """JSON, series by policy, events by policy."""
    whole = json.loads(good("run", *args, "--timeseries", "t", "--events", "e", "--json", "-", cwd=folder))
    series = of_policies(whole_numbers((folder / "t").read_text()))
    events = of_policies(map(json.loads, (folder / "e").read_text().splitlines()))
    names = [p["policy"] for p in whole["policies"]]
    expect(list(series) == names and list(events) == names, "policies in order")
    return whole, series, events


@in_folder
def test_series_fill_the_pool(folder):
    for args in WATCHED:
        whole, series, _ = watched(folder, *args)
        config = whole["config"]
        intervals = set()
        for policy in whole["policies"]:
            rows = series[policy["policy"]]
            vattn = policy["policy"].startswith("vattn")  # in bytes of one tensor
            pool = config["kv_tokens"] * (config["tensor_token_bytes"] if vattn else 1)
            free = [sum(row[part] for part in ("unusable", "short", "limited", "idle")) for row in rows]
            expect(all(sum(row[part] for part in PARTS) == pool for row in rows), "parts of the pool")
            expect(all(value >= 0 for row in rows for name, value in row.items() if name != "policy"),
                   "a negative part")
            expect(all(row["largest_free_run"] <= f for row, f in zip(rows, free)), "largest free run")
            expect(max(row["running"] for row in rows) <= policy["max_batch"], "more than the largest batch")
            expect(all(row["running"] + row["waiting"] + row["swapped"] <= policy["requests"]
                       for row in rows), "more than there are")
            steps = {b["t_s"] - a["t_s"] for a, b in zip(rows, rows[1:])}
            expect(len(steps) == 1, "moments are not evenly spaced")
            intervals |= steps
            last = rows[-1]["t_s"] + max(steps)
            expect(rows[-1]["t_s"] <= policy["end_ns"] <= last, "until the last request is done")
            expect(len(rows) <= 4801, "too many")
        expect(len(intervals) == 1, "policies have different moments")
        span = whole["requests"]["span_ns"] if "--concurrency" not in args else 0
        covered = span or min(p["end_ns"] for p in whole["policies"])
        longest = max(p["end_ns"] for p in whole["policies"])
        if longest < 20 * covered:
            expect(intervals == {(covered - 1) // 240 + 1}, f"{intervals} for {covered}")


@in_folder
def test_series_average_to_the_report(folder):
    """Steps of a second, a row per step: the mean of the rows is what was integrated."""
    whole, series, _ = watched(folder, "--num-prompts", "60", "--all-at-once", "--step-time", "1", "--window",
                               "all", "--sample-interval", "1", "--policy", "max", "--policy", "oracle",
                               "--policy", "paged", "--kv-tokens", "5003")
    config = whole["config"]
    for policy in whole["policies"]:
        rows = series[policy["policy"]]
        rows = rows[:policy["steps"]]
        expect([row["step"] for row in rows] == list(range(policy["steps"])), "a row per step")
        slots = len(rows) * config["kv_tokens"]
        columns = flat(policy["split"])
        for part in ("token", "reservation", "internal", "rounding", "unusable", "short", "limited", "idle",
                     "of_which_watermark", "of_which_tail", "logical"):
            mean = sum(row[part] for row in rows) / slots
            expect(abs(mean - columns[part]) < 1e-14, f"{part}: {mean}, in the report {columns[part]}")
        mean = sum(row["running"] for row in rows) / len(rows)
        expect(abs(mean - policy["mean_batch"]) < 1e-12, f"batch {mean}, {policy['mean_batch']}")
        waste = sum(config["kv_tokens"] - row["token"] for row in rows if row["waiting"] > 0) / slots
        expect(abs(waste - policy["waste"]["waited_share"]) < 1e-14, f"waste while somebody waits: {waste}")
        scatter = policy["places"]["scatter"]
        if policy["policy"] in ("max", "oracle"):
            free = [(sum(row[part] for part in ("unusable", "short", "limited", "idle")),
                     row["largest_free_run"]) for row in rows]
            ratios = [1 - largest / slots for slots, largest in free if slots > 0]
            mean = sum(ratios) / len(ratios)
            expect(abs(mean - scatter) < 1e-6, f"scatter {mean}, in the report {scatter}")  # kept in ppm
        else:
            expect(scatter is None, f"{policy['policy']}: scatter {scatter}")


def test_sample_interval_has_a_limit():
    args = ("run", "--num-prompts", "5", "--all-at-once", "--policy", "max", "--timeseries", "-")
    end_ns = report("run", "--num-prompts", "5", "--all-at-once", "--policy", "max")["policies"][0]["end_ns"]
    rows = good(*args, "--sample-interval", f"{end_ns // 3}ns").splitlines()[1:]
    expect([nanoseconds(row.split(",")[1]) for row in rows] == [k * (end_ns // 3) for k in range(4)] or
           [nanoseconds(row.split(",")[1]) for row in rows] == [k * (end_ns // 3) for k in range(3)], rows)
    refused("--sample-interval gives", *args, "--sample-interval", "1ns")
    _, _, err = run(*args, "--sample-interval", "1ns")
    least = re.search(r"at most 1000000 are possible; give at least (\d+(\.\d+)?) (ns|us|ms)\n", err)
    expect(least, err)


# ---------------------------------------------------------------- events

def replay(events, outputs):
    """Batch over time from the events alone: totals that the report must have, too."""
    running, swapped, slots, arrived, finished = {}, set(), {}, {}, {}
    got = {"admissions": 0, "preemptions": 0, "swaps": 0, "too_long": 0, "moved": 0, "integral": 0,
           "max_batch": 0, "preempted": set(), "most_slots": 0, "first": None}
    now = None
    for e in events:
        kind, t, r = e["event"], e["t_ns"], e.get("request")
        if kind not in ("arrive", "reject"):
            expect(now is None or t >= now, "time goes backwards")
            if now is not None and t > now:
                got["integral"] += len(running) * (t - now)
                got["max_batch"] = max(got["max_batch"], len(running))
                got["most_slots"] = max(got["most_slots"], sum(slots.values()))
            now = t
        if kind == "arrive":
            arrived[r] = t
        elif kind == "reject":
            got["too_long"] += 1
        elif kind == "admit":
            expect(r in arrived and r not in running and r not in finished and r not in swapped, f"admit {e}")
            got["admissions"] += 1
            got["first"] = t if got["first"] is None else got["first"]
            running[r] = t
        elif kind == "grow":
            expect(r in running and e["slots"] > slots[r], f"grow {e}")
        elif kind in ("preempt", "swap_out"):
            running.pop(r)
            got["preemptions"] += 1
            got["preempted"].add(r)
            got["swaps"] += kind == "swap_out"
            if kind == "swap_out":
                swapped.add(r)
        elif kind == "swap_in":
            swapped.remove(r)
            running[r] = t
        elif kind == "move":
            got["moved"] += e["tokens"]
        elif kind == "finish":
            running.pop(r)
            finished[r] = t
            expect(e["tokens"] == outputs[r], f"{e}: has {outputs[r]} tokens at its end")
        if r is not None and kind not in ("arrive", "reject"):
            slots[r] = e["slots"]
            expect((slots[r] == 0) == (r not in running), f"{e}: slots of who does not run")
    expect(not running and not swapped, "somebody is left over")
    got["finished"] = len(finished)
    got["last"] = max(finished.values())
    got["e2e"] = sum(finished[r] - arrived[r] for r in finished) / len(finished) / 1e9
    return got


@in_folder
def test_events_replay(folder):
    """On a trace, whose lengths are known here."""
    lengths = [(20 + k * 37 % 300, 1 + k * 53 % 200) for k in range(150)]
    finals = [i + o for i, o in lengths]
    (folder / "t.csv").write_text(TRACE)
    cases = (
        ("--target-rate", "30"), ("--all-at-once", "--policy", "oracle:compact", "--policy", "paged"),
        ("--concurrency", "30", "--policy", "paged", "--policy", "static-batch"),
        ("--target-rate", "50", "--policy", "paged+swap", "--swap-space", "1", "--max-model-len", "400"),
        ("--target-rate", "50", "--policy", "paged:block=7", "--admit", "skip", "--prefill-rate", "10000",
         "--prefill-chunk", "64", "--max-num-batched-tokens", "256"),
    )
    for case in cases:
        texts = {}
        for engine in ("leap", "naive"):
            args = ("--trace", "t.csv", *case, "--kv-tokens", "2500", "--window", "all", "--engine", engine)
            if "--max-model-len" not in case:
                args += ("--max-model-len", "450")
            whole, _, events = watched(folder, *args)
            texts[engine] = [(folder / name).read_text() for name in "te"]
        expect(texts["leap"] == texts["naive"], f"{case}: naive and leap differ")
        preempted = 0
        for p in whole["policies"]:
            got = replay(events[p["policy"]], finals)
            preempted += p["preemptions"]
            for name in ("admissions", "preemptions", "too_long", "finished", "max_batch"):
                expect(got[name] == p[name], f"{case} {p['policy']}: {name} {got[name]}, report {p[name]}")
            expect(len(got["preempted"]) == p["preempted_requests"], "requests preempted")
            expect(got["swaps"] == p["moves"]["swaps"], "swaps")
            expect(got["moved"] == p["moves"]["compacted_tokens"], "moved tokens")
            expect(got["last"] - got["first"] == p["window_ns"] and got["last"] == p["end_ns"], "window")
            close(got["integral"] / p["window_ns"], p["mean_batch"], f"{case} {p['policy']}: batch")
            close(got["e2e"], p["e2e_s"]["mean"], "mean latency")
            expect(got["most_slots"] <= 2500, "more slots than the pool has")
        expect(preempted > 0 or "paged+swap" not in case, f"{case}: nobody was preempted")


def shared_prompts(seed):
    """Requests of which many begin alike, as JSON lines with 4 tokens per id."""
    rng = random.Random(seed)
    lines = []
    for k in range(60):
        n, family = rng.randint(11, 24), rng.randint(1, 3)
        ids = [1000 * family + j for j in range(min(n, 14))] + [10**6 + 100 * k + j for j in range(n - 14)]
        lines.append(json.dumps({"timestamp": k, "input_length": 4 * n, "output_length": rng.randint(1, 25),
                                 "hash_ids": ids}))
    return "\n".join(lines) + "\n"


def computed_tokens(events):
    """Tokens computed by one request. Who is put out in the step that it started in has computed nothing."""
    total = pending = started = 0
    for e in events:
        if e["event"] == "admit":
            pending = e["tokens"] - e["cached"]
        if e["event"] in ("admit", "swap_in"):
            started = e["step"]
        elif e["event"] == "finish" or (e["event"] in ("preempt", "swap_out") and e["step"] > started):
            total, pending = total + pending, 0
    return total


@in_folder
def test_what_is_computed_takes_prefill_time(folder):
    """Tokens that are not found are computed, also those of a request whose share of the swap space was
    given up. At 1000 tokens per second each takes a million ns."""
    seed, given_up = int(os.environ.get("PKV_SEED", "1")), 0
    for case in range(seed, seed + 40):
        (folder / "t").write_text(shared_prompts(case))
        whole, _, events = watched(
            folder, "--trace", "t", "--hash-block-size", "4", "--all-at-once", "--policy",
            "paged+prefix+swap:block=4", "--num-blocks", "32", "--block-tokens", "4", "--max-model-len", "128",
            "--watermark", "0", "--swap-space", "1GiB", "--prefill-rate", "1000", "--check")
        p, = whole["policies"]
        happened, = events.values()
        admitted = [e for e in happened if e["event"] == "admit"]
        again = sum(e["tokens"] - e["cached"] for e in admitted)
        again -= sum({e["request"]: e["tokens"] - e["cached"] for e in reversed(admitted)}.values())
        computed = sum(computed_tokens([e for e in happened if e["request"] == r]) for r in range(60))
        expect(p["prefill_ns"] == 10**6 * computed, f"seed {case}: {p['prefill_ns']} ns for {computed} tokens")
        expect(p["recomputed_tokens"] == again, f"seed {case}: computed again")
        expect(p["admissions"] == len(admitted), f"seed {case}: admissions")
        given_up += len(admitted) - 60
    expect(given_up > 0, f"seed {seed}: nobody gave the swap space up")


if __name__ == "__main__":
    sys.exit(tap_main.run_tests(globals()))
