#!/usr/bin/env python3
"""Count the instructions of each operation of the block manager, and compare with the last time.

usage: check_instructions.py [--build DIR] [--update] [--results FILE] [--self-test]

Times on a shared machine say little; instruction counts are the same in every run. The program
tests/blockmgr/op_counts of the build runs under valgrind's callgrind, and what each operation costs
is compared with tests/blockmgr/instructions.txt: more than 8 % above fails. Something that became
cheaper by as much is told and does not fail; --update writes the file anew. The counts belong to
one compiler and to a release build without asserts; any other build is SKIPPED, and so is a machine
without valgrind. A new operation is a row in op_counts.c and --update.
"""
import argparse
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import check_common as common

GOLDEN = common.ROOT / "tests/blockmgr/instructions.txt"
PROGRAM = "tests/blockmgr/op_counts"
COMPILER, MACHINE = "gcc 12.", "X86-64"
OPTIONS = {"optimization": "3", "debug": False, "debug_level": 0, "b_sanitize": "none", "b_lto": False}
TOLERANCE = 0.08
HEAD = """# Instructions per operation of the block manager, counted by callgrind: {compiler}, x86-64, release
# build, asserts off. scripts/check_instructions.py compares and, with --update, writes this file.
# operation, instructions, per
"""


class Skipped(Exception):
    pass


def built_by(build):
    """("gcc 12.2.0", "X86-64") of the program, as its own sections say. Start-up code of the C library
    is gcc's everywhere, so any other compiler that left its name is the one."""
    out = subprocess.run(["readelf", "-h", "-p", ".comment", str(pathlib.Path(build) / PROGRAM)],
                         text=True, capture_output=True, check=True).stdout
    gcc, other = re.search(r"GCC: \(.*\) (\S+)", out), re.search(r"\]\s+(?!GCC)(\S.*)", out)
    machine = re.search(r"Machine:.* (\S+)", out)
    compiler = other[1] if other else f"gcc {gcc[1]}" if gcc else "unknown"
    return compiler.strip(), machine[1] if machine else "unknown"


def require_build(build):
    """Raise Skipped where the stored counts do not apply."""
    if not shutil.which("valgrind"):
        raise Skipped("valgrind is not installed")
    compiler, machine = built_by(build)
    if machine != MACHINE or not compiler.startswith(COMPILER):
        raise Skipped(f"the counts are for {COMPILER}x on {MACHINE}; this is {compiler} on {machine}")
    info = pathlib.Path(build) / "meson-info/intro-buildoptions.json"
    options = {o["name"]: o["value"] for o in json.loads(info.read_text())}
    for name, value in OPTIONS.items():
        if options[name] != value:
            raise Skipped(f"the counts are for a release build; here {name} is {options[name]}")


def inclusive_costs(text):
    """{function: instructions of all calls to it, callees included} from a callgrind file."""
    costs, callee, after_calls = {}, None, False
    for line in text.splitlines():
        if line.startswith("cfn="):
            callee = line[4:]
        elif line.startswith("calls="):
            after_calls = True
        elif after_calls:
            costs[callee] = costs.get(callee, 0) + int(line.split()[-1])
            after_calls = False
    return costs


def count(build):
    """{operation: (per, instructions)} in the order of the program's table."""
    program = pathlib.Path(build) / PROGRAM
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "callgrind.out"
        done = subprocess.run(
            ["valgrind", "--tool=callgrind", "--compress-strings=no", "--compress-pos=no",
             f"--callgrind-out-file={out}", str(program)], text=True, capture_output=True)
        if done.returncode != 0:
            raise RuntimeError(f"{program} under valgrind: {done.stderr.strip()[-600:]}")
        costs = inclusive_costs(out.read_text())
    counts = {}
    for line in done.stdout.splitlines():
        name, per, units = line.split("\t")
        if f"measured_{name}" not in costs:
            raise RuntimeError(f"callgrind saw no call of measured_{name}; was it inlined?")
        counts[name] = (per, costs[f"measured_{name}"] / int(units))
    return counts


def read_golden(text):
    rows = [line.split(None, 2) for line in text.splitlines() if line and not line.startswith("#")]
    return {name: (per, float(n)) for name, n, per in rows}


def write_golden(counts, compiler):
    lines = [f"{name:16}{n:10.1f}  {per}\n" for name, (per, n) in counts.items()]
    GOLDEN.write_text(HEAD.format(compiler=compiler) + "".join(lines))


def compare(counts, golden):
    """[(operation, "pass" or "fail", what to say)]"""
    rows = []
    for name, (per, n) in counts.items():
        if name not in golden:
            rows.append((name, "fail", f"{n:.1f} instructions per {per}, none stored: --update"))
            continue
        old = golden[name][1]
        change = (n - old) / old
        text = f"{n:.1f} instructions per {per}, {100 * change:+.1f} %"
        if change > TOLERANCE:
            rows.append((name, "fail", f"{text}: {old:.1f} are stored, {TOLERANCE:.0%} more is the limit; "
                         "where it is worth it, --update and say why in the commit"))
        else:
            rows.append((name, "pass", text + (": cheaper, --update keeps it" if change < -TOLERANCE else "")))
    rows += [(name, "fail", "stored, but no longer in op_counts: --update") for name in golden
             if name not in counts]
    return rows


def self_test():
    """The comparison fails where it should and nowhere else; the file of the tool is understood."""
    golden = {"a": ("block", 100.0)}
    verdicts = [compare({"a": ("block", n)}, golden)[0][1] for n in (108.0, 108.2, 50.0, 100.0)]
    if verdicts != ["pass", "fail", "pass", "pass"]:
        return f"a limit of 8 % is judged {verdicts}"
    if [r[1] for r in compare({"b": ("call", 1.0)}, golden)] != ["fail", "fail"]:
        return "an operation without a stored count, or a count without one, is not noticed"
    sample = ("fn=main\n10 5\ncfn=measured_a\ncalls=2 20\n11 300\n12 7\ncfn=measured_b\ncalls=1 30\n"
              "13 40\ncfn=measured_a\ncalls=1 20\n14 60\n\nfn=measured_a\n20 360\n")
    if inclusive_costs(sample) != {"measured_a": 360, "measured_b": 40}:
        return f"the sample is read as {inclusive_costs(sample)}"
    if read_golden("# head\n\na    100.0  block\n") != golden:
        return "the file of stored counts is not read as it is written"
    return None


def results(args):
    if args.self_test:
        wrong = self_test()
        yield "self-test", "fail" if wrong else "pass", wrong or ""
    try:
        require_build(args.build)
        counts = count(args.build)
    except Skipped as why:
        yield "counts", "skip", str(why)
        return
    except (OSError, RuntimeError, KeyError, ValueError,
            subprocess.CalledProcessError) as error:
        yield "counts", "fail", str(error)
        return
    if args.update:
        write_golden(counts, built_by(args.build)[0])
    yield from compare(counts, read_golden(GOLDEN.read_text()) if GOLDEN.exists() else {})


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build-gcc", help="a complete build")
    parser.add_argument("--update", action="store_true", help="store what is counted now")
    parser.add_argument("--results", type=pathlib.Path, help="write results as JSON lines")
    parser.add_argument("--self-test", action="store_true", help="also show that it can fail")
    args = parser.parse_args()
    lines, failed = [], False
    for name, result, text in results(args):
        print(f"  {'SKIPPED' if result == 'skip' else result}  {name}: {text}", flush=True)
        failed = failed or result == "fail"
        lines.append(json.dumps({"area": "instructions", "name": name, "result": result,
                                 "reason": text if result != "pass" else ""}) + "\n")
    if args.results:
        args.results.write_text("".join(lines))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
