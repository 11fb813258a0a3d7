#!/usr/bin/env python3
"""Mutation testing (mutate.py) makes the mutants it says it makes, and the file of explained
survivors can be read. The samples are whole campaigns on a tree of one function: with a test that
looks, and with tests that do not."""
import argparse
import contextlib
import io
import shutil
import sys

import check_common as common
import mutants
import mutate

# A text, and all its mutants: line, change. Counted by hand.
TEXT = '''#define TWICE(x) ((x) + (x))
enum { AHEAD_PREFETCH = 8, LIMIT = 3 }; /* 1 + 1 */

int f(const int *p, int n)
{
    int a[4] = { 0 }, sum = n - 1;
    PKV_ASSERT(n > 0);
    if (n > 8) PKV_PREFETCH(p + 8);
    if (p && n <= LIMIT) return pkv__refuse(p, PKV_E_LIMIT, "%d < 5", n + 1);
    for (int i = 0; i < n; i++) sum += a[i], g(sum, n);
    return *p;
}
'''
EXPECTED = (
    (2, "3 -> 4"), (2, "3 -> 2"),
    (6, "0 -> 1"), (6, "- -> +"), (6, "1 -> 2"), (6, "1 -> 0"),
    (9, "negate: p && n <= LIMIT"), (9, "&& -> ||"), (9, "<= -> <"), (9, "<= -> >"),
    (9, 'drop: return pkv__refuse(p, PKV_E_LIMIT, "%d < 5", n + 1);'),
    (9, "PKV_E_LIMIT -> PKV_E_NO_MEMORY"),
    (10, "0 -> 1"), (10, "< -> <="), (10, "< -> >="), (10, "++ -> --"),
    (10, "drop: sum += a[i], g(sum, n);"), (10, "drop: sum += a[i]"), (10, "drop: g(sum, n)"),
    (10, "+= -> -="), (10, "swap: sum, n"),
)


def wrong_mutants():
    found = [(m.line, m.change) for m in mutants.mutants_of("a.c", TEXT)]
    for line, change in sorted(set(EXPECTED) - set(found)):
        yield common.Complaint("scripts/mutants.py", 0, f"no mutant of line {line}: {change}")
    for line, change in sorted(set(found) - set(EXPECTED)):
        yield common.Complaint("scripts/mutants.py", 0, f"an unwanted mutant of line {line}: {change}")
    if len(found) != len(set(found)):
        yield common.Complaint("scripts/mutants.py", 0, "a mutant is made twice")


def campaign(root):
    """A real one on a small tree; complains about every survivor."""
    if not shutil.which("gcc"):
        raise common.Skip("gcc is not installed")
    args = argparse.Namespace(seed=1, only=None, count=0, jobs=1, cc="gcc", json=None, survived=None,
                              survivors=root / mutate.SURVIVORS)
    paths = sorted((root / "src/blockmgr").glob("*.c"))
    order = [mutate.Killer("test_small", "plain", "test_small")]
    with contextlib.redirect_stdout(io.StringIO()) as out:
        percent = mutate.run_all(root, paths, order, args, lambda *_: None)
    if percent < 100:
        yield common.Complaint("src/blockmgr", 0, out.getvalue())


def find(root, args):
    try:
        if args.sample:
            yield from campaign(root)
        else:
            mutate.read_survivors(root / mutate.SURVIVORS)
            yield from wrong_mutants()
    except mutate.Failed as why:
        yield common.Complaint(mutate.SURVIVORS, 0, str(why))


def notes(root):
    """Explanations that the code has left behind: no failure, `mutate.py` lists them."""
    paths = sorted((root / "src/blockmgr").glob("*.c"))
    everything = mutate.read_mutants(paths, 1)
    explained = mutate.read_survivors(root / mutate.SURVIVORS)
    yield (f"{len(everything)} possible mutants of the block manager, {len(explained)} explained; "
           f"{len(mutate.stale(explained, everything))} explanations of code that is gone")


def samples():
    code = "int less(int a, int b);\nint less(int a, int b)\n{\n    return a < b;\n}\n"
    head = "int less(int, int);\nint main(void)\n{\n    return "
    looks = head + "less(1, 1) || !less(1, 2);\n}\n"
    border_missing = head + "!less(1, 2);\n}\n"
    blind = head + "0;\n}\n"
    fails = head + "1;\n}\n"
    known = "a.c less\nreturn a < b;\n< -> <=\nwhy: nobody asks\n"

    def tree(test, survivors="# none\n"):
        return {"src/blockmgr/a.c": code, "tests/blockmgr/test_small.c": test,
                mutate.SURVIVORS: survivors}

    yield "a test that looks", tree(looks), False
    yield "a test that forgets the border", tree(border_missing), True
    yield "a test that forgets the border, explained", tree(border_missing, known), False
    yield "a test that does nothing", tree(blind), True
    yield "a test that always fails", tree(fails), True
    yield "an explanation without a reason", tree(looks, "a.c less\nreturn a < b;\n< -> <=\n"), True


if __name__ == "__main__":
    sys.exit(common.main(common.this_module()))
