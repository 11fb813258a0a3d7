"""What the checks share: the list of files, the shape of a complaint, the command line.

A check is a script with a docstring, a function find(root, args) that yields complaints, and a
function samples() that yields (what, {path: text}, True if it is bad). Run it alone, or all of them
through run_checks.py:

    python3 scripts/check_lengths.py              check this tree
    python3 scripts/check_lengths.py --self-test  show that the check can fail, and can pass
"""
import argparse
import pathlib
import re
import subprocess
import sys
import tempfile
from typing import NamedTuple

ROOT = pathlib.Path(__file__).resolve().parent.parent
C_SUFFIXES = (".c", ".h", ".inc", ".cpp", ".cu", ".cuh")
DATA_FOLDERS = ("attacks", "corpus", "data")  # inputs of tests: any bytes are right there

# Public headers of libpagedkv-model; all others are libpagedkv's.
MODEL_HEADERS = ("include/pagedkv/engine.h", "include/pagedkv/kv_size.h",
                 "include/pagedkv/model.h", "include/pagedkv/tokenizer.h")


class Complaint(NamedTuple):
    path: str
    line: int  # 0: the whole file
    text: str  # what is wrong, and what to do about it

    def __str__(self):
        return f"{self.path}:{self.line}: {self.text}" if self.line else f"{self.path}: {self.text}"


class Skip(Exception):
    """Raised by a check that cannot run here; the text says why."""


def tree_files(root):
    """Relative paths of all files that belong to the tree; of all files where there is no git."""
    try:
        out = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "-z"], cwd=root,
                             capture_output=True, check=True).stdout.decode()
        names = [n for n in out.split("\0") if n and (root / n).is_file()]
    except (OSError, subprocess.CalledProcessError):
        names = [str(p.relative_to(root)) for p in root.rglob("*") if p.is_file()]
        names = [n for n in names if not re.match(r"(build[^/]*|\.git)/", n)]
    return sorted(names)


def c_files(root):
    return [n for n in tree_files(root) if n.endswith(C_SUFFIXES)]


def is_data(name):
    return any(part in DATA_FOLDERS for part in pathlib.PurePath(name).parts[:-1])


def read_lines(root, name):
    return (root / name).read_text(encoding="utf-8").splitlines()


def function_bodies(lines):
    """(first line, line of '{', line of '}', name), counted from 1. Needs formatted sources: the
    brace of a function, and of nothing else, stands alone in the first column."""
    start = None
    for i, line in enumerate(lines):
        if line == "{" and start is None:
            start = i
        elif line.startswith("}") and start is not None:
            first = start
            while first > 0 and lines[first - 1] and not re.search(r"^[#}]|[;}]$|\*/$", lines[first - 1]):
                first -= 1
            head = " ".join(lines[first:start])
            names = re.findall(r"(\w+)\s*\(", head)
            yield first + 1, start + 1, i + 1, names[0] if names else "?"
            start = None


def self_test(check):
    """Every bad sample gives a complaint, every good one none. Yields what went wrong."""
    for what, files, bad in check.samples():
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            for name, text in files.items():
                path = root / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8")
            found = list(check.find(root, argparse.Namespace(build=None, sample=True)))
        if bad and not found:
            yield f"a bad sample passed: {what}"
        if not bad and found:
            yield f"a good sample failed: {what}: {found[0]}"


def main(check, extra_arguments=None):
    parser = argparse.ArgumentParser(description=check.__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--self-test", action="store_true", help="show that the check can fail")
    if extra_arguments:
        extra_arguments(parser)
    args = parser.parse_args()
    args.sample = False
    try:
        found = list(self_test(check) if args.self_test else check.find(ROOT, args))
    except Skip as why:
        print(f"SKIPPED: {why}")
        return 0
    for complaint in found:
        print(complaint)
    if not found:
        print("self-test passed" if args.self_test else "nothing to complain about")
    return 1 if found else 0


def this_module():
    return sys.modules["__main__"]
