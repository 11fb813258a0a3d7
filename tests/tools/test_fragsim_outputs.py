#!/usr/bin/env python3
"""What pkv-fragsim writes for other programs: JSON against its schema, CSV against the JSON, and
files that appear all together or not at all; progress only where somebody looks. Prints TAP.

usage: test_fragsim_outputs.py PROGRAM
"""
import csv
import io
import json
import os
import pty
import re
import resource
import signal
import subprocess
import sys
import time

import tap_main
from fragsim_program import (PROGRAM, ROOT, TRACE, close, compare_row, expect, flat, good, in_folder, refused,
                             report, run)


# ---------------------------------------------------------------- JSON

SCHEMA = json.loads((ROOT / "docs/fragsim.schema.json").read_text())
TYPES = {"object": dict, "array": list, "string": str, "integer": int, "number": (int, float),
         "boolean": bool, "null": type(None)}


def has_type(value, name):
    return isinstance(value, TYPES[name]) and (name == "boolean" or not isinstance(value, bool))


def check_schema(schema, value, path="$"):
    """The part of JSON Schema that ours uses. Everything it does not know is an error."""
    known = {"$ref", "type", "enum", "required", "properties", "additionalProperties", "items",
             "description"}
    expect(set(schema) <= known, f"{path}: unknown keywords {set(schema) - known}")
    if "$ref" in schema:
        return check_schema(SCHEMA["$defs"][schema["$ref"].removeprefix("#/$defs/")], value, path)
    types = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    expect(any(has_type(value, name) for name in types), f"{path}: {value!r} is not {types}")
    expect("enum" not in schema or value in schema["enum"], f"{path}: {value!r} is not allowed")
    if isinstance(value, dict):
        missing = set(schema.get("required", ())) - set(value)
        expect(not missing, f"{path}: {missing} missing")
        for key, item in value.items():
            below = schema.get("properties", {}).get(key, schema["additionalProperties"])
            expect(below is not False, f"{path}.{key} is not in the schema")
            check_schema(below, item, f"{path}.{key}")
    if isinstance(value, list):
        for k, item in enumerate(value):
            check_schema(schema["items"], item, f"{path}[{k}]")
    return None


RUNS = (
    (),
    ("--policy", "paged", "--policy", "max:alloc=ideal", "--all-at-once"),
    ("--lengths", "fixed:10,1"),
    ("--policy", "paged", "--kv-tokens", "100000", "--request-rate", "0.01", "--window", "queued"),
    ("--policy", "paged:block=8", "--max-model-len", "40", "--slo", "ttft=1,tpot=1ms"),
    ("--arrival", "gamma", "--burstiness", "0.5", "--percentile-method", "nearest", "--check"),
    ("--policy", "paged+fork:n=3", "--policy", "paged+beam:width=2,switch=0.2,block=8"),
    ("--lengths", "gamma:50,2,60,1", "--model", "llama-3-8b", "--kv-memory", "1GiB"),
)


@in_folder
def test_json_follows_its_schema(folder):
    kinds = SCHEMA["$defs"]
    for args in RUNS:
        check_schema(kinds["run"], report("run", "--num-prompts", "200", *args))
    (folder / "t.csv").write_text(TRACE)
    check_schema(kinds["run"], report("run", "--trace", "t.csv", "--target-rate", "3", cwd=folder))
    sweep = report("sweep", "--trace", "t.csv", "--target-rate", "3,4", "--policy", "paged",
                   "--max-num-seqs", "4-8+2", cwd=folder)
    check_schema(kinds["sweep"], sweep)
    expect(len(sweep["points"]) == 6 and len(sweep["inputs"]) == 2 and len(sweep["knees"]) == 3, "sizes")
    for args in ((), ("--kv-memory", "12GiB", "--lengths", "alpaca-like"), ("--trace", "t.csv"),
                 ("--kv-tokens", "100", "--max-model-len", "100")):
        check_schema(kinds["capacity"], report("capacity", *args, cwd=folder))
    check_schema(kinds["paper"], report("paper", "--quiet"))
    inspected = report("inspect", "t.csv", cwd=folder)
    check_schema(kinds["inspect"], inspected)
    expect(inspected["requests"]["n"] == inspected["input"]["rows"]["used"], "rows used")
    wrong = report("run", "--num-prompts", "5", "--policy", "max")
    for spoil in (lambda r: r["policies"][0].pop("steps"), lambda r: r.update(more=1),
                  lambda r: r["config"].update(kv_tokens=1.5), lambda r: r["config"].update(engine="x")):
        spoilt = json.loads(json.dumps(wrong))
        spoil(spoilt)
        try:
            check_schema(kinds["run"], spoilt)
        except AssertionError:
            continue
        expect(False, "the schema lets a spoilt report pass")


# Fields of the library's structs under other names in the JSON; the rest has its own, or loses "n_".
RENAMED = {"n_finished_window": "finished_in_window", "n_seqs": "sequences", "shortage": "short",
           "rounding": "rounding", "norm_s": "normalized_s_per_token",
           "sharing_saving": "saving", "waste_waited": "waited_share", "pool_tokens": "kv_tokens",
           "watermark_ppm": "watermark", "step_base_ns": "base_ns", "step_per_seq_ns": "per_batch_ns",
           "step_per_token_ns": "per_token_ns", "admit_skip": "admit", "slo_ttft_ns": "ttft_ns",
           "slo_tpot_ns": "tpot_ns", "slo_norm_ns": "norm_ns", "percentile_nearest": "percentile_method",
           "window": "window", "max_split": "max_split", "live_final": "live_final_tokens",
           "mean_prompt": "mean_prompt_tokens", "mean_output": "mean_output_tokens",
           "below_block": "below_block_tokens", "watermark": "of_which_watermark", "tail": "of_which_tail",
           "cached": "of_which_cached", "dead": "of_which_dead"}
NOT_VALUES = {"struct_size", "content", "observer", "log", "alloc", "progress_ctx", "ctx"}


def struct_fields(header, name):
    """Names of the members of a struct, in our layout of headers."""
    body = re.search(r"typedef struct %s \{(.*?)\n\} %s;" % (name, name), header, re.S).group(1)
    body = re.sub(r"/\*.*?\*/", "", body, flags=re.S)
    for statement in body.split(";"):
        function = re.match(r"\s*void \(\*(\w+)\)", statement)
        words = [function.group(1)] if function else statement.replace("*", " ").split(",")
        for word in words:
            if word.split():
                yield word.split()[-1].strip()


def keys_of(value):
    if isinstance(value, dict):
        for key, item in value.items():
            yield key
            yield from keys_of(item)


def test_json_has_every_field():
    header = "".join((ROOT / "include/pagedkv" / name).read_text() for name in ("sim.h", "sim_result.h"))
    whole = report("run", "--num-prompts", "50", "--policy", "paged")
    cases = {"pkv_sim_result": whole["policies"][0], "pkv_sim_split": whole["policies"][0]["split"],
             "pkv_sim_hits": whole["policies"][0]["hits"], "pkv_sim_config": whole["config"],
             "pkv_sim_dist": whole["policies"][0]["e2e_s"], "pkv_sim_forms": whole["closed_forms"]}
    for struct, part in cases.items():
        names = [n for n in struct_fields(header, struct) if n not in NOT_VALUES]
        expect(len(names) > 5, f"{struct}: only {names}")
        have = set(keys_of(part))
        for name in names:
            if struct == "pkv_sim_config" and name in ("policy", "progress"):
                continue
            wanted = RENAMED.get(name, name) if struct != "pkv_sim_result" or name != "window" else name
            expect(wanted in have or wanted.removeprefix("n_") in have, f"{struct}.{name} is missing")


# ---------------------------------------------------------------- CSV

@in_folder
def test_csv_agrees_with_json(folder):
    headers = set()
    for args in RUNS:
        whole = json.loads(good("run", "--num-prompts", "200", *args, "--csv", "out.csv", "--json", "-",
                                cwd=folder))
        text = (folder / "out.csv").read_text()
        rows = list(csv.DictReader(io.StringIO(text)))
        headers.add(text.splitlines()[0])
        expect(len(rows) == len(whole["policies"]), "a row per policy")
        for row, policy in zip(rows, whole["policies"]):
            compare_row(row, policy, whole["config"])
    expect(len(headers) == 1, "the header depends on the run")


# ---------------------------------------------------------------- what follows from others

def test_quotients():
    """Formulas of the manual, from the other fields of the report."""
    whole = report("run", "--num-prompts", "300", "--model", "llama-3-8b", "--kv-tokens", "9000",
                   "--all-at-once", "--max-num-seqs", "30", "--max-model-len", "1000")
    c = whole["config"]
    expect(c["kv_bytes_per_token"] == 32 * 8 * 128 * 2 * 2, "bytes of a token of llama-3-8b")
    for p in whole["policies"]:
        close(p["duration_s"], p["end_ns"] / 1e9, "duration from the first arrival, which is at 0")
        close(p["requests_per_s"], p["finished"] * 1e9 / p["end_ns"], "requests per second")
        close(p["tokens_per_s"], p["generated_tokens"] * 1e9 / p["end_ns"], "tokens per second")
        close(p["preempted_share"], p["preempted_requests"] / p["requests"], "preempted")
        close(p["preemptions_per_admission"], p["preemptions"] / p["admissions"], "preemptions")
        close(p["recomputed_share"], p["recomputed_tokens"] / p["generated_tokens"], "recomputed")
        waste = (1 - p["split"]["token"]) * c["kv_tokens"] * c["kv_bytes_per_token"] * p["window_ns"] / 1e9
        close(p["waste"]["byte_s"], waste, "byte-seconds")
        close(p["waste"]["byte_s_per_finished"], waste / p["finished_in_window"], "per request")
        table = p["block_table"]
        if p["block_tokens"] is None:
            expect(all(v is None for v in table.values()), "a table without blocks")
            continue
        close(table["padded_bytes"], 30 * 63 * 4, "30 rows of ceil(1000 / 16) entries")
        close(table["share_of_kv"], 4 / (16 * c["kv_bytes_per_token"]), "an entry over its block")
        blocks = (p["split"]["token"] + p["split"]["internal"]) * c["kv_tokens"] / 16
        close(table["mean_entries"], blocks, "blocks in use")
        close(table["mean_bytes"], blocks * 4, "4 bytes each")


@in_folder
def test_where_requests_come_from(folder):
    """The section `input`, from the options given."""
    def told(*args, cwd=None, **wanted):
        got = report("run", "--policy", "paged+prefix", *args, cwd=cwd)
        got = {**got["requests"], **got["input"], "concurrency": got["config"]["concurrency"]}
        for key, value in wanted.items():
            expect(got[key] == value, f"{args}: {key} is {got[key]}, not {value}")

    few = ("--num-prompts", "20")
    (folder / "t.csv").write_text(TRACE)
    told(*few, lengths="sharegpt-like", arrivals="poisson", requests_per_s=8.0, seed=0, num_prompts=20, n=20)
    told(*few, "--lengths", "alpaca-like", "--request-rate", "2.5", "--seed", "7", lengths="alpaca-like",
         requests_per_s=2.5, seed=7, burstiness=None)
    told(*few, "--request-rate", "3", "--burstiness", "0.25", arrivals="gamma", burstiness=0.25)
    told(*few, "--arrival", "burst", "--burst-size", "5", arrivals="burst", burst_size=5)
    told(*few, "--all-at-once", arrivals="all_at_once", requests_per_s=None, span_ns=0)
    told(*few, "--request-rate", "inf", arrivals="all_at_once", requests_per_s=None)
    told(*few, "--concurrency", "3", arrivals="closed_loop", concurrency=3)
    told(*few, "--shared-prefix", "40", content={"block_tokens": 1, "distinct": 40,
                                                 "shared_prefix_tokens": 40})
    told(*few, "--lengths", "t.csv", "--in-order", cwd=folder, lengths=None, lengths_file="t.csv",
         in_order=True, arrivals="poisson")
    trace = ("--trace", "t.csv")
    told(*trace, cwd=folder, trace="t.csv", arrivals="trace", seed=None, n=150, span_ns=149 * 10**9 // 5,
         content=None, max_requests=None)
    told(*trace, "--target-rate", "2", cwd=folder, arrivals="stretched", requests_per_s=2.0,
         span_ns=149 * 10**9 // 2)
    told(*trace, "--time-scale", "0.5", cwd=folder, time_scale=0.5, span_ns=149 * 10**9 // 10)
    told(*trace, "--max-requests", "10", "--start", "2", "--duration", "10", "--filter", "vllm", cwd=folder,
         max_requests=10, start_ns=2 * 10**9, duration_ns=10**10, filter="vllm", n=10)


def test_moves_and_hits():
    """Bytes of what moved, and rates of what was found."""
    whole = report("run", "--num-prompts", "100", "--request-rate", "20", "--lengths", "fixed:100,300",
                   "--policy", "paged+swap", "--policy", "paged+fork:n=2", "--policy", "paged+prefix:block=8",
                   "--shared-prefix", "64", "--kv-tokens", "6000")
    token = whole["config"]["kv_bytes_per_token"]
    swap, fork, prefix = whole["policies"]
    compact = report("run", "--num-prompts", "100", "--policy", "oracle:compact",
                     "--kv-tokens", "6000")["policies"][0]
    expect(swap["moves"]["swaps"] > 0 and swap["moves"]["swapped_bytes"] ==
           swap["moves"]["swapped_blocks"] * 16 * token, f"swap: {swap['moves']}")
    expect(fork["moves"]["copied_blocks"] > 0 and fork["moves"]["copied_bytes"] ==
           fork["moves"]["copied_blocks"] * 16 * token, f"fork: {fork['moves']}")
    expect(compact["moves"]["compactions"] > 0 and compact["moves"]["compacted_bytes"] ==
           compact["moves"]["compacted_tokens"] * token, f"compact: {compact['moves']}")
    expect(swap["moves"]["compacted_bytes"] is None and compact["moves"]["swapped_bytes"] is None, "null")
    hits = prefix["hits"]
    expect(hits["cached_tokens"] == 99 * 64, f"all but the first find 64 tokens: {hits}")
    close(hits["rate"], hits["cached_tokens"] / hits["prompt_tokens"], "hit rate")
    close(hits["block_rate"], hits["cached_blocks"] / hits["prompt_blocks"], "of blocks")
    expect(whole["infinite_cache"]["found_tokens"] == 99 * 64, "of the infinite cache")
    close(whole["infinite_cache"]["hit_rate"], hits["rate"], "what the infinite cache finds")


# ---------------------------------------------------------------- files

def names_in(folder):
    return sorted(path.name for path in folder.iterdir())


def forbid_large_files():
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2048, 2048))


@in_folder
def test_all_files_or_none(folder):
    for small in (("run", "--num-prompts", "20"), ("sweep", "--num-prompts", "20", "--seed", "1,2")):
        for one, other in (("--json", "--csv"), ("--csv", "--json")):
            refused("none/x: cannot be written", *small, one, "a", other, "none/x", cwd=folder)
            expect(names_in(folder) == [], f"{names_in(folder)} left behind")
            if os.path.exists("/dev/full"):
                refused("/dev/full: writing failed", *small, one, "a", other, "/dev/full", cwd=folder)
                expect(names_in(folder) == [], f"{names_in(folder)} left behind")
        refused("both are written to 'a'", *small, "--json", "a", "--csv", "a", cwd=folder)
        refused("two outputs for one file", *small, "--json", "a", "--csv", "./a", cwd=folder)
        if os.path.exists("/dev/full"):
            for args in (("--json", "a"), ("--json", "a", "--csv", "-")):
                with open("/dev/full", "w") as full:
                    code, _, err = run(*small, *args, cwd=folder, stdout=full)
                expect(code == 2 and "stdout: writing failed" in err, f"a full disk under stdout: {err}")
        code, _, err = run(*small, "--csv", "b", "--json", "a", cwd=folder, before=forbid_large_files)
        expect(code == 2 and "cannot be written: File too large" in err, "a disk that fills up")
        expect(names_in(folder) == [], f"{names_in(folder)} left behind")


SLOW_GNUPLOT = """#!/bin/sh
if [ -e "$HOME/asked" ]; then
    : >"$HOME/drawing"
    exec sleep 60
fi
: >"$HOME/asked"
echo '<svg></defs></svg>'
"""


@in_folder
def test_interrupted_while_drawing(folder):
    """Whoever presses Ctrl-C while charts are drawn finds nothing of the other files."""
    bin_folder, out_folder = folder / "bin", folder / "out"
    bin_folder.mkdir()
    out_folder.mkdir()
    (bin_folder / "gnuplot").write_text(SLOW_GNUPLOT)
    (bin_folder / "gnuplot").chmod(0o755)
    env = {"PATH": f"{bin_folder}:/usr/bin:/bin", "HOME": str(folder)}
    with subprocess.Popen([PROGRAM, "run", "--num-prompts", "20", "--json", "a", "--csv", "b", "--svg", "c"],
                          cwd=out_folder, env=env, start_new_session=True,
                          stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as program:
        while program.poll() is None and not (folder / "drawing").exists():
            time.sleep(0.01)
        expect(program.returncode is None, f"exit {program.returncode} before a chart was drawn")
        os.killpg(program.pid, signal.SIGINT)
        expect(program.wait(60) == -signal.SIGINT, f"exit {program.returncode}")
    expect(names_in(out_folder) == [], f"{names_in(out_folder)} left behind")


@in_folder
def test_reader_goes_away(folder):
    """`| head` may end the output, but leaves no temporary file."""
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "w") as broken:
        code, _, err = run("run", "--num-prompts", "20", "--json", "a", "--csv", "b", cwd=folder,
                           stdout=broken)
    expect(code == 2 and "stdout: writing failed: Broken pipe" in err, f"exit {code}, {err}")
    expect(names_in(folder) == [], f"{names_in(folder)} left behind")


@in_folder
def test_files_replace_what_was_there(folder):
    small = ("run", "--num-prompts", "20", "--quiet")
    (folder / "real").write_text("old")
    (folder / "link").symlink_to("real")
    refused("none/x: cannot be written", *small, "--json", "link", "--csv", "none/x", cwd=folder)
    expect((folder / "real").read_text() == "old", "a failed run touched what was there")
    expect(good(*small, "--json", "link", "--csv", "new", cwd=folder) == "", "--quiet")
    expect((folder / "link").is_symlink() and json.loads((folder / "real").read_text()), "the link's target")
    expect(names_in(folder) == ["link", "new", "real"], f"{names_in(folder)} left behind")
    expect((folder / "new").stat().st_mode & 0o777 == 0o666 & ~current_mask(), "the usual mode")
    expect(good(*small, "--csv", "-").startswith("policy,"), "CSV on stdout")
    with open(folder / "into", "w") as into:
        run(*small, "--json", "/dev/stdout", stdout=into)
    json.loads((folder / "into").read_text())


def current_mask():
    mask = os.umask(0)
    os.umask(mask)
    return mask


# ---------------------------------------------------------------- progress

def on_terminal(*args):
    """stderr of a run whose stderr is a terminal."""
    master, slave = pty.openpty()
    with subprocess.Popen([PROGRAM, *args], stdout=subprocess.DEVNULL, stderr=slave) as program:
        os.close(slave)
        said = b""
        while True:
            try:
                chunk = os.read(master, 4096)
            except OSError:  # how Linux says that the other end is closed
                break
            if not chunk:
                break
            said += chunk
        code = program.wait(timeout=60)
    os.close(master)
    return code, said.decode()


def test_progress_only_on_terminals():
    for command in (("run", "--num-prompts", "2000"), ("sweep", "--num-prompts", "500", "--seed", "1,2")):
        total = 12000 if command[0] == "run" else 6000
        code, said = on_terminal(*command)
        expect(code == 0 and re.search(r"\r\x1b\[K\d+ % of \d+ requests", said), f"nothing shown: {said!r}")
        expect(f" % of {total} requests" in said, said)
        expect(said.endswith("\r\x1b[K"), "the line stays")
        expect(on_terminal(*command, "--quiet") == (0, ""), "--quiet")
        expect(run(*command)[2] == "", "progress into a pipe")
        code, out, err = run(*command, "--progress")
        expect(code == 0 and re.fullmatch(r"(\d+ % of \d+ requests(, \d+ requests/s, \d+ s left)?\n)+", err),
               f"--progress said {err!r}")
        expect(out == run(*command)[1].replace("", ""), "progress changes the output")


if __name__ == "__main__":
    sys.exit(tap_main.run_tests(globals()))
