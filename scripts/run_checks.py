#!/usr/bin/env python3
"""Run all checks of scripts/, each on this tree, and with --self-test each on its bad samples too.

usage: run_checks.py [--build DIR] [--self-test] [--only NAME] [--results FILE]

--results writes one line of JSON per check for test_summary.py. Exit status 1 if any complains.
"""
import argparse
import importlib
import json
import pathlib
import sys

import check_common as common

CHECKS = ("includes", "lengths", "text", "format", "headers", "cuda", "symbols", "summary",
          "mutation")


def outcome(find):
    """("pass", []), ("fail", complaints) or ("skip", [why])"""
    try:
        complaints = [str(c) for c in find()]
    except common.Skip as why:
        return "skip", [str(why)]
    return ("fail" if complaints else "pass"), complaints


def report(results, name, result, lines):
    print(f"  {result}  {name}", flush=True)
    for line in lines:
        print(f"        {line}")
    results.append({"area": "checks", "name": name, "result": result, "reason": "\n".join(lines)})


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", help="build folder for the check of symbols")
    parser.add_argument("--self-test", action="store_true", help="also show that each check can fail")
    parser.add_argument("--only", choices=CHECKS, help="this check alone")
    parser.add_argument("--results", type=pathlib.Path, help="write results as JSON lines")
    args = parser.parse_args()
    args.sample = args.fix = args.update = False
    results, notes = [], []
    for name in [args.only] if args.only else CHECKS:
        check = importlib.import_module(f"check_{name}")
        result, lines = outcome(lambda: check.find(common.ROOT, args))
        report(results, name, result, lines)
        if hasattr(check, "notes"):
            notes += check.notes(common.ROOT)
        if args.self_test and list(check.samples()):
            result, lines = outcome(lambda: common.self_test(check))
            report(results, f"{name}: its samples", result, lines)
    print("\n".join(notes))
    if args.results:
        args.results.write_text("".join(json.dumps(r) + "\n" for r in results))
    return 1 if any(r["result"] == "fail" for r in results) else 0


if __name__ == "__main__":
    sys.exit(main())
