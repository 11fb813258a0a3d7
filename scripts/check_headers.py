#!/usr/bin/env python3
"""Each public header compiles alone, twice included, as C11 and as C++17, with gcc and with clang,
without a warning; so does every PKV_*_INIT macro, as the value of its type."""
import re
import shutil
import subprocess
import sys

import check_common as common

COMPILERS = (("gcc", "c", "c11"), ("clang", "c", "c11"), ("g++", "c++", "c++17"), ("clang++", "c++", "c++17"))
FLAGS = ("-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Wundef", "-Werror", "-fsyntax-only")


def init_values(text):
    """A function that uses each macro; its type is that of its struct_size."""
    macros = re.findall(r"#define (PKV_\w+_INIT)\b(?:[^\n]*\\\n)*?[^\n]*\bsizeof\((\w+)\)", text)
    values = [f"    {{ {kind} v = {macro}; (void)v; }}\n" for macro, kind in macros]
    return "void use(void);\nvoid use(void)\n{\n" + "".join(values) + "}\n" if values else ""


def find(root, args):
    present = [c for c in COMPILERS if shutil.which(c[0])]
    if not present:
        raise common.Skip("neither gcc nor clang is installed")
    headers = [n for n in common.tree_files(root) if n.startswith("include/") and n.endswith(".h")]
    if not headers:
        yield common.Complaint("include", 0, "no header found")
    for name in headers:
        inner = name[len("include/"):]
        source = f'#include "{inner}"\n#include "{inner}"\nextern int unit_is_not_empty;\n'
        source += init_values((root / name).read_text(encoding="utf-8"))
        for compiler, language, standard in present:
            done = subprocess.run([compiler, "-x", language, f"-std={standard}", *FLAGS, "-Iinclude", "-"],
                                  input=source, cwd=root, text=True, capture_output=True)
            if done.returncode != 0:
                first = (done.stderr.strip().splitlines() or ["?"])
                text = next((line for line in first if "error" in line), first[0])
                yield common.Complaint(name, 0, f"{compiler} -std={standard}: {text}")


def notes(root):
    missing = [c[0] for c in COMPILERS if not shutil.which(c[0])]
    if missing:
        yield "without " + ", ".join(missing) + ": not installed"


def samples():
    guard = "#ifndef A_H\n#define A_H\n%s\n#endif\n"
    yield "alone", {"include/p/a.h": guard % "#include <stdint.h>\nint32_t f(int a);"}, False
    yield "needs stdint.h", {"include/p/a.h": guard % "int32_t f(int a);"}, True
    yield "not C++", {"include/p/a.h": guard % "int f(int class);"}, True
    init = "#include <stdint.h>\ntypedef struct a {\n    uint32_t struct_size;\n    int b;\n} a;\n#define PKV_A_INIT \\\n    { %s }\n"
    yield "init", {"include/p/a.h": guard % (init % "sizeof(a), 0")}, False
    yield "init for C alone", {"include/p/a.h": guard % (init % ".struct_size = sizeof(a), .b = 0")}, True
    yield "no guard", {"include/p/a.h": "struct a {\n    int b;\n};\n"}, True


if __name__ == "__main__":
    sys.exit(common.main(common.this_module()))
