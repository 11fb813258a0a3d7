#!/usr/bin/env python3
"""check_gpu as it runs on a GPU, over a CUDA runtime of the test's own (tests/simt/fake_cudart.c), and
its dry run: command lines, exit status, the JSON and its numbers, errors of the device. Prints TAP.

usage: test_check_gpu.py PROGRAM DRY_PROGRAM
"""
import json
import os
import pathlib
import resource
import signal
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tools"))
import tap_main

PROGRAM, DRY = (pathlib.Path(arg).resolve() for arg in sys.argv[1:3])


def run(*args, program=PROGRAM, **env):
    done = subprocess.run([program, *args], capture_output=True, text=True, env={**os.environ, **env}, timeout=100)
    return done.returncode, done.stdout, done.stderr


def small_files():
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))


def results(*args, **more):
    """(exit status, JSON, {name: result})"""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "r.json"
        code, out, err = run("--json", str(path), *args, **more)
        data = json.loads(path.read_text())
    expect(err == "", f"{args}: said {err!r}")
    return code, data, {r["name"]: r for r in data["results"]}


def expect(condition, what):
    if not condition:
        raise AssertionError(what)


def near(value, wanted, what):
    expect(abs(value - wanted) <= 1e-3 * wanted, f"{what}: {value}, not {wanted}")


def test_command_lines():
    for args in (("--stage", "nonsense"), ("--stage", "moves,"), ("--seed", "x"), ("--seed", "-1"), ("--seed", " 1"),
                 ("--seed", "18446744073709551616"), ("stray",), ("--frobnicate",)):
        code, _, err = run(*args)
        expect(code == 2 and args[-1].lstrip("-") in err, f"{args}: exit {code}: {err}")
    code, out, err = run("--stage", "ceilings", "--json", "/nonexistent/x.json")
    expect(code == 2 and "/nonexistent/x.json" in err and "stage" not in out, f"exit {code}: {out}{err}")
    code, out, _ = run("--help")
    expect(code == 0 and "ceilings" in out and "moves" in out, "--help")
    expect(run("--dry-run")[0] == 2, "a dry run of the program for GPUs")
    expect(run(program=DRY)[0] == 2, "the dry program without --dry-run")


def test_no_device():
    code, out, _ = run(FAKE_ABSENT="1")
    expect(code == 77 and "no GPU: a planted error" in out, f"exit {code}: {out}")


def test_no_use_of_the_device():
    """One that is there and fails is no skip; memory and errors are told apart."""
    for env, words in (({"FAKE_FAILS": "cudaGetDevice"}, "the device: a planted error"),
                       ({"FAKE_FAILS": "cudaMemcpyAsync"}, "the device: a planted error"),
                       ({"FAKE_FULL": str(1 << 20)}, "no memory for 150994944 bytes")):
        code, out, _ = run(**env)
        expect(code == 1 and words in out, f"{env}: exit {code}: {out}")


def test_full_disk():
    """Results that cannot be kept, the first ones could, are no success."""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run([PROGRAM, "--stage", "ceilings", "--json", f"{folder}/r.json"], capture_output=True,
                              text=True, timeout=100, preexec_fn=small_files)
    expect(done.returncode == 2 and "cannot write" in done.stderr, f"exit {done.returncode}: {done.stderr}")
    expect("copy, read and written bytes" in done.stdout, done.stdout)


def test_ceilings():
    code, data, r = results("--stage", "ceilings", "--seed", "7")
    expect(code == 0 and data["seed"] == 7 and data["dry_run"] is False, f"{code} {data}")
    expect(data["device"] == 'no "GPU" at all' and data["driver"] == "13.2" and len(data["commit"]) >= 7, f"{data}")
    expect(data["nvcc"] == "", f"{data}")
    copy = r["copy, read and written bytes"]
    expect(copy["runs"] >= 20 and copy["verdict"] == "measured", f"{copy}")
    near(copy["min_us"], 1000, "the least time")
    near(copy["median_us"], 2000, "the median")
    pool = (240 << 20) // 10 * 6 // 4096 * 4096
    near(copy["rate"], pool / 2 // 4096 * 4096 * 2 / 2e-3 * 1e-9, "bytes read and written")
    near(data["copy_gb_s"], copy["rate"], "the ceiling")
    near(data["gemm_tflop_s"], 1, "the product")
    expect("1980 MHz, 700 W" in r["clock and power before"]["note"], "sensors")


def test_moves():
    code, _, r = results("--stage", "ceilings,moves")
    expect(code == 0, f"exit {code}")
    copied = r["copy of 2048 blocks of 4096 bytes"]
    near(copied["rate"], 2 * 2048 * 4096 / 2e-3 * 1e-9, "rate of copies")
    near(copied["share"], copied["rate"] / r["copy, read and written bytes"]["rate"], "share")
    expect(r["blocks of 2097152 bytes"]["verdict"] == "skipped", "a pool that is too small")
    expect(all(x["verdict"] in ("measured", "ok", "skipped") for x in r.values()), f"{r}")


def test_lost_device():
    """A device that is lost in the middle is a wrong result, and what came before is kept."""
    code, data, r = results("--stage", "ceilings,moves", FAKE_FAILS="cudaGraphLaunch")
    expect(code == 1, f"exit {code}")
    expect(r["copy, read and written bytes"]["verdict"] == "WRONG", f"{data}")
    expect("a planted error" in r["copy, read and written bytes"]["note"], f"{data}")


def test_refused_graph():
    code, _, r = results("--stage", "moves", FAKE_FAILS="cudaStreamBeginCapture")
    expect(code == 1 and r["copy of 2048 blocks of 4096 bytes"]["verdict"] == "WRONG", f"{code} {r}")


def test_kernels_on_lent_memory():
    """check_kernels inside: pages are registered once each, what belongs together in one call, given back,
    and calls waited for."""
    cases = ("blocks_copy.copies", "attention.lengths.f16", "states_merge.merges.f16", "kv_write.scatter.bf16",
             "kv_gather.gathers.e4m3")
    for name in cases:
        code, out, _ = run("--check-kernels", "--case", name, PKV_ISA="cuda")
        expect(code == 0 and " 0 failed" in out.splitlines()[-1], f"{name}: exit {code}: {out}")
        expect(not out.splitlines()[-1].startswith("0 passed"), f"{name}: nothing ran: {out}")
    code, out, _ = run("--check-kernels", "--case", cases[0], "--seed", "0", PKV_ISA="cuda",
                       FAKE_FAILS="cudaDeviceSynchronize")
    expect(code == 1 and "FAILED the device: a planted error" in out, f"exit {code}: {out}")


def test_address_space():
    """Where pages have to be registered, address space alone is out of reach: a skip, not a crash."""
    name = "kv_write.far_rows"
    code, out, _ = run("--check-kernels", "--case", name, "--seed", "0", PKV_ISA="cuda")
    expect(code == 0 and out.splitlines()[-1] == "0 passed, 0 failed, 1 skipped", f"exit {code}: {out}")
    expect("it does not reach this memory" in out, out)
    out = run("--check-kernels", "--case", "blocks_copy", "--seed", "0", "--verbose", PKV_ISA="cuda")[1]
    skipped = [line.split(" ")[0] for line in out.splitlines() if "(skipped)" in line]
    expect("blocks_copy.far" in skipped, f"{skipped}")
    expect(not any(".partial" in name for name in skipped), f"what comes after is skipped, too: {skipped}")
    code, out, _ = run("--check-kernels", "--case", name, "--seed", "0", PKV_ISA="cuda", FAKE_HMM="1")
    expect(code == 0 and out.splitlines()[-1] == "1 passed, 0 failed, 0 skipped", f"exit {code}: {out}")


def test_few_pages():
    """What is registered in part only is given back: later runs find no page that is there twice."""
    for case, pages in (("blocks_copy.copies", 3), ("attention.lengths.f16", 40)):
        out = run("--check-kernels", "--case", case, PKV_ISA="cuda", FAKE_PAGES=str(pages))[1]
        last = out.splitlines()[-1]
        expect(", 0 failed," in last and not last.endswith(" 0 skipped"), out)
        expect(case != "blocks_copy.copies" or not last.startswith("0 "), out)


def test_dry_run():
    code, data, r = results("--dry-run", program=DRY)
    expect(code == 0 and data["dry_run"] is True, f"exit {code}")
    expect({x["stage"] for x in r.values()} == {"ceilings", "correctness", "bits", "decode", "batches", "prefill",
                                                "moves"}, "stages")
    expect(all(x["median_us"] == 0 and x["share"] == 0 for x in r.values()), "a time in a dry run")
    expect(sum(x["verdict"] != "skipped" for x in r.values()) >= 15, f"nearly all is skipped: {r}")


if __name__ == "__main__":
    sys.exit(tap_main.run_tests(globals()))
