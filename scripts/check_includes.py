#!/usr/bin/env python3
"""Who may include whom (docs/architecture.md): nothing upward, and the block manager, the kernels
and the store never include each other. Programs see only the public headers."""
import pathlib
import re
import sys

import check_common as common

# folder of a file: folders it may include from, itself always. The first match counts.
MAY_INCLUDE = {
    "include/": (),
    "src/common/": ("include/",),
    "src/blockmgr/": ("include/", "src/common/"),
    "src/store/": ("include/", "src/common/"),
    # Without nvcc, device code stands on the emulator of the tests.
    "src/kernels/cuda/pkv_dev.cuh": ("include/", "src/common/", "src/kernels/", "tests/simt/"),
    "src/kernels/": ("include/", "src/common/"),
    "src/sim/": ("include/", "src/common/"),
    "src/model/": ("include/", "src/common/"),
    "src/tools/": ("include/",),
    "bench/": ("include/",),
    "docs/examples/": ("include/",),
    "tests/": ("include/", "src/", "bench/", "tests/"),
}
C_STANDARD = {"stdbool.h", "stddef.h", "stdint.h", "limits.h", "float.h"}
NOT_IN_THE_LIBRARY = {"jansson.h", "cmocka.h"}
LIBRARY = ("include/", "src/common/", "src/blockmgr/", "src/store/", "src/kernels/", "src/sim/")
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')


def folder_of(name):
    return next((f for f in MAY_INCLUDE if name.startswith(f)), None)


def resolve(root, name, quoted, target):
    """The file of this tree that is meant, or None."""
    places = ["include", "src", "", "bench", "tests"]
    if quoted:
        places.insert(0, str(pathlib.PurePath(name).parent))
    for place in places:
        if (root / place / target).is_file():
            return (root / place / target).resolve().relative_to(root.resolve()).as_posix()
    return None


def complaint_about(root, name, number, quoted, target):
    home = folder_of(name)
    if home is None:
        return common.Complaint(name, number, "C file in a folder that has no include rule: "
                                "move it, or add the folder to MAY_INCLUDE and architecture.md")
    found = resolve(root, name, quoted, target)
    if found is None:
        if quoted:
            return common.Complaint(name, number, f'"{target}" is not in this tree; use <> for '
                                    "headers of the system, and a path below include/ or src/")
        if home == "include/" and target not in C_STANDARD:
            return common.Complaint(name, number, f"<{target}>: public headers include only "
                                    + ", ".join(sorted(C_STANDARD)))
        if home in LIBRARY and target in NOT_IN_THE_LIBRARY:
            return common.Complaint(name, number, f"<{target}>: the library depends on libc alone")
        return None
    if found.startswith(home) or any(found.startswith(f) for f in MAY_INCLUDE[home]):
        return None
    return common.Complaint(name, number, f"{home} may not include {found}; allowed: "
                            + ", ".join((home,) + MAY_INCLUDE[home]))


def find(root, args):
    for name in common.c_files(root):
        for number, line in enumerate(common.read_lines(root, name), 1):
            if match := INCLUDE.match(line):
                found = complaint_about(root, name, number, match[1] == '"', match[2])
                if found:
                    yield found


def samples():
    headers = {"include/pagedkv/base.h": "", "src/common/common.h": "",
               "src/blockmgr/blockmgr_internal.h": "", "src/sim/sim_internal.h": ""}

    def file(name, text):
        return {**headers, name: text}

    yield "manager to common", file("src/blockmgr/a.c", '#include "common/common.h"\n'), False
    yield "test looks inside", file("tests/a/a.c", '#include "blockmgr/blockmgr_internal.h"\n'), False
    yield "kernel to a test", {**file("src/kernels/cuda/a.cuh", '#include "simt/a.h"\n'), "tests/simt/a.h": ""}, True
    yield "device header to the emulator", {
        **file("src/kernels/cuda/pkv_dev.cuh", '#include "simt/a.h"\n'), "tests/simt/a.h": ""}, False
    yield "kernel to manager", file("src/kernels/x86/a.c", '#include "blockmgr/blockmgr_internal.h"\n'), True
    yield "store to manager", file("src/store/a.c", '#include "../blockmgr/blockmgr_internal.h"\n'), True
    yield "sim to manager", file("src/sim/a.c", '#include "blockmgr/blockmgr_internal.h"\n'), True
    yield "common upward", file("src/common/a.c", '#include "sim/sim_internal.h"\n'), True
    yield "tool to common", file("src/tools/a.c", '#include "common/common.h"\n'), True
    yield "bench to common", file("bench/a.c", '#include "common/common.h"\n'), True
    yield "header to libc", file("include/pagedkv/a.h", "#include <stdio.h>\n"), True
    yield "library to jansson", file("src/sim/a.c", "#include <jansson.h>\n"), True
    yield "no such header", file("src/sim/a.c", '#include "nowhere.h"\n'), True
    yield "folder without a rule", file("lib/a.c", "#include <stdio.h>\n"), True


if __name__ == "__main__":
    sys.exit(common.main(common.this_module()))
