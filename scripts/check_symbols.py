#!/usr/bin/env python3
"""What the built library shows: the shared one exports exactly the functions that the public headers
declare and that scripts/symbols.txt lists; no object holds a writable global.

--build DIR   the build folder to look at (default build-gcc)
--update      write scripts/symbols.txt anew; look at the difference before it is committed
"""
import re
import shutil
import subprocess
import sys

import check_common as common

GOLDEN = "scripts/symbols.txt"
DECLARATION = re.compile(r"PKV_API\b[^;{}]*?\b(pkv_\w+)\s*\(")
WRITABLE = re.compile(r"^(\.data(?!\.rel\.ro)|\.bss|\.tdata|\.tbss|\*COM\*)")


def run(*command, cwd):
    done = subprocess.run(command, cwd=cwd, text=True, capture_output=True)
    if done.returncode != 0:
        raise common.Skip(f"{' '.join(command)}: {done.stderr.strip()}")
    return done.stdout


def exported(root, library):
    lines = run("nm", "-D", "--defined-only", "--format=posix", library, cwd=root).splitlines()
    return sorted(line.split()[0] for line in lines)


def declared(root):
    names = set()
    for name in common.tree_files(root):
        if name.startswith("include/") and name.endswith(".h"):
            text = re.sub(r"/\*.*?\*/", "", (root / name).read_text(encoding="utf-8"), flags=re.S)
            names |= set(DECLARATION.findall(text))
    return names


def writable_globals(root, archive):
    """(object, symbol, section) from `nm`'s table: name|value|class|type|size|line|section"""
    member = "?"
    for line in run("nm", "--format=sysv", "--defined-only", archive, cwd=root).splitlines():
        if line.startswith("Symbols from "):
            member = line.split("[")[-1].rstrip("]:")
        cells = [cell.strip() for cell in line.split("|")]
        if len(cells) == 7 and cells[3] in ("OBJECT", "TLS") and WRITABLE.match(cells[6]):
            yield member, cells[0], cells[6]


def compile_sample(root):
    (root / "build").mkdir()
    run("gcc", "-shared", "-fPIC", "-o", "build/libpagedkv.so", "lib.c", cwd=root)
    run("gcc", "-c", "-o", "build/lib.o", "lib.c", cwd=root)
    run("ar", "rc", "build/libpagedkv.a", "build/lib.o", cwd=root)


def find(root, args):
    if not shutil.which("nm") or not shutil.which("gcc"):
        raise common.Skip("nm or gcc is not installed")
    if args.sample:
        compile_sample(root)
    build = "build" if args.sample else args.build or "build-gcc"
    if not (root / build / "libpagedkv.so").exists():
        raise common.Skip(f"{build}/libpagedkv.so is not built (./dev check builds it)")
    names = exported(root, f"{build}/libpagedkv.so")
    if getattr(args, "update", False):
        (root / GOLDEN).write_text("".join(f"{n}\n" for n in names))
    golden = set(common.read_lines(root, GOLDEN))
    for name in sorted(set(names) | golden | declared(root)):
        if not name.startswith("pkv_") or name.startswith("pkv__"):
            yield common.Complaint(GOLDEN, 0, f"{name} is not pkv_*: hide it")
        elif name not in names:
            where = "a public header declares it" if name in declared(root) else f"{GOLDEN} lists it"
            yield common.Complaint(GOLDEN, 0, f"{name} is not exported, but {where}")
        elif name not in golden:
            yield common.Complaint(GOLDEN, 0, f"{name} is exported and not listed: hide it, or "
                                   "scripts/check_symbols.py --update")
        elif name not in declared(root):
            yield common.Complaint(GOLDEN, 0, f"{name} is exported, but no public header declares it")
    for member, symbol, section in writable_globals(root, f"{build}/libpagedkv.a"):
        yield common.Complaint(member, 0, f"{symbol} lies in {section}: no writable globals, hang "
                               "state on a handle or make it const")


def notes(root):
    yield f"{len(common.read_lines(root, GOLDEN))} functions exported"


def samples():
    header = "#define PKV_API\nPKV_API int pkv_a(int a);\n"
    good = "int pkv_a(int a)\n{\n    static const char *const names[] = { \"a\" };\n    return names[0][a];\n}\n"

    def tree(code, golden="pkv_a\n"):
        return {"include/p/a.h": header, "lib.c": code, GOLDEN: golden}

    yield "one function", tree(good), False
    yield "foreign symbol", tree(good + "int helper(void)\n{\n    return 1;\n}\n"), True
    yield "internal symbol", tree(good + "int pkv__b(void)\n{\n    return 1;\n}\n"), True
    yield "not listed", tree(good, ""), True
    yield "not exported", tree("static int pkv_b;\n" + good.replace("pkv_a", "pkv_c")), True
    yield "not declared", tree(good + "int pkv_b(void)\n{\n    return 1;\n}\n", "pkv_a\npkv_b\n"), True
    yield "writable static", tree("static int n = 1;\n" + good.replace("[a]", "[n++]")), True
    yield "zeroed static", tree("static int n;\n" + good.replace("[a]", "[n++]")), True


def arguments(parser):
    parser.add_argument("--build", help="build folder, relative to the tree")
    parser.add_argument("--update", action="store_true", help=f"write {GOLDEN} anew")


if __name__ == "__main__":
    sys.exit(common.main(common.this_module(), arguments))
