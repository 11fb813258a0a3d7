#!/usr/bin/env python3
"""C and C++ sources look as clang-format (with this tree's .clang-format) leaves them.
--fix rewrites them."""
import re
import shutil
import subprocess
import sys

import check_common as common

MAX_ROUNDS = 50  # clang-format 14 takes a long X-macro apart one line at a time
WARNING = re.compile(r"^(.*?):(\d+):\d+: (?:error|warning): ")


def clang_format(root, names, *options):
    style = f"--style=file:{common.ROOT}/.clang-format"
    return subprocess.run(["clang-format", style, *options, *names], cwd=root, text=True,
                          capture_output=True)


def find(root, args):
    if not shutil.which("clang-format"):
        raise common.Skip("clang-format is not installed")
    names = common.c_files(root)
    if not names:
        return
    done = clang_format(root, names, "--dry-run", "-Werror")
    if getattr(args, "fix", False):
        for _ in range(MAX_ROUNDS):
            if done.returncode == 0:
                return
            clang_format(root, names, "-i")
            done = clang_format(root, names, "--dry-run", "-Werror")
    lines = {}
    for line in done.stderr.splitlines():
        if match := WARNING.match(line):
            lines.setdefault(match[1], int(match[2]))
    for name, line in sorted(lines.items()):
        yield common.Complaint(name, line, "not as clang-format leaves it: run ./dev format")
    if done.returncode != 0 and not lines:
        yield common.Complaint(".clang-format", 0, done.stderr.strip())


def samples():
    yield "formatted", {"a.c": "int f(int a)\n{\n    return a;\n}\n"}, False
    yield "two blanks", {"a.c": "int f(int a)\n{\n  return a;\n}\n"}, True


if __name__ == "__main__":
    sys.exit(common.main(common.this_module(),
                         lambda p: p.add_argument("--fix", action="store_true", help="rewrite files")))
