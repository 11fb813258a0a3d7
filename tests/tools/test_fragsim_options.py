#!/usr/bin/env python3
"""Every option of pkv-fragsim does what it says: results against sums done by hand, aliases against
each other, and what is refused against the words of the refusal. Prints TAP.

usage: test_fragsim_options.py PROGRAM
"""
import json
import os
import pathlib
import sys

import tap_main
from fragsim_program import close, expect, good, in_folder, refused, report, run
from tap_main import Skip

SHARED = pathlib.Path(os.environ.get("PKV_SHARED", "../shared")) / "traces"
SECOND = 10**9
TIMED = "arrived_at,num_prefill_tokens,num_decode_tokens\n0,10,5\n1,20,6\n3,30,7\n"
UNTIMED = "num_prefill_tokens,num_decode_tokens\n10,2\n20,4\n30,6\n"
ONE_BY_ONE = ("--step-time", "1", "--policy", "paged")


def policy(*args, cwd=None):
    """The only policy of a run."""
    policies = report("run", *args, cwd=cwd)["policies"]
    expect(len(policies) == 1, "one policy")
    return policies[0]


def same_but_line(one, other):
    """Are two reports equal but for the line that repeats them?"""
    return {**one, "repro_command": ""} == {**other, "repro_command": ""}


# ---------------------------------------------------------------- examples

@in_folder
def test_examples_of_the_manual(folder):
    conv = SHARED / "azure2023/AzureLLMInferenceTrace_conv.csv"
    shared = SHARED / "mooncake/synthetic_trace.jsonl"
    for trace in (conv, shared):
        if not trace.exists():
            print(f"SKIPPED: {trace} is missing", file=sys.stderr)
            raise Skip(f"{trace} is missing")
        (folder / trace.name).symlink_to(trace.resolve())
    good("run", "--trace", conv.name, "--policy", "max", "--policy", "pow2", "--policy", "oracle",
         "--policy", "paged:block=16", "--kv-tokens", "65536", "--max-model-len", "16384", "--json",
         "out.json", "--html", "out.html", cwd=folder)
    expect({"out.json", "out.html"} <= {p.name for p in folder.iterdir()}, "the two files")
    good("sweep", "--lengths", "sharegpt-like", "--request-rate", "0.5-4*1.25", "--policy", "paged",
         "--block-tokens", "1,8,16,32,64,128,256", "--csv", "sweep.csv", cwd=folder)
    # 0.5 * 1.25^k <= 4 for k = 0 .. 9; a header and a row per point
    expect(len((folder / "sweep.csv").read_text().splitlines()) == 1 + 10 * 7, "points of the sweep")
    expect("15728 slots" in good("capacity", "--model", "opt-13b", "--kv-memory", "12GiB", "--lengths",
                                 "alpaca-like"), "capacity")
    expect("8819 read" in good("inspect", SHARED / "azure2023/AzureLLMInferenceTrace_code.csv"), "inspect")
    out = good("run", "--trace", shared.name, "--policy", "paged+prefix:block=16", "--hash-block-size",
               "512", "--num-blocks", "65536", "--max-model-len", "200000", cwd=folder)
    # 65536 blocks of 16; what the trace's authors print of an infinite cache is 65.12 %
    expect("1048576 slots" in out and "find 65.12 % of the prompt tokens" in out, out)
    out = good("inspect", shared.name, cwd=folder)
    expect("65.12 % of the prompt tokens" in out and "63.96 % of the ids" in out and "43.15 % as mean" in out,
           out)


def test_wrong_block_size_of_ids():
    trace = SHARED / "llmservingsim/sharegpt_llama31_8b_300_blk16.jsonl"
    if not trace.exists():
        print(f"SKIPPED: {trace} is missing", file=sys.stderr)
        raise Skip(f"{trace} is missing")
    refused("16 tokens per id would (--hash-block-size)", "inspect", trace)
    expect("857.46" in good("inspect", trace, "--hash-block-size", "16"), "mean prompt")


# ---------------------------------------------------------------- memory

# bytes per token: 2 (K and V) * layers * KV heads * head size * 2 bytes
MODELS = {"opt-13b": 2 * 40 * 40 * 128 * 2, "opt-66b": 2 * 64 * 72 * 128 * 2, "opt-175b": 4718592,
          "llama-2-7b": 2 * 32 * 32 * 128 * 2, "llama-2-13b": 2 * 40 * 40 * 128 * 2,
          "llama-2-70b": 2 * 80 * 8 * 128 * 2, "llama-3-8b": 131072, "llama-3-70b": 327680,
          "llama-3.1-8b": 131072, "llama-3.1-70b": 327680, "llama-3.1-405b": 2 * 126 * 8 * 128 * 2,
          "mistral-7b": 131072, "mixtral-8x7b": 131072, "qwen2.5-7b": 2 * 28 * 4 * 128 * 2,
          "qwen2.5-72b": 327680, "yi-34b": 2 * 60 * 8 * 128 * 2}


def memory(*args):
    return report("capacity", "--lengths", "fixed:10,10", "--num-prompts", "10", *args)["memory"]


def test_bytes_of_models():
    for name, size in MODELS.items():
        expect(memory("--model", name)["kv_bytes_per_token"] == size, name)
    expect(memory("--model", "opt-13b", "--kv-memory", "12GiB")["kv_tokens"] == 15728, "opt-13b")
    expect(memory("--model", "opt-175b", "--kv-memory", "264GiB")["kv_tokens"] == 60074, "opt-175b")
    # vAttention: b of Yi-34B on two workers is 1 KB, of Llama-3-8B 2 KB, of OPT-13B 10 KB
    for name, workers, size in (("yi-34b", 2, 1024), ("llama-3-8b", 1, 2048), ("opt-13b", 1, 10240)):
        expect(memory("--model", name, "--tensor-parallel", workers)["tensor_token_bytes"] == size, name)
    # 16 workers keep 8 heads twice
    expect(memory("--model", "llama-3-8b", "--tensor-parallel", "16")["kv_bytes_per_token"] == 262144, "16")
    for dtype, share in (("fp8", 2), ("int4", 4), ("float32", 0.5), ("bfloat16", 1), ("auto", 1)):
        expect(memory("--model", "llama-3-8b", "--kv-dtype", dtype)["kv_bytes_per_token"] == 131072 / share,
               dtype)
    given = memory("--layers", "3", "--kv-heads", "5", "--head-dim", "7", "--kv-dtype", "fp8")
    expect(given["kv_bytes_per_token"] == 2 * 3 * 5 * 7 and given["model"]["name"] is None, "by numbers")
    refused("'gpt-5' is not one of opt-13b, ", "capacity", "--model", "gpt-5")
    refused("3 workers cannot share 8 KV heads", "run", "--model", "llama-3-8b", "--tensor-parallel", "3")
    refused("a token of 2147483648 bytes is too large", "run", "--layers", "1", "--kv-heads", "65536",
            "--head-dim", "8192")
    refused("no whole number of bytes", "run", "--layers", "1", "--kv-heads", "1", "--head-dim", "1",
            "--kv-dtype", "int4")


def test_sizes():
    tiny = ("--layers", "1", "--kv-heads", "1", "--head-dim", "2")  # 8 bytes per token
    for text, size in (("1GiB", 2**30), ("1GB", 10**9), ("819200", 819200), ("0.5MiB", 2**19), ("8007", 8007),
                       ("1kB", 1000), ("1KB", 1000), ("1KiB", 1024), ("1.5 GiB", 3 * 2**29), ("0.001MB", 1000),
                       ("16GiB", None), ("0.01TB", 10**10), ("4000B", 4000)):
        if size is None:
            refused("1 to 2147483647 are possible", "capacity", *tiny, "--kv-memory", text)
        else:
            expect(memory(*tiny, "--kv-memory", text)["kv_tokens"] == size // 8, text)
    for text in ("", "GiB", "12GiBs", "12 gib", "-1GiB", "1.0000001B", "0", "1e9", "nan", "0x10", "99999999TiB",
                 "0.5B"):
        refused("--kv-memory: '", "run", "--kv-memory", text)


def test_pool():
    def slots(*args):
        return report("run", "--num-prompts", "20", "--policy", "paged", *args)["config"]["kv_tokens"]

    expect(slots() == 15728, "OPT-13B on 40 GB")
    expect(slots("--kv-tokens", "5000") == 5000, "--kv-tokens")
    expect(slots("--num-blocks", "300") == 4800, "blocks of 16")
    expect(slots("--num-blocks", "300", "--block-tokens", "8") == 2400, "blocks of 8")
    expect(slots("--num-gpu-blocks-override", "301") == 4800, "block 0 is nobody's")
    expect(slots("--kv-memory", "8GiB", "--model", "llama-3-8b") == 65536, "8 GiB / 128 KiB")
    tiny = ("--kv-tokens", "3", "--max-model-len", "2", "--lengths", "fixed:1,1", "--num-prompts", "20")
    # three requests of two slots each: one at a time fits, two do not
    expect(policy(*tiny, "--policy", "oracle:ideal", "--all-at-once")["max_batch"] == 1, "less than a block")
    expect(report("capacity", *tiny, "--policy", "oracle:ideal")["full_length"][0]["mean_requests"] == 1, "tiny")
    refused("no room for one block", "capacity", *tiny)
    refused("more than 2147483647 slots", "run", "--num-blocks", "2147483647")


def test_aliases():
    for one, other in ((("--block-tokens", "8"), ("--block-size", "8")),
                       (("--kv-dtype", "fp8"), ("--kv-cache-dtype", "fp8")),
                       (("--num-blocks", "300"), ("--num-gpu-blocks-override", "301")),
                       (("--tensor-parallel", "2"), ("--tensor-parallel-size", "2")),
                       (("--arrival", "gamma", "--burstiness", "0.5"), ("--burstiness", "0.5")),
                       (("--swap-space", "2"), ("--swap-space", "2GiB")),
                       (("--request-rate", "inf"), ("--all-at-once",))):
        args = ("run", "--num-prompts", "60", "--policy", "paged+swap")
        got, want = report(*args, *one), report(*args, *other)
        expect(same_but_line(got, want), f"{one} and {other} differ")


@in_folder
def test_alias_of_trace(folder):
    (folder / "t.csv").write_text(TIMED)
    args = ("run", "--policy", "paged")
    one, other = (report(*args, name, "t.csv", cwd=folder) for name in ("--trace", "--dataset-path"))
    expect(same_but_line(one, other), "--dataset-path")


# ---------------------------------------------------------------- capacity

def test_capacity_by_hand():
    """1000 slots, requests of 100 + 100, at most 256: what fits is counted on fingers."""
    args = ("capacity", "--lengths", "fixed:100,100", "--num-prompts", "300", "--kv-tokens", "1000",
            "--max-model-len", "256", "--layers", "1", "--kv-heads", "1", "--head-dim", "512")
    fits = {"max": 3,                         # chunks of 256 in roots 512 + 256 + 128 + ...
            "static-batch": 3,
            "max:alloc=ideal": 3,             # 1000 / 256
            "pow2": 3,                        # 100 + 128 is a chunk of 256
            "pow2:alloc=ideal": 4,            # 1000 / 228
            "oracle": 3, "oracle:alloc=best-fit": 5,
            "orca-real:max_tokens=250": 4,
            "paged:block=16": 4,              # 62 blocks, 13 each
            "paged:block=100": 5,             # 10 blocks, 2 each
            "paged+fork:block=16,n=2": 3,     # 6 shared, 7 more for each of two: 20
            "vattn:page=64K": 3}              # 64 tokens a page: 15 pages, 4 each
    got = report(*args, *[part for name in fits for part in ("--policy", name)])
    for row, (name, n) in zip(got["full_length"], fits.items()):
        expect(row["policy"] == name and row["mean_requests"] == row["least"] == row["most"] == n,
               f"{row}, expected {n}")
    close(got["full_length"][8]["token"], 4 * 200 / 1000, "tokens in the pool")
    forms, block = got["closed_forms"], got["block"]
    close(forms["live_tokens"], 100 + 99 / 2, "live tokens")
    close(forms["oracle_ideal_batch"], 5, "ideal batch")
    close(forms["paged_batch"], 1000 / (149.5 + 8.5), "62 blocks, of which floor(0.62) are kept free")
    expect(block["block_tokens"] == 16 and block["blocks"] == 62 and block["table_bytes"] == 62 * 4 and
           block["padded_table_bytes"] == 256 * 16 * 4 and block["watermark_tokens"] == 0, str(block))
    close(block["table_share"], 4 / (16 * 2048), "4 bytes per 16 tokens of 2 KiB")
    sizes = {b["block_tokens"]: b for b in got["block_sizes"]}
    expect(sorted(sizes) == [1, 8, 16, 32, 64, 128, 256], "block sizes")
    close(sizes[64]["paged_internal"], sizes[64]["paged_batch"] * 32.5 / 1000, "(B + 1) / 2 per request")
    power = ("--kv-tokens", "1000", "--policy", "pow2:ideal", "--num-prompts", "50")
    for o, n in ((64, 1000 // 164), (65, 1000 // 228), (1, 1000 // 101)):
        row = report("capacity", "--lengths", f"fixed:100,{o}", *power)["full_length"][0]
        expect(row["least"] == row["most"] == n, f"an output of {o}: {row}")
    # 100 slots are never enough for 200 tokens; 200 are
    for slots, n in (("100", 0), ("199", 0), ("200", 5)):
        code, out, _ = run(*args, "--policy", f"orca-real:max_tokens={slots}", "--json", "-")
        row = json.loads(out)["full_length"][0]
        expect(code == (0 if n else 1) and row["most"] == n, f"orca-real of {slots} slots: {row}")
    kept = report(*args, "--watermark", "0.1")["block"]
    expect(kept["watermark_tokens"] == 6 * 16, "floor(6.2) blocks")
    close(kept["watermark_batch"], 96 / 158, "requests that the watermark costs")
    expect(kept["paged_batch"] < block["paged_batch"], "a watermark costs batch")


def test_capacity_of_mixed_lengths():
    """Pools of 64 are filled in the order of the list: 40, 30 + 20, 30 + 20, and 64 that is not full."""
    rows = "input,output\n39,1\n29,1\n19,1\n29,1\n19,1\n63,1\n65,1\n"
    args = ("capacity", "--trace", "-", "--kv-tokens", "64", "--max-model-len", "64", "--policy", "oracle:ideal")
    code, out, err = run(*args, "--json", "-", stdin=rows)
    expect(code == 0, err)
    got = json.loads(out)
    row = got["full_length"][0]
    expect(row["full_pools"] == 3 and row["least"] == 1 and row["most"] == 2 and row["too_long"] == 1, str(row))
    close(row["mean_requests"], 5 / 3, "mean")
    close(row["token"], (40 + 50 + 50) / 3 / 64, "tokens")
    expect("1 of 7 requests are longer than --max-model-len 64" in got["notes"][0], str(got["notes"]))
    code, out, err = run(*args[:-1], "pow2:ideal", "--zero-output", "keep", "--json", "-",
                         stdin="input,output\n32,0\n32,0\n32,0\n")
    row = json.loads(out)["full_length"][0]
    expect(code == 0 and row["most"] == 2, f"no output takes no slot: {row} {err}")
    refused_code, _, err = run("capacity", "--lengths", "fixed:100,100", "--max-model-len", "100")
    expect(refused_code == 1 and "no request fits" in err, err)


# ---------------------------------------------------------------- lists

def axis(text):
    whole = report("sweep", "--num-prompts", "3", "--policy", "paged", "--request-rate", text)
    return [value for a in whole["axes"] for value in a["values"]]


def test_lists_and_ranges():
    for text, values in (("1-64*2", "1 2 4 8 16 32 64"), ("1-9+2", "1 3 5 7 9"), ("1-10+2", "1 3 5 7 9"),
                         ("1,8-10+1,32", "1 8 9 10 32"), ("0.1-0.4+0.1", "0.1 0.2 0.3 0.4"),
                         ("1-2*1.5,inf", "1 1.5 inf"), ("0.1-0.2*1.3", "0.1 0.13 0.169"),
                         ("1-2*1.234567", "1 1.234567 1.524156 1.881672"), ("4-4*2,5", "4 5")):
        expect(axis(text) == values.split(), f"{text}: {axis(text)}")
    got = report("sweep", "--num-prompts", "3", "--policy", "paged", "--kv-memory", "1-4GiB*2")
    expect(got["axes"][0]["values"] == ["1GiB", "2GiB", "4GiB"], "units")
    got = report("sweep", "--num-prompts", "3", "--policy", "paged", "--model", "llama-2-7b,opt-13b")
    expect([p["config"]["kv_bytes_per_token"] for p in got["points"]] == [524288, 819200], "models")
    for text in ("4-1*2", "1-4*1", "1-4+0", "1-4", "1-x*2", "1-4*", "1-4/2", "0-4*2"):
        refused("--request-rate: ", "sweep", "--policy", "paged", "--request-rate", text)
    for text in ("", "1,,2", "1,", ",1", "1" * 40):
        refused("--request-rate: '", "sweep", "--policy", "paged", "--request-rate", text)
    refused("at most 256 values", "sweep", "--policy", "paged", "--request-rate", "1-300+1")
    refused("'1.5' is not a whole number", "sweep", "--policy", "paged", "--block-tokens", "1-4*1.5")
    refused("'1,2' is not a whole number", "run", "--policy", "paged", "--block-tokens", "1,2")
    refused("at most 4 options with several values", "sweep", "--kv-tokens", "100,200", "--seed", "1,2",
            "--request-rate", "1,2", "--max-num-seqs", "1,2", "--watermark", "0,0.1")


# ---------------------------------------------------------------- requests

@in_folder
def test_lengths_of_a_file(folder):
    (folder / "t.csv").write_text(UNTIMED)
    args = ("run", "--lengths", "t.csv", "--policy", "paged", "--all-at-once")
    got = report(*args, "--in-order", cwd=folder)
    expect(got["requests"]["n"] == 3 and got["requests"]["prompt_tokens"]["mean"] == 20, "in order")
    expect(got["input"]["rows"]["used"] == 3 and got["input"]["seed"] is None, "rows are accounted for")
    got = report(*args, "--in-order", "--num-prompts", "7", "--repeat", cwd=folder)
    expect(got["requests"]["n"] == 7, "repeated")
    close(got["requests"]["prompt_tokens"]["mean"], (2 * 60 + 10) / 7, "twice and one more")
    drawn = [report(*args, "--num-prompts", "3000", "--seed", seed, cwd=folder)["requests"] for seed in (1, 1, 2)]
    expect(drawn[0] == drawn[1] != drawn[2], "seeds")
    # pairs stay together: i = 5 o in every row
    close(drawn[0]["prompt_tokens"]["mean"], 5 * drawn[0]["output_tokens"]["mean"], "rows are drawn whole")
    expect(abs(drawn[0]["prompt_tokens"]["mean"] - 20) < 5 * 8.2 / 3000**0.5, "each row as often")
    got = report(*args, "--num-prompts", "50", "--max-requests", "1", cwd=folder)["requests"]
    expect(got["n"] == 50 and got["prompt_tokens"]["max"] == 10, "drawn from the first row only")
    refused("7 requests wanted, 3 usable rows there", *args, "--in-order", "--num-prompts", "7", cwd=folder)
    refused("none.csv: cannot be opened", "run", "--lengths", "none.csv", cwd=folder)
    refused("--lengths: ", "run", "--lengths", "weibull:1,2", cwd=folder)
    (folder / "weibull").write_text(UNTIMED)
    good("run", "--lengths", "weibull", "--num-prompts", "5", cwd=folder)


def test_forms_of_the_first_in_blocks():
    """With several paged policies the closed forms are those of the first one."""
    args = ("run", "--lengths", "fixed:100,100", "--num-prompts", "9", "--kv-tokens", "1000", "--watermark", "0")
    for first, other, batch in (("4", "64", 1000 / (149.5 + 2.5)), ("64", "4", 1000 / (149.5 + 32.5))):
        got = report(*args, "--policy", f"paged:block={first}", "--policy", f"paged:block={other}")
        close(got["closed_forms"]["paged_batch"], batch, f"blocks of {first} first")


@in_folder
def test_rows_again(folder):
    (folder / "t.csv").write_text(TIMED)
    args = ("run", "--trace", "t.csv", "--policy", "paged")
    got = report(*args, "--num-prompts", "7", "--repeat", cwd=folder)
    # a mean gap of 1.5 s after the last arrival at 3 s; the seventh request opens the third pass
    expect(got["requests"]["n"] == 7 and got["requests"]["span_ns"] == 9 * SECOND, str(got["requests"]))
    got = report(*args, "--num-prompts", "2", "--repeat", cwd=folder)
    expect(got["requests"]["n"] == 2 and got["requests"]["span_ns"] == SECOND, "fewer than there are")
    got = report(*args, "--max-requests", "2", "--num-prompts", "5", "--repeat", cwd=folder)
    # rows at 0 and 1 s, a gap of 1 s, so passes begin at 0, 2 and 4 s
    expect(got["requests"]["n"] == 5 and got["requests"]["span_ns"] == 4 * SECOND, "of two rows only")
    (folder / "one.csv").write_text("num_prefill_tokens,num_decode_tokens\n10,2\n")
    args = ("run", "--trace", "one.csv", "--policy", "paged", "--request-rate", "5", "--num-prompts", "11")
    got = report(*args, "--repeat", "--arrival", "constant", cwd=folder)
    expect(got["requests"]["span_ns"] == 2 * SECOND, "arrivals of all passes are drawn: ten gaps of 0.2 s")
    ids = "".join(f'{{"timestamp": {1000 * k}, "input_length": 1024, "output_length": 1, "hash_ids": [{k}, 7]}}\n'
                  for k in range(3))
    (folder / "t.jsonl").write_text(ids)
    got = report("run", "--trace", "t.jsonl", "--policy", "paged+prefix", "--num-prompts", "6", "--repeat",
                 cwd=folder)
    # the second pass finds all of its six ids
    expect(got["infinite_cache"]["ids"] == 12 and got["infinite_cache"]["found_ids"] == 6,
           str(got["infinite_cache"]))


@in_folder
def test_times_of_a_trace(folder):
    (folder / "t.csv").write_text(TIMED)

    def requests(*args):
        return report("run", "--trace", "t.csv", "--policy", "paged", *args, cwd=folder)["requests"]

    for args, n, span in (((), 3, 3), (("--time-scale", "2.5"), 3, 7.5), (("--time-scale", "0.001"), 3, 0.003),
                          (("--target-rate", "4"), 3, 0.5), (("--all-at-once",), 3, 0),
                          (("--time-unit", "ms"), 3, 0.003), (("--time-unit", "min"), 3, 180),
                          (("--start", "1"), 2, 2), (("--duration", "2"), 2, 1),
                          (("--start", "1", "--duration", "1s"), 1, 0), (("--max-requests", "2"), 2, 1),
                          (("--filter", "vllm"), 3, 3), (("--concurrency", "2"), 3, 0)):
        got = requests(*args)
        expect(got["n"] == n and got["span_ns"] == span * SECOND, f"{args}: {got}")
    for name in ("--start", "--duration"):
        refused(f"{name} needs times", "run", "--trace", "-", "--all-at-once", name, "1", stdin=UNTIMED)
    refused("--time-unit has no use: there are no times", "inspect", "-", "--time-unit", "s", stdin=UNTIMED)
    refused("--hash-block-size has no use", "inspect", "-", "--hash-block-size", "8", stdin=UNTIMED)
    refused("--block-tokens has no use", "inspect", "-", "--block-tokens", "8", stdin=UNTIMED)
    dates = "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46,1,1\n"
    refused("bad_timestamp", "inspect", "-", "--time-unit", "s", stdin=dates)


def test_columns_and_formats():
    rows = "who,prompt,answer,when\nme,5,3,100\nyou,6,0,250\nme,7,2,400\n"
    args = ("run", "--trace", "-", "--policy", "paged", "--columns")
    code, out, err = run(*args, "in=prompt,out=answer,time=when", "--time-unit", "ms", "--json", "-", stdin=rows)
    expect(code == 0 and '"span_ns": 300000000' in out and '"zero_output"' in out, err + out)
    code, out, err = run(*args, "in=prompt,out=answer", "--concurrency", "2", "--zero-output", "keep", "--json",
                         "-", stdin=rows)
    expect(code == 0 and '"used": 3' in out, err + out)
    for text in ("", "in=a", "out=a", "in=a,out=b,in=c", "prompt,answer", "in=,out=b", "in=a,out=b,", "in=a;out=b"):
        refused("--columns: ", *args, text, stdin=rows)
    refused("--format: 'excel' is not auto, azure, ", "inspect", "-", "--format", "excel", stdin=rows)
    expect("vidur" in good("inspect", "-", "--format", "vidur", stdin=UNTIMED), "--format")
    code, _, err = run("inspect", "-", "--format", "azure", stdin=UNTIMED)
    expect(code == 2 and "'ContextTokens' of format azure is missing" in err, err)
    refused("choose one", "inspect", "-", "--format", "vidur", "--columns", "in=a,out=b", stdin=rows)


def test_shared_prefix():
    """One client, so each prompt finds what the ones before it left."""
    args = ("--lengths", "fixed:100,1", "--num-prompts", "20", "--concurrency", "1", *ONE_BY_ONE[:2],
            "--policy", "paged+prefix:block=16", "--shared-prefix")
    for n, found in ((64, 64), (70, 64), (10, 0), (1000, 96)):
        hits = policy(*args, n)["hits"]
        expect(hits["prompt_tokens"] == 2000 and hits["cached_tokens"] == 19 * found, f"{n}: {hits}")
    out = good("run", *args, "10")
    expect("190 of 190 shareable prompt tokens are below a block of 16" in " ".join(out.split()), out)
    refused("--shared-prefix has no use here: no policy shares", "run", "--shared-prefix", "5")


# ---------------------------------------------------------------- arrivals and steps

def test_arrivals():
    args = ("--num-prompts", "1000", "--policy", "paged", "--request-rate", "10", "--max-num-seqs", "1000")

    def span(*more):
        return report("run", *args, *more)["requests"]["span_ns"]

    expect(span("--arrival", "constant") == 999 * SECOND // 10, "every tenth of a second")
    expect(span("--arrival", "burst", "--burst-size", "100") == 9 * 10 * SECOND, "ten bursts, 10 s apart")
    # 999 gaps of mean 0.1 s; deviation of the sum 0.1 * sqrt(999 / shape)
    for more, shape in ((("--arrival", "poisson"), 1), (("--burstiness", "4"), 4), (("--burstiness", "0.25"), 0.25)):
        expect(abs(span(*more) / SECOND - 99.9) < 4 * 0.1 * (999 / shape) ** 0.5, f"{more}")
    spans = {span(), span("--seed", "1"), span("--arrival", "artifact"), span("--burstiness", "0.5")}
    expect(len(spans) == 4, "laws and seeds differ")


def test_closed_loop_by_hand():
    """Ten requests of 5 tokens in steps of 1 s: one client waits for nobody, two share the steps."""
    args = ("--lengths", "fixed:10,5", "--num-prompts", "10", *ONE_BY_ONE)
    for clients, end in ((1, 50), (2, 25), (5, 10), (10, 5), (100, 5)):
        p = policy(*args, "--concurrency", clients)
        expect(p["end_ns"] == end * SECOND and p["finished"] == 10, f"{clients}: {p['end_ns']}")
        expect(p["e2e_s"]["max"] == 5 and p["ttft_s"]["p50"] == 1 and p["tpot_s"]["mean"] == 1, "latency")
        expect(p["max_batch"] == min(clients, 10), "batch")
    queued = policy(*args, "--all-at-once", "--max-num-seqs", "2")
    expect(queued["end_ns"] == 25 * SECOND and queued["e2e_s"]["max"] == 25, "the same, queued")


def test_goals_and_percentiles():
    args = ("--trace", "-", "--concurrency", "2", *ONE_BY_ONE)

    def two(*more):
        code, out, err = run("run", *args, *more, "--json", "-", stdin=UNTIMED.rsplit("30", 1)[0])
        expect(code == 0, err)
        return json.loads(out)["policies"][0]

    # one request of 2 tokens and one of 4, side by side in steps of 1 s: e2e 2 s and 4 s
    expect(two()["e2e_s"]["p50"] == 3, "linear")
    expect(two("--percentile-method", "nearest")["e2e_s"]["p50"] == 2, "nearest rank")
    for slo, n in (("ttft=1", 2), ("ttft=999ms", 0), ("tpot=1s,ttft=1s", 2), ("tpot=0.9", 0), ("norm=1", 2)):
        expect(two("--slo", slo)["good"] == n, slo)
    for text in ("", "ttft", "ttft=", "ttft=0", "fast=1", "ttft=1;tpot=2", "ttft=1,"):
        refused("--slo: '", "run", "--slo", text)


def test_units_of_time():
    for text, ns in (("7ns", 7), ("7us", 7000), ("7 ms", 7000000), ("7", 7 * SECOND), ("0.5s", SECOND // 2),
                     ("2min", 120 * SECOND), ("0.1h", 360 * SECOND), ("1.5us", 1500)):
        step = report("run", "--num-prompts", "2", "--policy", "max", "--step-time", text)["config"]["step_time"]
        expect(step == {"base_ns": ns, "per_batch_ns": 0, "per_token_ns": 0}, f"{text}: {step}")


def test_prefill_takes_time():
    args = ("--lengths", "fixed:100,2", "--num-prompts", "1", "--all-at-once", *ONE_BY_ONE)
    expect(policy(*args)["end_ns"] == 2 * SECOND, "two steps")
    expect(policy(*args, "--prefill-rate", "50")["end_ns"] == 4 * SECOND, "100 tokens at 50 per second")
    # chunks of 30: the first token comes in the fourth step, the second in the fifth
    expect(policy(*args, "--prefill-chunk", "30")["end_ns"] == 5 * SECOND, "chunks")
    expect(policy(*args, "--prefill-chunk", "30", "--max-num-batched-tokens", "64")["finished"] == 1, "limit")
    refused("give --prefill-chunk", "run", "--max-num-batched-tokens", "64")


def test_admission_may_skip():
    """Room for one long request; a short one behind it passes only with skip."""
    rows = "input,output\n40,2\n50,2\n5,2\n"
    ends = {}
    for rule in ("fcfs", "skip"):
        code, out, err = run("run", "--trace", "-", "--all-at-once", "--kv-tokens", "64", "--max-model-len", "64",
                             "--step-time", "1", "--policy", "oracle:ideal", "--admit", rule, "--json", "-",
                             stdin=rows)
        expect(code == 0, err)
        ends[rule] = out
    ttft = {rule: json.loads(out)["policies"][0]["ttft_s"]["p50"] for rule, out in ends.items()}
    # fcfs: first tokens at 1, 3, 3; skip: at 1, 1, 3
    expect(ttft == {"fcfs": 3, "skip": 1}, str(ttft))


# ---------------------------------------------------------------- what does not go together

RUN_REFUSALS = (
    ("needs a --trace", ("--time-scale", "2")),
    ("needs a --trace or --lengths FILE", ("--filter", "vllm")),
    ("needs a --trace or --lengths FILE", ("--start", "5")),
    ("needs a --trace or --lengths FILE", ("--format", "vidur")),
    ("needs a --trace or --lengths FILE", ("--columns", "in=a,out=b")),
    ("needs a --trace or --lengths FILE", ("--time-unit", "s")),
    ("needs a --trace or --lengths FILE", ("--zero-output", "keep")),
    ("needs a --trace or --lengths FILE", ("--hash-block-size", "16")),
    ("--in-order needs rows", ("--in-order",)),
    ("--repeat needs rows", ("--repeat", "--num-prompts", "5")),
    ("--repeat needs --num-prompts", ("--repeat", "--trace", "x.csv")),
    ("--in-order takes them", ("--repeat", "--num-prompts", "5", "--lengths", "x.csv")),
    ("needs --burst-size", ("--arrival", "burst")),
    ("needs --arrival burst", ("--burst-size", "5")),
    ("is of --arrival gamma", ("--arrival", "poisson", "--burstiness", "2")),
    ("all arrive at once", ("--arrival", "gamma", "--request-rate", "inf")),
    ("needs --request-rate; a trace", ("--arrival", "gamma", "--trace", "x.csv")),
    ("choose one", ("--concurrency", "5", "--request-rate", "2")),
    ("choose one", ("--concurrency", "5", "--all-at-once")),
    ("choose one", ("--concurrency", "5", "--arrival", "gamma")),
    ("choose one", ("--target-rate", "5", "--time-scale", "2", "--trace", "x.csv")),
    ("choose one", ("--kv-memory", "1GiB", "--num-blocks", "2")),
    ("choose one", ("--num-gpu-blocks-override", "5", "--kv-tokens", "2")),
    ("choose one", ("--model", "opt-13b", "--layers", "2")),
    ("choose one", ("--quiet", "--progress")),
    ("needs --layers and --kv-heads", ("--head-dim", "64")),
    ("give --policy paged+swap", ("--swap-space", "4")),
    ("give --policy paged+swap", ("--swap-bandwidth", "4GB")),
    ("give --policy paged+swap", ("--copy-latency", "4us")),
    ("give --policy oracle:alloc=compact", ("--bandwidth", "4GB")),
    ("give --policy paged or vattn", ("--watermark", "0.5", "--policy", "max")),
    ("nothing is drawn", ("--trace", "x.csv", "--seed", "1")),
    ("needs --timeseries", ("--sample-interval", "1")),
    ("without a table", ("--quiet", "--width", "80")),
    ("prints no table", ("--json", "-", "--width", "80")),
    ("prints no table", ("--csv", "-", "--width", "80")),
    ("without a table", ("--events", "-", "--paper-accounting")),
    ("has it as repro_command", ("--json", "-", "--repro-command")),
    ("goes to stdout", ("--csv", "-", "--repro-command")),
    ("from 0.015625", ("--burstiness", "0.0156")),
    ("from 0.015625", ("--burstiness", "1000001")),
    ("each once", ("--slo", "ttft=1,ttft=2")),
    ("has every part anyway", ("--json", "-", "--paper-accounting")),
    ("both are written to 'a'", ("--json", "a", "--csv", "a")),
    ("given twice", ("--seed", "1", "--seed", "2")),
    ("given twice", ("--quiet", "--quiet")),
    ("one of sweep", ("--knee", "3")),
)


def test_what_would_be_ignored_is_refused():
    for words, args in RUN_REFUSALS:
        refused(words, "run", *args)
    refused("nothing is drawn", "capacity", "--trace", "x.csv", "--seed", "1")
    refused("nothing is drawn", "run", "--lengths", "x.csv", "--in-order", "--request-rate", "inf", "--seed", "1")
    refused("nothing is drawn", "run", "--trace", "x.csv", "--request-rate", "2", "--arrival", "constant", "--seed",
            "1")
    refused("x.csv: cannot be opened", "run", "--trace", "x.csv", "--request-rate", "2", "--seed", "1")
    refused("x.csv: cannot be opened", "run", "--lengths", "x.csv", "--in-order", "--seed", "1")
    refused("x.csv: cannot be opened", "run", "--trace", "x.csv", "--policy", "paged+beam", "--seed", "1")
    refused("one of run", "capacity", "--request-rate", "4")
    refused("unknown option", "inspect", "x.csv", "--policy", "max")
    for name, text in (("--kv-dtype", "fp7"), ("--time-unit", "d"), ("--filter", "mine"), ("--admit", "lifo"),
                       ("--zero-output", "yes"), ("--percentile-method", "best"), ("--arrival", "weibull"),
                       ("--swap-space", "4X"), ("--swap-bandwidth", "0"), ("--prefill-rate", "0"),
                       ("--burstiness", "0"), ("--concurrency", "0"), ("--threads", "65"), ("--time-scale", "-1"),
                       ("--sample-interval", "0"), ("--start", "-1"), ("--copy-latency", "soon")):
        refused(f"{name}: '{text}' is not", "run", name, text)


def test_swap_space():
    args = ("run", "--num-prompts", "30", "--policy", "paged+swap")
    for text, slots in (("1GiB", 1310), ("2", 2621), ("0", 0), ("0.5", 655)):
        expect(report(*args, "--swap-space", text)["config"]["swap_tokens"] == slots, text)
    expect(report(*args)["config"]["swap_tokens"] == 4 * 2**30 // 819200, "4 GiB as in vLLM")
    expect(report(*args, "--swap-bandwidth", "inf")["config"]["swap_bytes_per_s"] is None, "no limit")


if __name__ == "__main__":
    sys.exit(tap_main.run_tests(globals()))
