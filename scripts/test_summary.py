#!/usr/bin/env python3
"""Count the tests of one `./dev test` run, per area and per build.

usage: test_summary.py RESULTS_DIR SECONDS

RESULTS_DIR holds, per stage, NN-column.json (lines of meson's testlog.json, or of run_checks.py),
NN-column.rc (exit status of the runner) or NN-column.fail / .skip (one line saying why there is no
json). Single tests of a TAP program count one each; a program that ends with a line "N passed, N
failed, N skipped" of its own counts so many. NN-column.totals has lines "build name count name
count ..", which are added up per build. Exit status 0 only if something ran and nothing failed. The
last line printed is "N passed, N failed, N skipped".
"""
import json
import pathlib
import re
import sys
from collections import defaultdict

TAP_LINE = re.compile(r"^(not )?ok\b *(\d+)?[ -]*(.*)$")
TAP_PLAN = re.compile(r"^1\.\.(\d+)(?:\s*#\s*SKIP\S*\s*(.*))?", re.IGNORECASE)
TAP_SKIP = re.compile(r"#\s*SKIP\S*\s*(.*)$", re.IGNORECASE)
OWN_SKIP = re.compile(r"^skipped (\d+) of \d+ runs of [^:]*: (.*)$", re.MULTILINE)
OF_ONE_RUN = re.compile(r" of dims \d+ and \d+.*| of \d+ x \d+\b")  # what check_kernels drew
OWN_COUNT = re.compile(r"^(\d+) passed, (\d+) failed(?:, (\d+) skipped)?$", re.MULTILINE)
TAIL_LINES = 30  # of a failed program's output


class Test:
    def __init__(self, column, area, name, result, reason=""):
        self.column, self.area, self.name = column, area, name
        self.result, self.reason = result, reason  # "pass", "fail" or "skip"


def skip_reasons(text):
    return re.findall(r"^SKIPPED(?:: *| (?=level ))(.*)", text, re.MULTILINE)


def tail(entry):
    lines = (entry.get("stdout", "") + entry.get("stderr", "")).splitlines()
    lines = [line for line in lines if not re.match(r"^ok \d+|^1\.\.\d+$", line)]
    return "\n".join(lines[-TAIL_LINES:])


def tap_points(stdout):
    """(plan or None, [(name, result, reason)])"""
    plan, points = None, []
    for line in stdout.splitlines():
        if match := TAP_PLAN.match(line):
            plan = int(match[1])
            if plan == 0 and match[2] is not None:
                points.append(("all", "skip", match[2]))
        elif match := TAP_LINE.match(line):
            skip = TAP_SKIP.search(match[3])
            # cmocka 1.1 writes "not ok N # SKIP name": a skip, whatever stands before it
            result = "skip" if skip else "fail" if match[1] else "pass"
            name = match[3].split("#")[0].strip("- ") if skip else match[3].lstrip("- ")
            reason = skip[1] if skip and name else ""
            points.append((name or skip[1], result, reason))
    return plan, points


def points_of_program(program, entry, reasons):
    """[(name, result, reason)] of a program that is not TAP: its own count, or its exit status."""
    outcome = entry["result"]
    counts = OWN_COUNT.findall(entry.get("stdout", ""))
    if counts:
        n_pass, n_fail, n_skip = (int(n or 0) for n in counts[-1])
        skips = []
        for n, why in OWN_SKIP.findall(entry["stdout"]):
            skips += [(program, "skip", OF_ONE_RUN.sub("", why))] * int(n)
        why = reasons[0] if reasons else "no reason given"
        return ([(program, "pass", "")] * n_pass + [(program, "fail", "")] * n_fail
                + skips + [(program, "skip", why)] * (n_skip - len(skips)))
    result = {"OK": "pass", "SKIP": "skip", "EXPECTEDFAIL": "pass"}.get(outcome, "fail")
    reason = (reasons[0] if reasons else "no reason given") if result == "skip" else ""
    return [(program, result, reason)]


def tests_of_program(column, entry):
    suites, _, program = entry["name"].partition(" / ")
    areas = [s for s in suites.rpartition(":")[2].split("+") if s != "long"]
    area = areas[0] if areas else "other"
    outcome, status = entry["result"], entry.get("returncode")
    reasons = skip_reasons(entry.get("stderr", "") + "\n" + entry.get("stdout", ""))
    plan, points = tap_points(entry.get("stdout", ""))
    is_tap = plan is not None or bool(points)
    if not is_tap:
        points = points_of_program(program, entry, reasons)
    tests, n_skips = [], 0
    for name, result, reason in points:
        if result == "skip" and not reason:
            reason = reasons[min(n_skips, len(reasons) - 1)] if reasons else "no reason given"
            n_skips += 1
        tests.append(Test(column, area, f"{program}: {name}" if is_tap else name, result, reason))
    if plan and len(points) < plan:
        tests.append(Test(column, area, f"{program}: ended after {len(points)} of {plan} tests "
                          f"({outcome}, exit status {status})", "fail"))
    elif all(t.result != "fail" for t in tests) and (
            status != 0 and outcome != "SKIP" or outcome in ("TIMEOUT", "INTERRUPT")):
        tests.append(Test(column, area, f"{program}: {outcome}, exit status {status}", "fail"))
    for first in [t for t in tests if t.result == "fail"][:1]:
        first.reason = tail(entry) + "\nrepeat: " + " ".join(entry.get("command", []))
    return tests


def read_stage(path):
    column = path.stem.partition("-")[2]
    text = path.read_text(errors="replace").strip()
    if path.suffix in (".fail", ".skip"):
        return [Test(column, "build", column, path.suffix[1:], text)]
    tests = []
    for line in text.splitlines():
        entry = json.loads(line)
        if "area" in entry:  # from run_checks.py
            tests.append(Test(column, entry["area"], entry["name"], entry["result"], entry["reason"]))
        else:
            tests += tests_of_program(column, entry)
    rc_file = path.with_suffix(".rc")
    rc = rc_file.read_text().strip() if rc_file.exists() else "0"
    if rc != "0" and all(t.result != "fail" for t in tests):
        tests.append(Test(column, "build", f"the runner of stage {column} ended with status {rc}", "fail"))
    return tests


def print_table(tests):
    columns = list(dict.fromkeys(t.column for t in tests))
    count = defaultdict(int)
    for t in tests:
        count[t.area, t.result] += 1
        if t.result != "skip":
            count[t.area, t.column] += 1
    heads = columns + ["run", "failed", "skipped"]
    width = [max(7, len(h)) for h in heads]
    areas = list(dict.fromkeys(t.area for t in tests))
    print("\n" + "area".ljust(12) + "".join(h.rjust(w + 2) for h, w in zip(heads, width)))
    for area in areas:
        n_run = count[area, "pass"] + count[area, "fail"]
        cells = [count[area, c] or "-" for c in columns]
        cells += [n_run, count[area, "fail"], count[area, "skip"]]
        print(area.ljust(12) + "".join(str(c).rjust(w + 2) for c, w in zip(cells, width)))


def print_skips(tests):
    why = defaultdict(list)
    for t in tests:
        if t.result == "skip":
            why[t.area, t.name, t.reason].append(t.column)
    if why:
        print("\nskipped, and why:")
    for (area, name, reason), columns in why.items():
        times = f", {len(columns)} times" if len(columns) > len(set(columns)) else ""
        print(f"  {area}: {name} ({', '.join(dict.fromkeys(columns))}{times}): {reason}")


def print_totals(folder):
    """What the emulated GPU did, per build of its kernels."""
    totals = defaultdict(lambda: defaultdict(int))
    for path in sorted(folder.glob("*.totals")):
        for line in path.read_text().splitlines():
            build, *words = line.split()
            totals[build]["programs"] += 1
            for name, n in zip(words[::2], words[1::2]):
                totals[build][name] += int(n)
    if totals:
        print("\nthe emulated GPU, per build of its kernels:")
    for build, counts in totals.items():
        print(f"  {build}: " + ", ".join(f"{n:,} {name}" for name, n in counts.items() if n))


def print_failures(tests):
    for t in tests:
        if t.result == "fail":
            print(f"\nFAILED {t.area}: {t.name} (in {t.column})")
            for line in t.reason.splitlines():
                print(f"    {line}")


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    tests = []
    for path in sorted(pathlib.Path(sys.argv[1]).glob("*")):
        if path.suffix in (".json", ".fail", ".skip"):
            tests += read_stage(path)
    n = {result: sum(t.result == result for t in tests) for result in ("pass", "fail", "skip")}
    if tests:
        print_failures(tests)
        print_table(tests)
        print_skips(tests)
    print_totals(pathlib.Path(sys.argv[1]))
    if n["pass"] + n["fail"] == 0:
        print("no test ran")
    print(f"\ntotal time: {sys.argv[2]} s")
    print(f"{n['pass']} passed, {n['fail']} failed, {n['skip']} skipped", flush=True)
    return 1 if n["fail"] or not n["pass"] else 0


if __name__ == "__main__":
    sys.exit(main())
