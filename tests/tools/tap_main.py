"""Runs the test_* functions of a test script and prints TAP."""


class Skip(Exception):
    """Raised by a test that cannot run here; the text says why."""


def run_tests(names):
    """`names` is the globals() of the script. Returns its exit status."""
    tests = [value for name, value in sorted(names.items()) if name.startswith("test_")]
    print(f"1..{len(tests)}", flush=True)
    failed = False
    for number, test in enumerate(tests, 1):
        try:
            test()
            print(f"ok {number} - {test.__name__}", flush=True)
        except Skip as why:
            print(f"ok {number} - {test.__name__} # SKIP {why}", flush=True)
        except Exception as why:  # also a program that hangs
            failed = True
            print(f"not ok {number} - {test.__name__}", flush=True)
            print(f"# {type(why).__name__}: {why}".replace("\n", "\n# "), flush=True)
    return 1 if failed else 0
