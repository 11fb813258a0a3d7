#!/usr/bin/env python3
"""Functions at most 100 lines (150 in the kernel files), files at most 600, headers at most 350."""
import re
import sys

import check_common as common

MAX_FUNCTION, MAX_KERNEL, MAX_FILE, MAX_HEADER = 100, 150, 600, 350
EXCEPTIONS = ()  # of file names; to stay empty
N_TOP = 10


def functions(root):
    """(lines, limit, file, first line, name) of every function."""
    for name in common.c_files(root):
        limit = MAX_KERNEL if re.match(r"src/kernels/\w+/", name) else MAX_FUNCTION
        for first, _, last, function in common.function_bodies(common.read_lines(root, name)):
            yield last - first + 1, limit, name, first, function


def find(root, args):
    for lines, limit, name, first, function in functions(root):
        if lines > limit and name not in EXCEPTIONS:
            yield common.Complaint(name, first, f"{function} has {lines} lines, limit {limit}: "
                                   "split it into named steps")
    for name in common.tree_files(root):
        if not name.endswith(common.C_SUFFIXES + (".py", ".build")) or name in EXCEPTIONS:
            continue
        lines = len(common.read_lines(root, name))
        limit = MAX_HEADER if name.endswith(".h") else MAX_FILE
        if lines > limit:
            yield common.Complaint(name, 0, f"{lines} lines, limit {limit}: one concept per file")


def notes(root):
    """For the report: the longest functions, and how many stay within 40 lines."""
    everything = sorted(functions(root), reverse=True)
    if not everything:
        return
    short = sum(f[0] <= 40 for f in everything)
    yield f"{len(everything)} functions, {100 * short // len(everything)} % within 40 lines; longest:"
    for lines, _, name, first, function in everything[:N_TOP]:
        yield f"  {lines:4} {function} ({name}:{first})"


def samples():
    def function(n_lines):
        return "int f(int a,\n      int b)\n{\n" + "    a++;\n" * (n_lines - 4) + "}\n"

    yield "100 lines", {"src/a.c": function(100)}, False
    yield "101 lines", {"src/a.c": "#include <stdio.h>\n\n" + function(101)}, True
    yield "two functions of 60 lines", {"src/a.c": function(60) + "\n" + function(60)}, False
    yield "kernel of 150 lines", {"src/kernels/x86/a.c": function(150)}, False
    yield "kernel of 151 lines", {"src/kernels/x86/a.c": function(151)}, True
    yield "file of 601 lines", {"src/a.c": "int a;\n" * 601}, True
    yield "header of 351 lines", {"src/a.h": "int a;\n" * 351}, True


def main():
    status = common.main(common.this_module())
    if "--self-test" not in sys.argv:
        print("\n".join(notes(common.ROOT)))
    return status


if __name__ == "__main__":
    sys.exit(main())
