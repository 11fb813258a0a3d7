#!/usr/bin/env python3
"""What the built libraries show: each shared one exports exactly the functions that its public headers
declare and that its list in scripts/ has; no object holds a writable global.

--build DIR   the build folder to look at (default build-gcc)
--update      write the lists anew; look at the difference before it is committed
"""
import re
import shutil
import subprocess
import sys

import check_common as common

# library: its list, and its headers; None: all that belong to no other
LIBRARIES = {
    "libpagedkv": ("scripts/symbols.txt", None),
    "libpagedkv-model": ("scripts/symbols_model.txt", common.MODEL_HEADERS),
}
OPTIONAL = ("libpagedkv-model",)
# where a build folder keeps them
FOLDERS = ("", "src/model/")
DECLARATION = re.compile(r"PKV_API\b[^;{}]*?\b(pkv_\w+)\s*\(")
# Of nvcc's own making: where the runtime keeps what it registered, and the body of a kernel's stub for
# launches in triple brackets, of which there are none.
NVCC = re.compile(r"__cudaFatCubinHandle|__device_stub__")
WRITABLE = re.compile(r"^(\.data(?!\.rel\.ro)|\.bss|\.tdata|\.tbss|\*COM\*)")


def run(*command, cwd):
    done = subprocess.run(command, cwd=cwd, text=True, capture_output=True)
    if done.returncode != 0:
        raise common.Skip(f"{' '.join(command)}: {done.stderr.strip()}")
    return done.stdout


def exported(root, library):
    lines = run("nm", "-D", "--defined-only", "--format=posix", library, cwd=root).splitlines()
    return sorted(line.split()[0] for line in lines)


def declared(root, headers):
    names = set()
    for name in common.tree_files(root):
        if not name.startswith("include/") or not name.endswith(".h"):
            continue
        if (name in common.MODEL_HEADERS) == (headers is not None):
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


def visible(root, archive):
    """Functions and objects that a program linked with the archive would export again; from readelf's
    rows number: value size type binding visibility section name"""
    for line in run("readelf", "-sW", archive, cwd=root).splitlines():
        cells = line.split()
        if (len(cells) == 8 and cells[3] in ("FUNC", "OBJECT") and cells[4] in ("GLOBAL", "WEAK")
                and cells[5] == "DEFAULT" and cells[6] != "UND"):
            yield cells[7]


def compile_sample(root):
    (root / "build").mkdir()
    run("gcc", "-shared", "-fPIC", "-o", "build/libpagedkv.so", "lib.c", cwd=root)
    run("gcc", "-c", "-DARCHIVE", "-o", "build/lib.o", "lib.c", cwd=root)
    run("ar", "rc", "build/libpagedkv.a", "build/lib.o", cwd=root)


def find(root, args):
    if not shutil.which("nm") or not shutil.which("gcc"):
        raise common.Skip("nm or gcc is not installed")
    if args.sample:
        compile_sample(root)
    build = "build" if args.sample else args.build or "build-gcc"
    for library, (golden, headers) in LIBRARIES.items():
        stem = next((f"{build}/{f}{library}" for f in FOLDERS if (root / f"{build}/{f}{library}.so").exists()), None)
        if stem:
            yield from complaints_about(root, stem, golden, headers, getattr(args, "update", False))
        elif library not in OPTIONAL:
            raise common.Skip(f"{build}/{library}.so is not built (./dev check builds it)")


def complaints_about(root, stem, golden_list, headers, update):
    names = exported(root, f"{stem}.so")
    if update:
        (root / golden_list).write_text("".join(f"{n}\n" for n in names))
    golden, public = set(common.read_lines(root, golden_list)), declared(root, headers)
    for name in sorted(set(names) | golden | public):
        if not name.startswith("pkv_") or name.startswith("pkv__"):
            yield common.Complaint(golden_list, 0, f"{name} is not pkv_*: hide it")
        elif name not in names:
            where = "a public header declares it" if name in public else f"{golden_list} lists it"
            yield common.Complaint(golden_list, 0, f"{name} is not exported, but {where}")
        elif name not in golden:
            yield common.Complaint(golden_list, 0, f"{name} is exported and not listed: hide it, or "
                                   "scripts/check_symbols.py --update")
        elif name not in public:
            yield common.Complaint(golden_list, 0, f"{name} is exported, but no public header declares it")
    for name in sorted(set(visible(root, f"{stem}.a")) - golden - set(names)):
        yield common.Complaint(f"{stem}.a", 0, f"{name} is visible in the archive: -fvisibility=hidden")
    for member, symbol, section in writable_globals(root, f"{stem}.a"):
        if member.endswith(".cu.o") and NVCC.search(symbol):
            continue
        yield common.Complaint(member, 0, f"{symbol} lies in {section}: no writable globals, hang "
                               "state on a handle or make it const")


def notes(root):
    for library, (golden, _) in LIBRARIES.items():
        yield f"{library}: {len(common.read_lines(root, golden))} functions exported"


def samples():
    header = "#define PKV_API\nPKV_API int pkv_a(int a);\n"
    good = "int pkv_a(int a)\n{\n    static const char *const names[] = { \"a\" };\n    return names[0][a];\n}\n"

    def tree(code, golden="pkv_a\n"):
        return {"include/p/a.h": header, "lib.c": code, "scripts/symbols.txt": golden}

    yield "one function", tree(good), False
    yield "foreign symbol", tree(good + "int helper(void)\n{\n    return 1;\n}\n"), True
    yield "internal symbol", tree(good + "int pkv__b(void)\n{\n    return 1;\n}\n"), True
    yield "not listed", tree(good, ""), True
    yield "not exported", tree("static int pkv_b;\n" + good.replace("pkv_a", "pkv_c")), True
    yield "not declared", tree(good + "int pkv_b(void)\n{\n    return 1;\n}\n", "pkv_a\npkv_b\n"), True
    hidden = "#ifdef ARCHIVE\nint helper(void)\n{\n    return 1;\n}\n#endif\n"
    yield "visible in the archive alone", tree(good + hidden), True
    yield "writable static", tree("static int n = 1;\n" + good.replace("[a]", "[n++]")), True
    yield "zeroed static", tree("static int n;\n" + good.replace("[a]", "[n++]")), True


def arguments(parser):
    parser.add_argument("--build", help="build folder, relative to the tree")
    parser.add_argument("--update", action="store_true", help="write the lists anew")


if __name__ == "__main__":
    sys.exit(common.main(common.this_module(), arguments))
