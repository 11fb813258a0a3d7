#!/usr/bin/env python3
"""Decode attention of other projects beside pkv-bench, in turns, on one machine.

No code of a peer is in this tree, and none is linked. A peer is a command of yours that times its own
decode attention and prints one JSON object on standard output:

    {"name": "vLLM 0.9 CPU, AMX", "samples_ns": [1234567, ...]}      ns of one call over the whole batch

It is called once per round with the shape as options, to be ignored where it cannot choose:

    COMMAND --sequences 32 --keys 2048 --heads 32 --kv-heads 8 --head-dim 128 --dtype f16 --threads 2

Peer and pkv-bench take turns (A B, B A, A B ..), so that drift of the machine hits both; the ratio is
that of the medians over rounds, with a bootstrap interval over rounds. Without --peer nothing is
measured: what is installed is named, with figures measured elsewhere.

    run_peers.py --program build/bench/pkv-bench --peer 'python3 vllm_decode.py' --peer './ggml_decode'
"""
import argparse
import ctypes.util
import importlib.util
import json
import os
import random
import shlex
import statistics
import subprocess
import sys

# time of the peer / time of our prototype, which knew its shape: upper bounds (docs/kernels.md)
ELSEWHERE = (
    ("C3", "vLLM CPU attention", "vllm", None,
     "1.13-1.55 (AMX, blocks of 128), 1.35-1.86 (AMX, 32), 2.1-2.3 (16), 1.5 (f32)"),
    ("C4", "ggml flash attention", "llama_cpp", "ggml-base",
     "5.7-10.5 (f16), 7-18 (q8_0); without flash attention 2.5-3.5, not paired"),
)


def fail(text):
    print(f"run_peers.py: {text}", file=sys.stderr)
    sys.exit(2)


def installed(module, library):
    if importlib.util.find_spec(module):
        return True
    return library is not None and ctypes.util.find_library(library) is not None


def print_elsewhere():
    for goal, what, module, library, figures in ELSEWHERE:
        state = "installed, but no --peer names a command that times it" if installed(module, library) \
            else "not installed"
        print(f"{goal}  {what}: not measured ({state})")
        print(f"    elsewhere, time / time of a prototype that knew its shape: {figures}")


def run(command):
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    except (OSError, subprocess.TimeoutExpired) as error:
        fail(f"{command[0]}: {error}")
    if done.returncode != 0:
        fail(f"{shlex.join(command)}: exit {done.returncode}: {done.stderr.strip()[-300:]}")
    return done.stdout


def ours(args):
    """Median ns of paged attention, blocks in random order."""
    row = f"paged-random/b{args.block_tokens}"
    text = run([args.program, "kernel", "--batch", f"{args.sequences}q1s{args.keys}", "--heads",
                f"{args.heads}/{args.kv_heads}", "--head-dim", str(args.head_dim), "--kv-dtype", args.dtype,
                "--block-tokens", str(args.block_tokens), "--threads", str(args.threads), "-r",
                str(args.samples), "--profile", args.profile, "--filter", row, "--json", "-"])
    for case in json.loads(text)["cases"]:
        if case["id"].endswith(row):
            return case["stats"]["median"]
    fail(f"pkv-bench has no row {row}")


def theirs(args, command):
    """Name and median ns of a peer."""
    text = run(shlex.split(command) + [
        "--sequences", str(args.sequences), "--keys", str(args.keys), "--heads", str(args.heads),
        "--kv-heads", str(args.kv_heads), "--head-dim", str(args.head_dim), "--dtype", args.dtype,
        "--threads", str(args.threads)])
    try:
        said = json.loads(text)
        return str(said["name"]), statistics.median(float(x) for x in said["samples_ns"])
    except (ValueError, KeyError, TypeError, statistics.StatisticsError) as error:
        fail(f"{command}: not the JSON that --help describes: {error!r}")


def interval(a, b, seed):
    """Ratio of medians and its 95 % bootstrap interval over rounds."""
    rng = random.Random(seed)
    ratios = []
    for _ in range(2000):
        picks = [rng.randrange(len(a)) for _ in a]
        ratios.append(statistics.median(a[i] for i in picks) / statistics.median(b[i] for i in picks))
    ratios.sort()
    return statistics.median(a) / statistics.median(b), ratios[49], ratios[1949]


def compare(args, command):
    own, peer, name = [], [], command
    for number in range(args.rounds):
        for who in ("ours", "theirs")[::-1 if number % 2 else 1]:
            if who == "ours":
                own.append(ours(args))
            else:
                name, ns = theirs(args, command)
                peer.append(ns)
    value, low, high = interval(own, peer, args.seed)
    print(f"{name}: {statistics.median(peer) / 1e6:.3f} ms; pagedkv {statistics.median(own) / 1e6:.3f} ms; "
          f"time of pagedkv / time of the peer {value:.3f} [{low:.3f}, {high:.3f}], {args.rounds} rounds")


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default="build/bench/pkv-bench", help="pkv-bench")
    parser.add_argument("--peer", action="append", default=[], metavar="COMMAND", help="may be repeated")
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--samples", type=int, default=10, help="of pkv-bench in each round")
    parser.add_argument("--sequences", type=int, default=32)
    parser.add_argument("--keys", type=int, default=2048)
    parser.add_argument("--heads", type=int, default=32)
    parser.add_argument("--kv-heads", type=int, default=8)
    parser.add_argument("--head-dim", type=int, default=128)
    parser.add_argument("--dtype", default="f16")
    parser.add_argument("--block-tokens", type=int, default=16)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--profile", default="full", choices=("full", "quick", "ci"), help="of pkv-bench")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    if args.rounds < 1 or args.samples < 1:
        parser.error("--rounds and --samples want at least 1")
    return args


def main():
    args = parse()
    for command in args.peer:
        compare(args, command)
    if not args.peer:
        print_elsewhere()


if __name__ == "__main__":
    main()
