#!/usr/bin/env python3
"""check_kernels --accuracy on what a real model's attention sees, and on files that are no dump.
Prints TAP.

usage: test_accuracy.py CHECK_KERNELS DUMP_KV
"""
import os
import pathlib
import struct
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tools"))

import tap_main
from tap_main import Skip

CHECK_KERNELS, DUMP_KV = (pathlib.Path(a).resolve() for a in sys.argv[1:3])
MODEL = pathlib.Path(os.environ.get("PKV_SHARED", "../shared")) / "models/stories260K/stories260K.bin"


def accuracy(*args):
    return subprocess.run([CHECK_KERNELS, "--accuracy", *map(str, args)], capture_output=True,
                          text=True, timeout=120)


def passed(done):
    assert done.returncode == 0, f"exit {done.returncode}: {done.stdout[-2000:]}{done.stderr}"
    assert done.stdout.endswith(" 0 failed\n"), done.stdout[-300:]


def test_distributions():
    done = accuracy()
    passed(done)
    assert "SKIPPED dump" in done.stdout, done.stdout[-300:]


def test_model():
    if not MODEL.exists():
        raise Skip(f"no {MODEL}")
    with tempfile.TemporaryDirectory() as folder:
        dump = pathlib.Path(folder) / "kv"
        made = subprocess.run([sys.executable, DUMP_KV, "--check", "--tokens", "96", dump],
                              capture_output=True, text=True, timeout=120)
        assert made.returncode == 0, made.stderr
        done = accuracy("--dump", dump)
        passed(done)
        rows = [line for line in done.stdout.splitlines() if line.startswith("dump ")]
        assert len(rows) == 17, f"{len(rows)} rows of the dump"
        whole = dump.read_bytes()
        dump.write_bytes(whole[:-1])
        refused(dump, f"offset {len(whole) - 1}: the file ends")


def refused(path, words):
    done = accuracy("--dump", path)
    assert done.returncode == 2 and done.stdout == "", f"exit {done.returncode}: {done.stdout[:300]}"
    assert words in done.stderr and done.stderr.count("\n") == 1, done.stderr


def test_no_dump():
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "kv"
        refused(path, "cannot be opened")
        path.write_bytes(b"PKVDUMP2" + bytes(100))
        refused(path, "offset 0")
        path.write_bytes(b"PKVDUMP1" + struct.pack("<5I", 1, 1, 2, 2, 12) + bytes(4 * 72))
        refused(path, "offset 24")


if __name__ == "__main__":
    sys.exit(tap_main.run_tests(globals()))
