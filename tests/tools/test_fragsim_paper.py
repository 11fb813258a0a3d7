#!/usr/bin/env python3
"""pkv-fragsim paper: every figure of the PagedAttention paper is judged here again, from the raw
simulations in the JSON report and ranges written in this file. Prints TAP.

usage: test_fragsim_paper.py PROGRAM
"""
import csv
import io
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import tap_main

PROGRAM = pathlib.Path(sys.argv[1]).resolve()
POOL = 15728
SHAREGPT, ALPACA = "sharegpt-like", "alpaca-like"


def run(*args, stdout=subprocess.PIPE):
    done = subprocess.run([PROGRAM, "paper", *map(str, args)], stdout=stdout, stderr=subprocess.PIPE, timeout=300)
    return done.returncode, (done.stdout or b"").decode(), done.stderr.decode()


def expect(condition, what):
    if not condition:
        raise AssertionError(what)


REPORTS = {}


def report(*args):
    if args not in REPORTS:
        code, out, err = run("--json", "-", *args)
        REPORTS[args] = code, json.loads(out), err
    return REPORTS[args]


# ---------------------------------------------------------------- figures from the simulations

def runs_of(data, policy, lengths=SHAREGPT, watermark=0.01):
    found = [r for r in data["runs"] if r["policy"] == policy and r["lengths"] == lengths
             and r["config"]["watermark"] == watermark]
    expect(len(found) == 3, f"{policy}, {lengths}, watermark {watermark}: {len(found)} simulations instead of 3")
    expect(len({r["seed"] for r in found}) == 3, f"{policy}: seeds are not three different ones")
    return found


def mean(values):
    values = list(values)
    return sum(values) / len(values)


def part(name):
    return lambda runs: mean(100 * r["split"][name] for r in runs)


def batch(runs):
    return mean(r["mean_batch"] for r in runs)


def preemptions(runs):
    return mean(r["preemptions"] for r in runs)


def saving(runs):
    return mean(100 * r["sharing"]["saving"] for r in runs)


token, reservation, internal, external = map(part, ("token", "reservation", "internal", "external"))
PAGED = "paged:block=16"
FIG2 = "Fig. 2, where the slots are, % of the pool"
FIG13A = "Fig. 13a, requests running, ShareGPT"
FIG13B = "Fig. 13b, requests running, Alpaca"

# (group, cell): (figure, policy, lengths, lowest and highest accepted)
RANGES = {
    (FIG2, "Orca (Max), token states"): (token, "max", SHAREGPT, 18.4, 22.4),
    (FIG2, "Orca (Max), reservation"): (reservation, "max", SHAREGPT, 11.8, 14.8),
    (FIG2, "Orca (Max), internal"): (internal, "max", SHAREGPT, 54.3, 60.3),
    (FIG2, "Orca (Max), external"): (external, "max", SHAREGPT, 8.55, 9.15),
    (FIG2, "Orca (Pow2), token states"): (token, "pow2", SHAREGPT, 23.8, 29.8),
    (FIG2, "Orca (Pow2), reservation"): (reservation, "pow2", SHAREGPT, 15.9, 19.9),
    (FIG2, "Orca (Pow2), internal"): (internal, "pow2", SHAREGPT, 10.1, 17.1),
    (FIG2, "Orca (Pow2), external"): (external, "pow2", SHAREGPT, 36.1, 47.1),
    (FIG2, "Orca (Oracle), token states"): (token, "oracle", SHAREGPT, 35.2, 41.2),
    (FIG2, "Orca (Oracle), reservation"): (reservation, "oracle", SHAREGPT, 23.2, 27.2),
    (FIG2, "Orca (Oracle), internal"): (internal, "oracle", SHAREGPT, 0, 0),
    (FIG2, "Orca (Oracle), external"): (external, "oracle", SHAREGPT, 32.6, 40.6),
    (FIG2, "vLLM (paged 16), token states"): (token, PAGED, SHAREGPT, 94.5, 97.5),
    (FIG13A, "Orca (Max)"): (batch, "max", SHAREGPT, 6.95, 7.05),
    (FIG13A, "Orca (Pow2)"): (batch, "pow2", SHAREGPT, 9.31, 10.31),
    (FIG13A, "Orca (Oracle)"): (batch, "oracle", SHAREGPT, 12.62, 14.62),
    (FIG13A, "vLLM (paged 16)"): (batch, PAGED, SHAREGPT, 28, 37),
    (FIG13B, "Orca (Max)"): (batch, "max", ALPACA, 6.95, 7.05),
    (FIG13B, "Orca (Pow2)"): (batch, "pow2", ALPACA, 40.24, 46.24),
    (FIG13B, "Orca (Oracle)"): (batch, "oracle", ALPACA, 66.75, 78.75),
}
BLOCKS = "Block sizes, % of the pool (Sec. 7.2: 16 is small enough)"
for tokens, share in ((1, 97.2), (8, 96.5), (16, 95.6), (32, 93.9), (64, 90.7), (128, 84.7), (256, 75.5)):
    words = f"{tokens} token{'s' if tokens > 1 else ''}"
    RANGES[BLOCKS, f"{words}, token states"] = (token, f"paged:block={tokens}", SHAREGPT, share - 1.5, share + 1.5)
FORKS = "Sec. 6.3, parallel sampling, % of the blocks saved (paper: 2 to 6 samples)"
for n, share, small in ((2, 16.7, 6.5), (4, 25.1, 9.7), (6, 27.9, 10.8)):
    policy = f"paged+fork:block=16,n={n}"
    RANGES[FORKS, f"ShareGPT, {n} samples"] = (saving, policy, SHAREGPT, share - 3, share + 3)
    RANGES[FORKS, f"Alpaca, {n} samples"] = (saving, policy, ALPACA, small - 1.5, small + 1.5)


def misses(data, ranges):
    """The cells of `ranges` that are not within."""
    out = []
    for name, (figure, policy, lengths, low, high) in ranges.items():
        value = figure(runs_of(data, policy, lengths))
        if not low - 1e-9 <= value <= high + 1e-9:
            out.append(f"{', '.join(name)}: {value:.3f} is not in {low} .. {high}")
    return out


# ---------------------------------------------------------------- tests

def test_every_range_holds():
    code, data, err = report()
    failed = misses(data, RANGES)
    expect(not failed, "; ".join(failed))
    expect(code == 0 and data["passed"] and data["failed"] == 0, f"exit {code}: {err}")


def test_a_wrong_range_is_noticed():
    """The judge above can say no: each range, moved away from its figure, fails alone."""
    data = report()[1]
    for name, (figure, policy, lengths, low, high) in RANGES.items():
        moved = dict(RANGES)
        moved[name] = (figure, policy, lengths, high + 0.5 * (high - low) + 1, 2 * high + 100)
        expect(len(misses(data, moved)) == 1, f"{name}: a wrong range passes")


def test_ratios_of_batches():
    data = report()[1]
    paged, oracle, largest = (batch(runs_of(data, p)) for p in (PAGED, "oracle", "max"))
    expect(2.0 <= paged / oracle <= 2.8, f"vLLM over Orca (Oracle): {paged / oracle}")
    expect(4.0 <= paged / largest <= 5.2, f"vLLM over Orca (Max): {paged / largest}")


def test_internal_waste_of_blocks_follows_from_the_batch():
    data = report()[1]
    for tokens in (1, 8, 16, 32, 64, 128, 256):
        runs = runs_of(data, f"paged:block={tokens}")
        form = 100 * batch(runs) * (tokens + 1) / 2 / POOL
        got = internal(runs)
        expect(abs(got - form) <= 0.1 * form, f"block {tokens}: {got} is not within a tenth of {form}")


def test_sharing_grows_with_the_number_of_samples_and_beams():
    """Beams are shown and not judged, but more of them share more, and samples share less than beams."""
    data = report()[1]
    for lengths in (SHAREGPT, ALPACA):
        forks = [saving(runs_of(data, f"paged+fork:block=16,n={n}", lengths)) for n in (2, 4, 6)]
        beams = [saving(runs_of(data, f"paged+beam:block=16,width={n},switch=0.1", lengths)) for n in (2, 4, 6)]
        expect(0 < forks[0] < forks[1] < forks[2] < 100, f"{lengths}: {forks}")
        expect(0 < beams[0] < beams[1] < beams[2] < 100, f"{lengths}: {beams}")
        expect(all(f < b for f, b in zip(forks, beams)), f"{lengths}: {forks} against {beams}")


def test_watermark_saves_preemptions():
    data = report()[1]
    none, one, five = (preemptions(runs_of(data, PAGED, watermark=w)) for w in (0, 0.01, 0.05))
    expect(none > one > five > 0, f"preemptions {none}, {one}, {five} do not fall")


def test_form_of_max_agrees():
    cells = {(c["group"], c["cell"]): c for c in report()[1]["cells"]}
    data = report()[1]
    for name, figure in (("token states", token), ("reservation", reservation), ("internal", internal),
                         ("external", external)):
        form = cells[FIG2, f"Orca (Max), {name}"]["form"]
        got = figure(runs_of(data, "max"))
        expect(abs(form - got) <= 1, f"{name} of max: form {form}, simulated {got}")


def test_report_says_what_the_runs_say():
    """Cells repeat the simulations, carry these very ranges, and add up."""
    data = report()[1]
    cells = {(c["group"], c["cell"]): c for c in data["cells"]}
    expect(len(cells) == len(data["cells"]), "two cells have one name")
    for name, (figure, policy, lengths, low, high) in RANGES.items():
        cell = cells[name]
        expect(abs(cell["ours"] - figure(runs_of(data, policy, lengths))) < 1e-9, f"{name}: ours")
        expect(abs(cell["ours"] - mean(cell["of_seeds"])) < 1e-9, f"{name}: of_seeds")
        expect(abs(cell["accept_low"] - low) < 1e-9 and abs(cell["accept_high"] - high) < 1e-9, f"{name}: range")
        expect(cell["gated"] and cell["passed"] is True, f"{name}: not judged")
    expect(data["gated"] == sum(c["gated"] for c in data["cells"]), "gated")
    expect(data["failed"] == sum(c["passed"] is False for c in data["cells"]), "failed")
    expect(all((c["passed"] is None) == (not c["gated"]) for c in data["cells"]), "passed without a gate")


def test_a_cell_that_misses():
    """Three samples can be too few: with the seeds 5 to 7 the batch of oracle is 12.61, its least is
    12.62. The exit status, the message and this file agree on it."""
    code, data, err = report("--seed", "5")
    failed = misses(data, RANGES)
    expect(code == 1 and not data["passed"], f"exit {code}")
    expect(any("Orca (Oracle): 12.6" in f for f in failed), failed)
    expect(data["failed"] == len(failed), f"{data['failed']} cells failed, {failed}")
    expect(f"{len(failed)} of {data['gated']} cells are outside" in err, err)


def test_seeds_make_the_figures():
    one, five = report()[1], report("--seed", "5")[1]
    expect(one["cells"] != five["cells"], "other seeds, the same figures")
    for data, seeds in ((one, [1, 2, 3]), (five, [5, 6, 7])):
        expect([r["seed"] for r in runs_of(data, "max")] == seeds, f"seeds {seeds}")


def test_table_on_any_number_of_threads():
    code, out, _ = run("--threads", 1)
    expect(code == 0 and "cells that are judged pass" in out, out[-200:])
    expect(run("--threads", 3)[1] == out, "tables differ")
    expect(all(len(line) <= 80 for line in out.splitlines()), "the table is too wide")
    manual = (pathlib.Path(__file__).resolve().parents[2] / "docs/simulator.md").read_text()
    indented = "".join(f"    {line}\n" if line else "\n" for line in out.splitlines())
    expect(indented in manual, "docs/simulator.md shows another table")
    for cell in report()[1]["cells"]:
        expect(f"  {cell['cell']} " in out and cell["group"] in out, f"{cell['cell']} is not in the table")


def expect_rows(text, cells):
    """The CSV says what the JSON says."""
    rows = list(csv.DictReader(io.StringIO(text)))
    expect(len(rows) == len(cells), "rows of the CSV")
    for row, cell in zip(rows, cells):
        expect(all(row[k] == cell[k] for k in ("group", "cell", "policy", "unit")), row)
        expect(float(row["ours"]) == cell["ours"], row)
        expect((row["passed"] or None) == {True: "true", False: "false", None: None}[cell["passed"]], row)


def test_outputs_and_refusals():
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        code, out, err = run("--quiet", "--json", folder / "a.json", "--csv", folder / "a.csv")
        expect(code == 0 and out == "" and err == "", f"--quiet says {out!r} {err!r}")
        expect(json.loads((folder / "a.json").read_text())["cells"] == report()[1]["cells"], "the file")
        expect(sorted(p.name for p in folder.iterdir()) == ["a.csv", "a.json"], "other files")
        expect_rows((folder / "a.csv").read_text(), report()[1]["cells"])
        code, out, err = run("--json", folder / "b.json", "--csv", folder / "no" / "b.csv")
        expect(code == 2 and "b.csv" in err, f"exit {code}: {err}")
        expect(sorted(p.name for p in folder.iterdir()) == ["a.csv", "a.json"], "a file of a failed run")
        expect(out == "", "a table although a file failed")
    code, _, err = run("--json", "-", "--csv", "-")
    expect(code == 2 and "--json and --csv" in err, err)
    code, _, err = run("--policy", "max")
    expect(code == 2 and "--policy: unknown option of paper" in err, err)
    if os.path.exists("/dev/full"):
        with open("/dev/full", "wb") as full:
            code, _, err = run(stdout=full)
        expect(code == 2 and "stdout: writing failed" in err, f"full disk: exit {code}, {err}")


if __name__ == "__main__":
    sys.exit(tap_main.run_tests(globals()))
