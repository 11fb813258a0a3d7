#!/usr/bin/env python3
"""pkv-fragsim as a user meets it: good runs, wrong command lines and bad files, their words and exit
statuses, and what lies on the disk afterwards. Prints TAP.

usage: test_fragsim_cli.py PROGRAM
"""
import json
import os
import pathlib
import re
import resource
import signal
import subprocess
import sys
import tempfile

import tap_main
from tap_main import Skip

PROGRAM = pathlib.Path(sys.argv[1]).resolve()
HEAD = "TIMESTAMP,ContextTokens,GeneratedTokens\n"
ROWS = "2023-11-16 18:15:46.6805900,374,44\n2023-11-16 18:15:50.9951690,396,109\n"
AZURE = pathlib.Path(os.environ.get("PKV_SHARED", "../shared")) / "traces/azure2023"


def run(*args, cwd=None, stdin="", env=None, stdout=subprocess.PIPE, before=None):
    done = subprocess.run([PROGRAM, *map(str, args)], cwd=cwd, input=stdin.encode(), stdout=stdout,
                          stderr=subprocess.PIPE, env=env, timeout=60, preexec_fn=before)
    return done.returncode, (done.stdout or b"").decode(), done.stderr.decode()


def expect(condition, what):
    if not condition:
        raise AssertionError(what)


def refused(words, *args, cwd=None, stdin="", code=2):
    """One clear line on stderr, nothing on stdout."""
    got, out, err = run(*args, cwd=cwd, stdin=stdin)
    expect(got == code, f"{args}: exit {got}, expected {code}; said {err!r}")
    expect(words in err, f"{args}: said {err!r}, expected {words!r}")
    expect(err.startswith("pkv-fragsim: ") and err.count("\n") == 1, f"{args}: not one line: {err!r}")
    expect(out == "", f"{args}: printed {out!r}")


def in_folder(test):
    def wrapped():
        with tempfile.TemporaryDirectory() as folder:
            test(pathlib.Path(folder))
    wrapped.__name__ = test.__name__
    return wrapped


FILE_OPTIONS = ("--trace --dataset-path --format --columns --time-unit --hash-block-size --filter "
                "--zero-output --start --duration --max-requests --num-prompts --strict").split()
DRAW_OPTIONS = "--repeat --lengths --in-order --seed".split()
MEMORY_OPTIONS = ("--policy --kv-tokens --num-blocks --num-gpu-blocks-override --kv-memory --model --layers "
                  "--kv-heads --head-dim --kv-dtype --kv-cache-dtype --tensor-parallel "
                  "--tensor-parallel-size --block-tokens --block-size --max-model-len --watermark "
                  "--max-num-seqs").split()
RUN_OPTIONS = ("--shared-prefix --request-rate --arrival --burstiness --burst-size --concurrency "
               "--all-at-once --target-rate --time-scale --swap-space --swap-bandwidth --copy-latency "
               "--bandwidth --max-num-batched-tokens --admit --prefill-rate --prefill-chunk --step-time "
               "--window --slo --percentile-method --engine --check --threads").split()
HELP = {
    "run": FILE_OPTIONS + DRAW_OPTIONS + MEMORY_OPTIONS + RUN_OPTIONS +
           "--json --csv --timeseries --sample-interval --events --svg --html --paper-accounting --width --quiet --progress --repro-command --help".split(),
    "sweep": FILE_OPTIONS + DRAW_OPTIONS + MEMORY_OPTIONS + RUN_OPTIONS +
             "--knee --json --csv --svg --html --quiet --progress --repro-command --help".split(),
    "capacity": FILE_OPTIONS + DRAW_OPTIONS + MEMORY_OPTIONS + "--json --quiet --help".split(),
    "paper": "--seed --threads --json --csv --quiet --progress --help".split(),
    "inspect": FILE_OPTIONS + "--block-tokens --block-size --json --help".split(),
}


def test_help_lists_every_option_and_no_other():
    for command, expected in HELP.items():
        code, text, err = run(command, "--help")
        expect(code == 0 and err == "", f"{command} --help")
        listed = sorted(word.rstrip(",") for line in text.splitlines() if line.startswith("  --")
                        for word in line.split("  ")[1].split() if word.startswith("--"))
        expect(listed == sorted(expected), f"{command} --help lists {set(listed) ^ set(expected)} wrongly")
        expect(all(len(line) <= 100 for line in text.splitlines()), f"{command} --help is too wide")
        expect(run(command, "-h") == (code, text, err), "-h")
    expect("--seed N *" in run("sweep", "--help")[1] and "*  " not in run("run", "--help")[1], "marks of sweep")
    expect("draw" not in run("inspect", "--help")[1], "inspect --help speaks of drawing")
    expect(run("--help")[0] == 0, "--help")
    expect(run("--version")[1].startswith("pkv-fragsim "), "--version")


def documented():
    """{letter of a command: options} of the tables in the manual."""
    text = (pathlib.Path(__file__).resolve().parents[2] / "docs/simulator.md").read_text()
    found = {letter: {"--help"} for letter in "RSCI"}
    for line in text.split("\n## Options\n")[1].split("\n## ")[0].splitlines():
        cells = re.split(r" \| ", line.strip("| "))
        names = re.findall(r"`(--[a-z-]+)", cells[0])
        if not names or not line.startswith("|"):
            continue
        groups = cells[1].split(", ")
        for name, group in zip(names, groups if len(groups) > 1 else groups * len(names)):
            for letter in group:
                found[letter].add(name)
    return found


def test_manual_lists_every_option():
    for command, letter in (("run", "R"), ("sweep", "S"), ("capacity", "C"), ("inspect", "I")):
        differs = documented()[letter] ^ set(HELP[command])
        expect(not differs, f"docs/simulator.md and {command} --help differ in {differs}")


def test_wrong_command_lines():
    refused("unknown option", "run", "--frobnicate")
    refused("unknown option", "run", "stray")
    refused("unknown option", "run", "--kv-token", "5")
    refused("a value is missing", "run", "--seed")
    refused("takes no value", "run", "--check=yes")
    for name in ("--kv-tokens", "--num-blocks", "--max-model-len", "--max-num-seqs", "--num-prompts",
                 "--max-requests", "--block-tokens"):
        for value in ("0", "-1", "abc", "1.5", "", "99999999999999999999", "1e3", "5x"):
            refused(f"{name}: '{value}' is not", "run", name, value)
    for value in ("-1", "1.5", "abc", "0.0000001", "1%"):
        refused("--watermark", "run", "--watermark", value)
    for value in ("0", "-8", "abc", "nan", ""):
        refused("--request-rate", "run", "--request-rate", value)
    for value in ("", "abc", "1+", "1*batch*2", "1+2", "0", "0+0*batch+5us*tokens", "-1ms",
                  "0.1ns", "1ms*tokens", "1fs", "2000s", "1ms+1us*batch+1us*batch"):
        refused("--step-time", "run", "--step-time", value)
    for value in ("orca", "paged:block=0", "max:block=4", "", "paged:block=4096"):
        refused("--policy", "run", "--policy", value)
    for value in ("fixed:", "fixed:0,1", "fixed:1", "fixed:1,0", "fixed:1.5,2", "zipf"):
        refused("--lengths", "run", "--lengths", value)
    refused("--window", "run", "--window", "some")
    refused("--engine", "run", "--engine", "fast")
    refused("--width", "run", "--width", "100")
    refused("no room for one block", "run", "--kv-tokens", "15")


def test_options_that_do_not_go_together():
    refused("choose one", "run", "--kv-tokens", "100", "--num-blocks", "100")
    refused("choose one", "run", "--all-at-once", "--request-rate", "5")
    refused("not both", "run", "--trace", "x.csv", "--lengths", "alpaca-like")
    refused("choose one", "run", "--trace", "x.csv", "--num-prompts", "5", "--max-requests", "5")
    refused("needs a --trace", "run", "--max-requests", "5")
    refused("needs a --trace", "run", "--duration", "5")
    refused("needs a --trace", "run", "--strict")
    refused("needs a --trace", "run", "--target-rate", "5")
    refused("--block-tokens has no use", "run", "--block-tokens", "8", "--policy", "max")
    refused("which trace", "inspect")
    refused("'fly' is not a command; run, ", "fly")
    refused("a command is missing; run, ")


@in_folder
def test_bad_traces(folder):
    def bad(content, words, *args):
        path = folder / "t.csv"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        refused(words, "run", "--trace", "t.csv", "--json", "out.json", *args, cwd=folder)
        expect(sorted(p.name for p in folder.iterdir()) == ["t.csv"], "a file was left behind")

    bad("", "t.csv: the file is empty")
    if os.path.exists("/dev/zero"):
        refused("/dev/zero: line 1: not a CSV header (longer than 1 MiB)", "run", "--trace", "/dev/zero")
    refused(f"{folder}: reading the trace failed: Is a directory; give a readable file", "inspect", folder)
    bad(HEAD, "t.csv: a header, but no rows; below it, a row with TIMESTAMP, ContextTokens and "
        "GeneratedTokens per request")
    bad("a\x1b[31m,\u00e9\x7f\n1,2\n", "these columns: a\\x1b[31m, \\xc3\\xa9\\x7f; name the "
        "input and output column: --columns\n")
    bad("a,b,c\n1,2,3\n", "t.csv: line 1: no known format")
    bad("TIMESTAMP;ContextTokens;GeneratedTokens\n", "t.csv: line 1: fields are not separated")
    bad("TIMESTAMP,ContextTokens\n", "t.csv: line 1: column 'GeneratedTokens' of format azure is "
        "missing; columns found: TIMESTAMP, ContextTokens")
    bad(HEAD + "now,1,1\n", "t.csv: the only row is not usable; line 2: bad_timestamp: TIMESTAMP is "
        "'now', a time as in 2023-11-16 18:15:46.68 is expected")
    bad(HEAD + ROWS + "now,1,1\n", "t.csv: line 4: bad_timestamp", "--strict")
    bad(HEAD + ROWS + ROWS, "t.csv: line 4: arrives before", "--strict")
    bad(HEAD + ROWS + "2023-11-16T18:15:51Z,1,1\n", "t.csv: line 4: a time with a zone")
    bad(HEAD.encode() + b"\0\n", "line 2: bad_bytes")
    bad(HEAD + ROWS, "use --target-rate", "--request-rate", "5")
    bad(HEAD + ROWS, "nothing is drawn", "--seed", "5")
    bad(HEAD + ROWS, "3 requests wanted, 2 usable rows there", "--num-prompts", "3")
    untimed = "num_prefill_tokens,num_decode_tokens\n5,5\n6,6\n"
    bad(untimed, "give --request-rate R, --concurrency N or --all-at-once")
    bad(untimed, "--target-rate needs times", "--target-rate", "5")
    bad(untimed, "--duration needs times", "--duration", "5", "--all-at-once")
    (folder / "t.csv").unlink()
    refused("missing.csv: cannot be opened: No such file", "run", "--trace", "missing.csv", cwd=folder)
    refused("stdin: the file is empty", "run", "--trace", "-", cwd=folder)


def forbid_large_files():
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (512, 512))


@in_folder
def test_output_files(folder):
    small = ("run", "--num-prompts", "20")
    refused("none/out.json: cannot be written", *small, "--json", "none/out.json", cwd=folder)
    refused("cannot be written", *small, "--json", folder)
    if os.path.exists("/dev/full"):
        refused("/dev/full: writing failed", *small, "--json", "/dev/full")
        with open("/dev/full", "w") as full:
            code, _, err = run(*small, stdout=full)
        expect(code == 2 and "stdout: writing failed" in err, "a full disk under stdout")
        for args in (("--help",), ("--version",), ("run", "--help")):
            with open("/dev/full", "w") as full:
                code, _, err = run(*args, stdout=full)
            expect(code == 2 and "stdout: writing failed" in err, f"a full disk under {args}")
    code, _, err = run(*small, "--json", "out.json", cwd=folder, before=forbid_large_files)
    expect(code == 2 and "out.json: cannot be written: File too large" in err, "a disk that fills up")
    expect(list(folder.iterdir()) == [], "a file was left behind")
    (folder / "out.json").write_text("old")
    code, out, _ = run(*small, "--json", "out.json", "--quiet", cwd=folder)
    expect(code == 0 and out == "", "--quiet")
    json.loads((folder / "out.json").read_text())
    expect([p.name for p in folder.iterdir()] == ["out.json"], "a file was left behind")


@in_folder
def test_rows_are_accounted_for(folder):
    bad = "x,1,1\n2023-11-16 18:15:47,0,1\n\n2023-11-16 18:15:47,1,1,1\nx,1,1\n"
    (folder / "t.csv").write_text("\ufeff" + HEAD + ROWS + bad)
    code, out, err = run("run", "--trace", "t.csv", "--json", "-", cwd=folder)
    expect(code == 0 and err == "", err)
    rows = json.loads(out)["input"]["rows"]
    expect(rows["rows_read"] == 6 and rows["used"] == 2 and rows["bom"] is True, "rows")
    expect(rows["dropped"] == {"bad_timestamp": {"rows": 2, "first_line": 4},
                               "zero_input": {"rows": 1, "first_line": 5},
                               "ragged_row": {"rows": 1, "first_line": 7}}, str(rows["dropped"]))
    code, out, _ = run("inspect", "t.csv", cwd=folder)
    expect(code == 0 and "6 read = 2 used + 1 zero_input (from line 5) + 2 bad_timestamp (from line 4)"
           in " ".join(out.split()), out)


def results_of(folder, content, *args):
    (folder / "t.csv").write_bytes(content)
    code, out, err = run("run", "--trace", "t.csv", "--json", "-", *args, cwd=folder)
    expect(code == 0, err)
    whole = json.loads(out)
    return {key: whole[key] for key in ("config", "requests", "closed_forms", "policies")}


@in_folder
def test_line_ends_change_nothing(folder):
    plain = (HEAD + ROWS).encode()
    want = results_of(folder, plain)
    expect(results_of(folder, plain.replace(b"\n", b"\r\n")) == want, "CRLF")
    expect(results_of(folder, b"\xef\xbb\xbf" + plain.rstrip(b"\n")) == want, "BOM, no last newline")
    swapped = "note,GeneratedTokens,TIMESTAMP,ContextTokens\n" + "".join(
        "\"a, b\",{2},{0},{1}\n".format(*row.split(",")) for row in ROWS.splitlines())
    expect(results_of(folder, swapped.encode()) == want, "columns in another order")


def no_bad_numbers(value):
    if isinstance(value, dict):
        return all(map(no_bad_numbers, value.values()))
    if isinstance(value, list):
        return all(map(no_bad_numbers, value))
    return not isinstance(value, float) or (value == value and abs(value) < 1e300)


def test_report_adds_up():
    for args in ((), ("--lengths", "alpaca-like"), ("--all-at-once",), ("--lengths", "fixed:10,1"),
                 ("--kv-tokens", "100000"), ("--policy", "paged:block=7", "--kv-tokens", "3000"),
                 ("--num-blocks", "50", "--policy", "paged", "--block-tokens", "32")):
        code, out, err = run("run", "--num-prompts", "300", "--json", "-", *args)
        expect(code == 0, err)
        report = json.loads(out)
        expect(no_bad_numbers(report), "NaN or infinity")
        for p in report["policies"]:
            expect(p["finished"] + p["too_long"] == p["requests"] == 300, "requests")
            s = p["split"]
            if s is None:
                continue
            parts = s["token"] + s["reservation"] + s["internal"] + s["external"]
            expect(abs(parts - 1) < 1e-11, f"{p['policy']}: parts sum to {parts}")
            expect(abs(sum(s["external_split"].values()) - s["external"]) < 1e-11, "external")
            expect(all(v >= 0 for v in s["external_split"].values()), "a negative part")
        if "fixed:10,1" in args:
            expect(all(p["tpot_s"] == {"n": 0, "mean": None, "p50": None, "p90": None, "p99": None,
                                       "max": None} for p in report["policies"]), "tpot of 1 token")


def test_notes_and_nothing_done():
    code, out, _ = run("run", "--num-prompts", "5", "--request-rate", "0.01")
    expect(code == 0 and "note: no pressure" in out, out)
    code, out, _ = run("run", "--num-prompts", "50", "--max-model-len", "2049", "--kv-tokens", "20000")
    expect("2049 has 4096 slots" in out, out)
    code, out, err = run("run", "--num-prompts", "50", "--max-model-len", "5")
    expect(code == 1 and "no request finished" in err and "50 of 50 requests are too long" in out, err)
    expect("no pressure" not in out, "nobody ran, so nothing is said of pressure")


def test_same_bytes():
    args = ("run", "--num-prompts", "400", "--policy", "oracle", "--policy", "paged", "--seed", "7")
    first = run(*args)
    expect(first == run(*args), "two runs differ")
    expect(first == run(*args[:-1] + ("7", "--engine", "naive")), "naive and leap differ")
    expect(first != run(*args[:-1] + ("8",)), "the seed has no effect")
    colours = dict(os.environ, NO_COLOR="", TERM="xterm", LC_ALL="de_DE.UTF-8")
    expect(first == run(*args, env=colours), "the environment changes the output")
    expect(all(len(line) <= 80 for line in first[1].splitlines()), "wider than 80 columns")
    wide = run(*args, "--width", "120")[1]
    expect(max(map(len, wide.splitlines())) in range(100, 121), "not 120 columns")
    json_args = args + ("--json", "-")
    expect(run(*json_args) == run(*json_args), "two JSON reports differ")


def test_repro_command():
    code, out, _ = run("run", "--num-prompts=30", "--policy", "max", "--repro-command")
    expect(code == 0 and out.endswith("\npkv-fragsim run --num-prompts=30 --policy max "
                                      "--repro-command\n"), out)


@in_folder
def test_stretching(folder):
    (folder / "t.csv").write_text("arrived_at,num_prefill_tokens,num_decode_tokens\n"
                                  "5,10,10\n6,10,10\n8,10,10\n")
    code, out, err = run("run", "--trace", "t.csv", "--target-rate", "0.5", "--json", "-", cwd=folder)
    expect(code == 0, err)
    expect(json.loads(out)["requests"]["span_ns"] == 4 * 10**9, "two gaps at 0.5 per second")


def test_azure_hour():
    """The closed golden run through the command line, and the whole hour with four policies."""
    trace = AZURE / "AzureLLMInferenceTrace_conv.csv"
    if not trace.exists():
        print(f"SKIPPED: {trace} is missing", file=sys.stderr)
        raise Skip(f"{trace} is missing")
    code, out, err = run("run", "--trace", trace, "--all-at-once", "--max-requests", "3000",
                         "--step-time", "1+0*batch+0*tokens", "--kv-tokens", "65536",
                         "--max-model-len", "16384", "--json", "-")
    expect(code == 0, err)
    got = {p["policy"]: p for p in json.loads(out)["policies"]}
    expect(got["paged:block=16"]["window_ns"] == 15053 * 10**9, "steps of paged")
    expect(got["paged:block=16"]["preemptions"] == 79, "preemptions of paged")
    expect(got["max"]["window_ns"] == 194342 * 10**9, "steps of max")
    expect(abs(got["oracle:alloc=ideal"]["mean_batch"] - 44.85) < 0.006, "batch of ideal oracle")
    code, out, err = run("run", "--trace", trace, "--policy", "max", "--policy", "pow2", "--policy",
                         "oracle", "--policy", "paged:block=16", "--kv-tokens", "65536",
                         "--max-model-len", "16384", "--json", "-")
    expect(code == 0, err)
    report = json.loads(out)
    expect(report["input"]["rows"]["rows_read"] == 19366 and report["input"]["rows"]["crlf"], "rows")
    expect(all(p["finished"] == 19366 for p in report["policies"]), "all finish")


if __name__ == "__main__":
    sys.exit(tap_main.run_tests(globals()))
