#!/usr/bin/env python3
"""pkv-fragsim run against a slow model of the simulator that was written from its documentation
(tests/oracle/simulate.py), on random requests, pools and options. Prints TAP.

usage: test_fragsim_oracle.py PROGRAM [CASES]

PKV_SEED=N repeats one case.
"""
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "oracle"))
import simulate  # noqa: E402
import tap_main  # noqa: E402

PROGRAM = pathlib.Path(sys.argv[1]).resolve()
N_CASES = int(sys.argv[2]) if len(sys.argv) > 2 else 12
KV_BYTES, TENSOR_BYTES = 819200, 10240  # opt-13b, the program's default


def expect(condition, what):
    if not condition:
        raise AssertionError(what)


# ---------------------------------------------------------------- random cases

def draw_requests(rng, n):
    """(arrival ns, prompt, output): bursts and gaps, short and long ones."""
    longest, gap = rng.randint(1, 90), rng.choice((0, 0, rng.randint(1, 60000)))
    now, out = 0, []
    zero = rng.random() < 0.3
    for _ in range(n):
        o = 0 if zero and rng.random() < 0.15 else rng.randint(1, longest)
        out.append((now, rng.randint(1, longest), o))
        if gap and rng.random() < 0.7:
            now += rng.randint(0, gap)
    return out


def draw_config(rng):
    cfg = dict(kv_tokens=rng.randint(100, 700), max_model_len=rng.randint(20, 220), max_num_seqs=rng.randint(1, 12),
               watermark_ppm=rng.choice((0, 10000, 50000, 100000)), base_ns=rng.randint(1, 2000),
               per_batch_ns=rng.randint(0, 100), per_token_ns=rng.choice((0, 0, rng.randint(1, 19))),
               window=rng.choice(("auto", "all", "arrivals", "queued")), nearest=rng.random() < 0.3,
               skip=rng.random() < 0.3)
    if rng.random() < 0.25:
        cfg["concurrency"] = rng.randint(1, 15)
    if rng.random() < 0.3:
        cfg["prefill_tokens_per_s"] = rng.randint(1, 2000000000)
    if rng.random() < 0.3:
        cfg["prefill_chunk"] = rng.randint(1, 40)
    if rng.random() < 0.3:
        least = 1 if cfg.get("prefill_chunk") else cfg["max_model_len"]
        cfg["max_batched_tokens"] = rng.randint(least, least + 100)
    return cfg


def options_of(cfg):
    """The command line that says the same."""
    out = ["--kv-tokens", cfg["kv_tokens"], "--max-model-len", cfg["max_model_len"], "--max-num-seqs",
           cfg["max_num_seqs"], "--window", cfg["window"], "--step-time",
           f"{cfg['base_ns']}ns+{cfg['per_batch_ns']}ns*batch+{cfg['per_token_ns']}ns*tokens"
           .replace("+0ns*batch", "").replace("+0ns*tokens", "")]
    out += ["--percentile-method", "nearest" if cfg["nearest"] else "linear"]
    out += ["--admit", "skip" if cfg["skip"] else "fcfs"]
    for name, option in (("concurrency", "--concurrency"), ("prefill_tokens_per_s", "--prefill-rate"),
                         ("prefill_chunk", "--prefill-chunk"), ("max_batched_tokens", "--max-num-batched-tokens")):
        if cfg.get(name):
            out += [option, cfg[name]]
    return out


# ---------------------------------------------------------------- comparison

def compare(policy, got, want):
    """Every figure that both have; a list of what differs."""
    wrong = []

    def same(name, value, expected):
        if value != expected:
            wrong.append(f"{name} is {value}, expected {expected}")

    def close(name, value, expected):
        if (value is None) != (expected is None):
            wrong.append(f"{name} is {value}, expected {expected}")
        elif value is not None and abs(value - expected) > 1e-12 * max(1, abs(expected)):
            wrong.append(f"{name} is {value}, expected {float(expected)}")

    for name in ("window", "window_ns", "waited_ns", "end_ns", "steps", "finished", "too_long", "first_too_long",
                 "admissions", "preemptions", "preempted_requests", "max_batch", "max_queue", "move_ns",
                 "prefill_ns", "events"):
        same(name, got[name], want[name])
    same("generated_tokens", got["generated_tokens"], want["generated"])
    same("recomputed_tokens", got["recomputed_tokens"], want["recomputed"])
    same("swaps", got["moves"]["swaps"], want["swaps"])
    same("swapped_blocks", got["moves"]["swapped_blocks"], want["swapped_blocks"])
    places = {name: value or 0 for name, value in got["places"].items()}  # null where they do not matter
    same("failed_takes", places["failed_takes"], want["failed_takes"])
    for name, value in want["hits"].items():
        same(f"hits.{name}", got["hits"][name], value)
    if want["mean_rate"] is not None:
        close("hits.mean_rate", got["hits"]["mean_rate"], want["mean_rate"])
    measured = want["window_ns"] > 0
    close("mean_batch", got["mean_batch"], want["mean_batch"])
    if measured:
        share, split = want["share"], got["split"]
        for name in ("token", "reservation", "internal", "logical"):
            close(name, split[name], share[name])
        for name in ("rounding", "unusable", "short", "limited", "idle"):
            close(name, split["external_split"][name], share[name])
        close("external", split["external"],
              sum(share[k] for k in ("rounding", "unusable", "short", "limited", "idle")))
        for name in ("watermark", "tail", "cached", "dead"):
            close(f"of_which_{name}", split[f"of_which_{name}"], share.get(name, 0))
        close("waste_waited", got["waste"]["waited_share"], want["waste_waited"])
        close("sharing", got["sharing"]["saving"], want["saving"])
        close("scatter", places["scatter"], want["scatter"])
    for name in ("e2e_s", "normalized_s_per_token", "ttft_s", "tpot_s", "residence_s"):
        same(f"{name}.n", got[name]["n"], want[name]["n"])
        for k in ("mean", "p50", "p90", "p99", "max"):
            close(f"{name}.{k}", got[name][k], want[name].get(k))
    return [f"{policy}: {w}" for w in wrong]


def check(seed, policies, cfg, requests, content=None, more=()):
    """Run all policies at once, each against the model. Returns the reports."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "requests"
        if content is None:
            path.write_text("i,o,t\n" + "".join(f"{i},{o},{t}\n" for t, i, o in requests))
            source = ["--columns", "in=i,out=o,time=t"]
        else:
            ids, per = content
            path.write_text("".join(json.dumps(dict(timestamp=t, input_length=i, output_length=o, hash_ids=h)) + "\n"
                                    for (t, i, o), h in zip(requests, ids)))
            source = ["--hash-block-size", per]
        args = ["run", "--trace", path, *source, "--time-unit", "ns", "--zero-output", "keep", "--json", "-",
                "--check", *options_of(cfg), *more]
        if any(p.startswith(("paged", "vattn")) for p in policies):
            args += ["--watermark", f"{cfg['watermark_ppm'] / 1e6:.6f}"]
        for policy in policies:
            args += ["--policy", policy]
        done = subprocess.run([PROGRAM, *map(str, args)], capture_output=True, timeout=60, text=True)
    repeat = f"PKV_SEED={seed}"
    none = "no request finished" in done.stderr
    expect(done.returncode == (1 if none else 0), f"{repeat}: exit {done.returncode}: {done.stderr}")
    if none:
        return []
    reports = json.loads(done.stdout)["policies"]
    expect(len(reports) == len(policies), f"{repeat}: {len(reports)} reports")
    for policy, got in zip(policies, reports):
        names = [(ids, content[1]) for ids in content[0]] if content else None
        want = simulate.simulate(policy, cfg, requests, names)
        wrong = compare(policy, got, want)
        expect(not wrong, f"{repeat}: {len(wrong)} differ: " + "; ".join(wrong[:12]))
    return reports


def seeds(first):
    if "PKV_SEED" in os.environ:
        return [int(os.environ["PKV_SEED"])]
    return range(first, first + N_CASES)


def usable(rng, cfg, policies):
    """A pool that has a block, a chunk or a page is needed for every policy."""
    cfg["kv_tokens"] = max(cfg["kv_tokens"], 260 if any("2M" in p for p in policies) else 30)
    return policies


# ---------------------------------------------------------------- tests

ALLOCATORS = ("buddy", "first-fit", "best-fit", "next-fit", "ideal")


def test_contiguous():
    reports = []
    for seed in seeds(1000):
        rng = random.Random(seed)
        policies = [f"{rng.choice(('max', 'pow2', 'oracle'))}:alloc={alloc}" for alloc in ALLOCATORS]
        cfg = draw_config(rng)
        reports += check(seed, policies, cfg, draw_requests(rng, 60))
    if N_CASES >= 100 and len(reports) > 100:
        expect(sum(r["places"]["failed_takes"] or 0 for r in reports) > 100, "hardly any allocation failed")
        expect(sum(r["too_long"] for r in reports) > 100, "hardly any request was too long")


def test_orca_and_static_batches():
    for seed in seeds(2000):
        rng = random.Random(seed)
        cfg = draw_config(rng)
        policies = ["orca-real", f"orca-real:max_tokens={rng.randint(1, cfg['max_model_len'])}", "static-batch",
                    f"static-batch:alloc={rng.choice(ALLOCATORS)}"]
        check(seed, policies, cfg, draw_requests(rng, 60))


def test_vattention():
    for seed in seeds(3000):
        rng = random.Random(seed)
        policies = ["vattn:page=64K", "vattn:page=128K"]
        cfg = draw_config(rng)
        check(seed, policies, cfg, draw_requests(rng, 60))


def test_paged():
    reports = []
    for seed in seeds(4000):
        rng = random.Random(seed)
        cfg = draw_config(rng)
        policies = [f"paged:block={rng.randint(1, 20)}", f"paged+recompute:block={rng.choice((1, 4, 16))}"]
        reports += check(seed, policies, cfg, draw_requests(rng, 60))
    if N_CASES >= 100 and len(reports) > 100:
        expect(sum(r["preemptions"] for r in reports) > 300, "hardly any preemption")


def test_swap():
    reports = []
    for seed in seeds(5000):
        rng = random.Random(seed)
        cfg = draw_config(rng)
        cfg["swap_tokens"] = rng.randint(0, 300)
        cfg["swap_bytes_per_s"] = rng.choice((0, 32 * 10**9, rng.randint(10**11, 9 * 10**12)))
        cfg["copy_latency_ns"] = rng.choice((0, rng.randint(1, 1000)))
        more = ["--swap-space", f"{cfg['swap_tokens'] * KV_BYTES + rng.randint(0, KV_BYTES - 1)}B",
                "--swap-bandwidth", f"{cfg['swap_bytes_per_s']}B" if cfg["swap_bytes_per_s"] else "inf",
                "--copy-latency", f"{cfg['copy_latency_ns']}ns"]
        policies = [f"paged+swap:block={rng.randint(1, 20)}", f"paged+swap:block={rng.choice((1, 4, 16))}"]
        reports += check(seed, policies, cfg, draw_requests(rng, 60), more=more)
    if N_CASES >= 100 and len(reports) > 100:
        expect(sum(r["moves"]["swaps"] for r in reports) > 100, "hardly anybody was swapped")


def test_prefix():
    reports = []
    for seed in seeds(6000):
        rng = random.Random(seed)
        cfg = draw_config(rng)
        requests = draw_requests(rng, 60)
        per = min(rng.choice((1, 4, 16, 20)), max(i for _, i, _ in requests))
        n_first, n_later = rng.randint(1, 4), rng.randint(1, 3)
        full = rng.random() < 0.5
        ids = []
        for _, i, _ in requests:  # chained: an id names its whole prefix
            path = []
            for k in range(-(-i // per) if full else i // per):
                path.append(rng.randint(1, n_first if k == 0 else n_later))
            ids.append([hash_of(path[:k + 1], i if k == i // per else 0) for k in range(len(path))])
        policies = [f"paged+prefix:block={rng.randint(1, 20)}", f"paged+prefix:block={rng.choice((1, 4, 16))}"]
        reports += check(seed, policies, cfg, requests, content=(ids, per))
    if N_CASES >= 100 and len(reports) > 100:
        expect(sum(r["hits"]["cached_tokens"] for r in reports) > 1000, "hardly any hit")
        expect(sum(r["hits"]["again_cached"] for r in reports) > 100, "hardly any hit after a preemption")


def hash_of(path, tail):
    """A number for a path of blocks; blocks cut at different lengths are different."""
    n = tail + 1
    for step in path:
        n = (n * 1000003 + step) % (1 << 60)
    return n


if __name__ == "__main__":
    sys.exit(tap_main.run_tests(globals()))
