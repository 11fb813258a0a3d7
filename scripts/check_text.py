#!/usr/bin/env python3
"""Text of every file: no blanks at line ends, tabs or invisible characters; no marks of unfinished
work; no path of one machine; no feature test inside a function; file names unique in the tree; links between
documents lead somewhere."""
import pathlib
import re
import sys
import unicodedata

import check_common as common

# Written in two halves, so that this file does not complain about itself.
WORDS = {
    "TO" + "DO": "finish it, or write down as a limit what is missing",
    "FIX" + "ME": "fix it",
    "X" + "XX": "fix it",
    "-march=" + "native": "compile each level with the flags of that level only",
    "/wo" + "rk/": "a path of one machine; make it relative to the tree",
    "/ho" + "me/": "a path of one machine; make it relative to the tree",
    "/ro" + "ot/": "a path of one machine; make it relative to the tree",
}
WORD = re.compile("|".join(r"(?<![\w.])" + re.escape(w) for w in WORDS))
FEATURE = re.compile(r"^\s*#\s*(?:el)?if.*__(?:AVX|SSE|FMA|F16C|BMI|AMX|ARM_)")
LINK = re.compile(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)")
ONE_PER_FOLDER = {"meson.build"}


def invisible(char):
    return char not in "\n\r\t" and unicodedata.category(char) in ("Cf", "Cc", "Zl", "Zp", "Co") or (
        unicodedata.category(char) == "Zs" and char != " ")


def complaints_about_lines(name, lines):
    for number, line in enumerate(lines, 1):
        if line != line.rstrip():
            yield common.Complaint(name, number, "blanks at the end of the line: remove them")
        if "\t" in line:
            yield common.Complaint(name, number, "a tab: use spaces")
        for char in filter(invisible, line):
            yield common.Complaint(name, number, f"invisible character U+{ord(char):04X}: remove it")
        if match := WORD.search(line):
            yield common.Complaint(name, number, f'"{match[0]}": {WORDS[match[0]]}')


def dead_links(root, name, lines):
    for number, line in enumerate(lines, 1):
        for target in LINK.findall(line):
            if not ((root / name).parent / target).exists():
                yield common.Complaint(name, number, f"the link to {target} leads nowhere")


def find(root, args):
    seen = {}
    for name in common.tree_files(root):
        base = pathlib.PurePath(name).name
        if base not in ONE_PER_FOLDER and not common.is_data(name):
            if base in seen:
                yield common.Complaint(name, 0, f"same file name as {seen[base]}: rename one")
            seen[base] = name
        raw = (root / name).read_bytes()
        if common.is_data(name) or b"\0" in raw:
            continue
        try:
            text = raw.decode("utf-8")
        except UnicodeDecodeError as error:
            yield common.Complaint(name, 0, f"not UTF-8 at byte {error.start}")
            continue
        if text and not text.endswith("\n"):
            yield common.Complaint(name, 0, "no newline at the end")
        lines = text.split("\n")[:-1]
        yield from complaints_about_lines(name, lines)
        if name.endswith(".md"):
            yield from dead_links(root, name, lines)
        if not name.endswith(common.C_SUFFIXES):
            continue
        for _, start, last, function in common.function_bodies(lines):
            for number in range(start, last):
                if FEATURE.match(lines[number - 1]):
                    yield common.Complaint(name, number, f"feature test inside {function}: one file "
                                           "per level, chosen by the dispatcher")


def samples():
    body = "int f(void)\n{\n%s\n    return 0;\n}\n"
    yield "clean", {"a.c": "int a; /* 5 \u00d7 \u03bc */\n", "b/meson.build": "", "c/meson.build": ""}, False
    yield "trailing blank", {"a.c": "int a; \n"}, True
    yield "tab", {"a.c": "\tint a;\n"}, True
    yield "zero-width space", {"a.md": "a\u200bb\n"}, True
    yield "no-break space", {"a.md": "a\u00a0b\n"}, True
    yield "no newline", {"a.c": "int a;"}, True
    yield "feature test outside", {"a.c": "#ifdef __AVX2__\nint a;\n#endif\n" + body % ""}, False
    yield "feature test inside", {"a.c": body % "#ifdef __AVX2__\n#endif"}, True
    yield "good link", {"a.md": "[b](b/c.md#x)\n", "b/c.md": ""}, False
    yield "dead link", {"a.md": "[b](b/c.md)\n"}, True
    yield "same name twice", {"a/x.c": "", "b/x.c": ""}, True
    for word in WORDS:
        yield f"the word {word}", {"a.c": f"/* see {word}x */\n"}, True


if __name__ == "__main__":
    sys.exit(common.main(common.this_module()))
