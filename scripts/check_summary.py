#!/usr/bin/env python3
"""The summary of ./dev test counts right: nothing that failed, crashed or stopped early may look as
if it had passed. Fed with canned logs, because the real ones should never show these cases."""
import json
import pathlib
import subprocess
import sys
import tempfile

import check_common as common

SCRIPT = common.ROOT / "scripts/test_summary.py"


def entry(result, stdout, code=0, stderr="", name="pagedkv:store / prog"):
    return {"name": name, "stdout": stdout, "stderr": stderr, "result": result, "returncode": code,
            "command": ["prog"]}


OK2 = "1..2\nok 1 - a\nok 2 - b\n"
# what, files of the results folder (text, or list of log entries), last line, exit status
CASES = (
    ("all good", {"01-gcc.json": [entry("OK", OK2)]}, "2 passed, 0 failed, 0 skipped", 0),
    ("one test fails", {"01-gcc.json": [entry("FAIL", "1..2\nok 1 - a\nnot ok 2 - b\n", 1)]},
     "1 passed, 1 failed, 0 skipped", 1),
    ("skip as cmocka writes it", {"01-gcc.json": [
        entry("FAIL", "1..2\nok 1 - a\nnot ok 2 # SKIP b\n", 0, "SKIPPED: no data\n")]},
     "1 passed, 0 failed, 1 skipped", 0),
    ("crash after the first test", {"01-gcc.json": [entry("ERROR", "1..2\nok 1 - a\n", 134)]},
     "1 passed, 1 failed, 0 skipped", 1),
    ("all pass, then a leak", {"01-gcc.json": [entry("FAIL", OK2, 23)]},
     "2 passed, 1 failed, 0 skipped", 1),
    ("timeout", {"01-gcc.json": [entry("TIMEOUT", "", -15)]}, "0 passed, 1 failed, 0 skipped", 1),
    ("program without TAP", {"01-gcc.json": [entry("OK", "hello\n")]},
     "1 passed, 0 failed, 0 skipped", 0),
    ("program with its own count", {"01-gcc.json": [entry("FAIL", "x\n7 passed, 1 failed, 0 skipped\n", 1)]},
     "7 passed, 1 failed, 0 skipped", 1),
    ("own count says good, status does not", {"01-gcc.json": [entry("FAIL", "7 passed, 0 failed\n", 1)]},
     "7 passed, 1 failed, 0 skipped", 1),
    ("program skipped", {"01-gcc.json": [entry("SKIP", "", 77, "SKIPPED: no GPU\n")]},
     "0 passed, 0 failed, 1 skipped", 1),
    ("the build failed", {"01-gcc.json": [entry("OK", OK2)], "02-asan.fail": "no compiler"},
     "2 passed, 1 failed, 0 skipped", 1),
    ("a stage was skipped", {"01-gcc.json": [entry("OK", OK2)], "02-clang.skip": "no clang"},
     "2 passed, 0 failed, 1 skipped", 0),
    ("the runner died", {"01-gcc.json": [entry("OK", OK2)], "01-gcc.rc": "1"},
     "2 passed, 1 failed, 0 skipped", 1),
    ("two builds", {"01-gcc.json": [entry("OK", OK2)], "02-clang.json": [entry("OK", OK2)]},
     "4 passed, 0 failed, 0 skipped", 0),
    ("nothing ran", {}, "0 passed, 0 failed, 0 skipped", 1),
)
OWN_SKIPS = ("skipped 2 of 3 runs of a.f32: no kernel of dims 8 and 16; there are others\n"
             "skipped 1 of 1 runs of b: no kernel\n1 passed, 0 failed, 3 skipped\n")
# what, files, a line of the summary
LINES = (
    ("reasons of a program with its own count", {"01-gcc.json": [entry("OK", OWN_SKIPS)]},
     "  store: prog (gcc, 3 times): no kernel"),
    ("a skip with its reason in TAP", {"01-gcc.json": [entry("OK", "1..2\nok 1 - a\nok 2 - b # SKIP no data\n")]},
     "  store: prog: b (gcc): no data"),
    ("a level that is not here", {"01-gcc.json": [entry("SKIP", "SKIPPED level amx: not on this CPU\n", 77)]},
     "  store: prog (gcc): level amx: not on this CPU"),
    ("totals of two programs", {"01-simt.json": [entry("OK", OK2)],
                                "01-simt.totals": "race launches 1200 copies 0\nrace launches 34 copies 0\n"},
     "  race: 2 programs, 1,234 launches"),
)


def summary(files):
    with tempfile.TemporaryDirectory() as folder:
        for name, content in files.items():
            text = content if isinstance(content, str) else "\n".join(map(json.dumps, content))
            (pathlib.Path(folder) / name).write_text(text)
        return subprocess.run([sys.executable, str(SCRIPT), folder, "1"], text=True, capture_output=True)


def find(root, args):
    for what, files, last_line, status in CASES:
        done = summary(files)
        got = (done.stdout.splitlines() or ["nothing"])[-1]
        if (got, done.returncode) != (last_line, status):
            yield common.Complaint("scripts/test_summary.py", 0, f"{what}: it says \"{got}\" (exit "
                                   f"{done.returncode}), expected \"{last_line}\" (exit {status}) {done.stderr}")
    for what, files, line in LINES:
        done = summary(files)
        if line not in done.stdout.splitlines():
            yield common.Complaint("scripts/test_summary.py", 0, f"{what}: no line \"{line}\" {done.stdout}")


def samples():
    return ()


if __name__ == "__main__":
    sys.exit(common.main(common.this_module()))
