/* pkv-bench as a user runs it: outputs, exit codes, refusals. The program is $PKV_BENCH, the schema
 * $PKV_BENCH_SCHEMA; with the argument `long` the whole ci profile is run as well. */
#include "bench_test.h"

#include "json_schema.h"

#include "pagedkv/backend.h"
#include "pagedkv/sim.h"

#include <dirent.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static char dir[64];

static char *read_file(const char *name)
{
    char path[256];
    snprintf(path, sizeof(path), "%s/%s", dir, name);
    FILE *f = fopen(path, "r");
    if (!f) return NULL;
    char *text = calloc(1, 1 << 24);
    assert_non_null(text);
    const size_t n = fread(text, 1, (1 << 24) - 1, f);
    fclose(f);
    text[n] = '\0';
    return text;
}

/* Run with these arguments inside the temporary folder; stdout and stderr go to files. */
static int run(const char *arguments)
{
    char command[1024];
    const char *program = getenv("PKV_BENCH");
    assert_non_null(program);
    snprintf(command, sizeof(command), "cd %s && '%s' %s > out.txt 2> err.txt < /dev/null", dir,
             program, arguments);
    const int status = system(command);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void expect_in(const char *file, const char *text)
{
    char *content = read_file(file);
    assert_non_null(content);
    if (!strstr(content, text)) fail_msg("%s does not say '%s':\n%s", file, text, content);
    free(content);
}

static int count_files(void)
{
    int n = 0;
    DIR *d = opendir(dir);
    assert_non_null(d);
    for (const struct dirent *e; (e = readdir(d)) != NULL;) n += e->d_name[0] != '.';
    closedir(d);
    return n;
}

static int make_dir(void **state)
{
    (void)state;
    /* mkdtemp wants six times X at the end. */
    const int n = snprintf(dir, sizeof(dir) - 6, "/tmp/pkv-bench-test-");
    memset(dir + n, 'X', 6);
    return mkdtemp(dir) ? 0 : -1;
}

static int remove_dir(void **state)
{
    char command[128];
    (void)state;
    snprintf(command, sizeof(command), "rm -r '%s'", dir);
    return system(command);
}

static json_t *load(const char *name)
{
    json_error_t error;
    char *text = read_file(name);
    assert_non_null(text);
    json_t *root = json_loads(text, 0, &error);
    if (!root) fail_msg("%s: line %d: %s", name, error.line, error.text);
    free(text);
    return root;
}

static void check_schema(const json_t *root)
{
    char why[512];
    json_error_t error;
    json_t *schema = json_load_file(getenv("PKV_BENCH_SCHEMA"), 0, &error);
    assert_non_null(schema);
    if (!json_schema_check(schema, root, "$", why, sizeof(why))) fail_msg("%s", why);
    json_decref(schema);
}

static const json_t *find_case(const json_t *root, const char *part)
{
    const json_t *cases = json_object_get(root, "cases");
    for (size_t i = 0; i < json_array_size(cases); i++) {
        const json_t *c = json_array_get(cases, i);
        if (strstr(json_string_value(json_object_get(c, "id")), part)) return c;
    }
    return NULL;
}

/* As many samples as the statistics say, the median inside the quartiles, goals that agree. */
static void check_cases(const json_t *root)
{
    const json_t *cases = json_object_get(root, "cases");
    assert_true(json_array_size(cases) > 0);
    for (size_t i = 0; i < json_array_size(cases); i++) {
        const json_t *c = json_array_get(cases, i), *stats = json_object_get(c, "stats");
        const json_t *goals = json_object_get(c, "goals");
        const size_t n = json_array_size(json_object_get(c, "samples_ns"));
        if (json_is_null(stats)) {
            assert_int_equal(n, 0);
            continue;
        }
        assert_int_equal(n, json_integer_value(json_object_get(stats, "n")));
        const double median = json_number_value(json_object_get(stats, "median"));
        assert_true(json_number_value(json_object_get(stats, "min")) > 0);
        assert_true(json_number_value(json_object_get(stats, "q1")) <= median);
        assert_true(json_number_value(json_object_get(stats, "q3")) >= median);
        for (size_t g = 0; g < json_array_size(goals); g++) {
            const json_t *goal = json_array_get(goals, g);
            const double value = json_number_value(json_object_get(goal, "value"));
            const double limit = json_number_value(json_object_get(goal, "limit"));
            const bool at_least = json_is_true(json_object_get(goal, "at_least"));
            assert_int_equal(json_is_true(json_object_get(goal, "met")),
                             at_least ? value >= limit : value <= limit);
        }
    }
}

/* The number of fields of a CSV line; quoted fields may hold commas. */
static int count_fields(const char *line, size_t n)
{
    int fields = 1;
    bool quoted = false;
    for (size_t i = 0; i < n; i++) {
        if (line[i] == '"') quoted = !quoted;
        fields += line[i] == ',' && !quoted;
    }
    return fields;
}

static void check_csv(const char *name, size_t n_cases)
{
    char *text = read_file(name);
    assert_non_null(text);
    const char *at = text;
    size_t rows = 0;
    const int columns = count_fields(at, strcspn(at, "\n"));
    assert_int_equal(columns, 46);
    while (*at) {
        const size_t n = strcspn(at, "\n");
        if (count_fields(at, n) != columns) fail_msg("%.*s", (int)n, at);
        at += n;
        assert_int_equal(*at, '\n');
        at++;
        rows++;
    }
    assert_int_equal(rows, n_cases + 1);
    free(text);
}

static void test_kernel_outputs(void **state)
{
    (void)state;
    assert_int_equal(
        run("kernel --profile ci --batch 2q1s70_1q3s9 --json a.json --csv a.csv -o md"), 0);
    json_t *root = load("a.json");
    check_schema(root);
    check_cases(root);
    check_csv("a.csv", json_array_size(json_object_get(root, "cases")));
    const json_t *random = find_case(root, "paged-random/b16");
    assert_non_null(random);
    const json_t *correct = json_object_get(random, "correct");
    assert_true(json_is_true(json_object_get(correct, "ok")));
    assert_true(json_is_true(json_object_get(correct, "renamed_equal")));
    const double used = json_number_value(json_object_get(correct, "bound_used"));
    assert_true(used > 0.001 && used <= 1); /* a bound that is never neared finds no bugs */
    /* (2 * 70 + 9) tokens, 8 KV heads, K and V of 128 f16 */
    assert_int_equal(json_integer_value(json_object_get(random, "bytes_needed")),
                     149 * 8 * 2 * 128 * 2);
    /* The denominator is one of the contiguous rows, and that row has no ratio. */
    const char *to = json_string_value(json_object_get(json_object_get(random, "ratio"), "to"));
    assert_non_null(strstr(to, "/contig-"));
    assert_true(json_is_null(json_object_get(find_case(root, to), "ratio")));
    assert_false(json_is_null(json_object_get(find_case(root, "identity-table"), "ratio")));
    expect_in("out.txt", "|:---|");
    json_decref(root);
}

static void test_standard_output(void **state)
{
    (void)state;
    assert_int_equal(run("kernel --profile ci --batch 1q1s20 --json -"), 0);
    json_t *root = load("out.txt"); /* nothing else is printed there */
    check_schema(root);
    assert_non_null(find_case(root, "paged-random/b16"));
    json_decref(root);
    assert_int_equal(run("kernel --profile ci --batch 1q1s20 --csv -"), 0);
    expect_in("out.txt", "id,level,label");
    /* two contiguous sides, identity, 16 in two orders, its reads alone, 64, the read loop */
    check_csv("out.txt", 8);
    assert_int_equal(run("kernel --profile ci --batch 1q1s20 --markdown -"), 0);
    expect_in("out.txt", "**Machine:**");
    expect_in("out.txt", "| contig-hnd ");
}

/* Both headline ratios, computed here once more from the batches. */
static void test_capacity(void **state)
{
    (void)state;
    assert_int_equal(run("capacity --filter sharegpt --json c.json"), 0);
    json_t *root = load("c.json");
    check_schema(root);
    const json_t *max = json_object_get(find_case(root, "sharegpt-like/max"), "values");
    const json_t *ideal =
        json_object_get(find_case(root, "sharegpt-like/oracle:alloc=ideal"), "values");
    const json_t *paged =
        json_object_get(find_case(root, "sharegpt-like/paged:block=16"), "values");
    const double batch = json_number_value(json_object_get(paged, "mean_batch"));
    assert_near(json_number_value(json_object_get(paged, "ratio_to_max")),
                batch / json_number_value(json_object_get(max, "mean_batch")), 1e-6);
    assert_near(json_number_value(json_object_get(paged, "ratio_to_best")),
                batch / json_number_value(json_object_get(ideal, "mean_batch")), 1e-6);
    /* The paper's figure for Orca (Max) on ShareGPT is 7.00 requests. */
    assert_near(json_number_value(json_object_get(max, "mean_batch")), 7.0, 0.05);
    expect_in("out.txt", "best contiguous");
    json_decref(root);
}

static void write_file(const char *name, const char *text)
{
    char path[256];
    snprintf(path, sizeof(path), "%s/%s", dir, name);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
}

/* One request of one block of 3 tokens for each digit. */
static void write_trace(const char *name, const char *ids)
{
    char text[1024] = "";
    for (; *ids; ids++)
        snprintf(text + strlen(text), sizeof(text) - strlen(text),
                 "{\"timestamp\": 0, \"input_length\": 3, \"output_length\": 9, \"hash_ids\": "
                 "[%c]}\n",
                 *ids);
    write_file(name, text);
}

static double value_of(const json_t *row, const char *name)
{
    assert_non_null(row);
    return json_number_value(json_object_get(json_object_get(row, "values"), name));
}

/* Eight requests of one block: 1 comes back after three strangers, and the default policy kept it.
 * Three blocks are cached beside the one for output; tests/bench/test_share.c has it step by step.
 */
static void test_share(void **state)
{
    (void)state;
    write_trace("my trace.jsonl", "23114561");
    assert_int_equal(run("share --trace 'my trace.jsonl' --trace-block 3 --pool inf,4,100 "
                         "--json s.json --csv s.csv"),
                     0);
    expect_in("out.txt",
              "share/my_trace: prefix cache, 8 requests one after another, 8 blocks of 3");
    expect_in("out.txt", "at most 0.5 points below LRU: met");
    json_t *root = load("s.json");
    check_schema(root);
    check_csv("s.csv", 5);
    const json_t *cases = json_object_get(root, "cases");
    assert_int_equal(json_array_size(cases),
                     5); /* 100 blocks are as good as inf: one pair of rows */
    assert_near(value_of(find_case(root, "share/my_trace/bound"), "token_hits"), 0.25, 1e-9);
    assert_near(value_of(find_case(root, "pool-4/lru"), "token_hits"), 0.125, 1e-9);
    assert_near(value_of(find_case(root, "pool-4/lru"), "pool_tokens"), 12, 1e-9);
    const json_t *kept = find_case(root, "pool-4/default");
    assert_near(value_of(kept, "block_hits"), 0.25, 1e-9);
    assert_near(value_of(kept, "request_mean"), 0.25, 1e-9);
    assert_near(value_of(kept, "evicted_blocks"), 3, 1e-9);
    assert_near(value_of(kept, "points_above_lru"), 12.5, 1e-9);
    assert_near(value_of(find_case(root, "pool-inf/default"), "of_bound"), 1, 1e-9);
    assert_true(json_is_true(json_object_get(json_object_get(kept, "correct"), "ok")));
    assert_true(
        json_is_true(json_object_get(json_array_get(json_object_get(kept, "goals"), 0), "met")));
    json_decref(root);
    /* 4 comes back instead, which LRU kept: a goal that is missed is said, and gates nothing. */
    write_trace("lost.jsonl", "23114564");
    assert_int_equal(run("share --trace lost.jsonl --trace-block 3 --pool 4 -o md"), 0);
    expect_in("out.txt",
              "missed: share/lost/pool-4/default: 12.50 points, goal at most 0.5 points below LRU");
    write_file("torn.jsonl", "{\"timestamp\": 0, \"input_length\": 1, \"output_length\"");
}

/* The closed form once more: of n samples of o tokens after a prompt of i, all but one save the
 * prompt's full blocks, in every step. */
static void test_sampling(void **state)
{
    static const char *const names[] = { "sharegpt-like", "alpaca-like" };
    pkv_sim_request reqs[50];
    char id[64];
    (void)state;
    assert_int_equal(run("share --profile ci --seed 5 --filter sampling --json p.json"), 0);
    expect_in("out.txt", "share/sampling/sharegpt-like: parallel sampling");
    json_t *root = load("p.json");
    check_schema(root);
    assert_int_equal(json_array_size(json_object_get(root, "cases")), 6);
    for (int g = 0; g < 2; g++) {
        const char *const lengths = g == 0 ? "sharegpt-like" : "alpaca-like";
        assert_int_equal(pkv_sim_draw(lengths, 5, 8000000, NULL, reqs, 50), PKV_OK);
        for (int n = 2; n <= 6; n += 2) {
            double saved = 0, all = 0;
            for (int r = 0; r < 50; r++)
                for (int k = 1; k <= reqs[r].output_tokens; k++) {
                    const int length = reqs[r].prompt_tokens + k;
                    saved += (n - 1) * (reqs[r].prompt_tokens / 16);
                    all += n * (length / 16 + (length % 16 > 0));
                }
            snprintf(id, sizeof(id), "share/sampling/%s/n%d/b16", names[g], n);
            const json_t *row = find_case(root, id);
            assert_near(value_of(row, "saved"), saved / all, 1e-9);
            assert_true(json_is_true(json_object_get(json_object_get(row, "correct"), "ok")));
        }
    }
    json_decref(root);
}

static void test_blockmgr(void **state)
{
    (void)state;
    assert_int_equal(run("blockmgr --profile ci --filter /fork --json b.json"), 0);
    json_t *root = load("b.json");
    check_schema(root);
    check_cases(root);
    assert_true(json_is_true(
        json_object_get(json_object_get(find_case(root, "fork/131072"), "correct"), "ok")));
    json_decref(root);
}

static void test_wrong_side(void **state)
{
    (void)state;
    assert_int_equal(run("kernel --profile ci --batch 2q1s64 --self-test wrong --json w.json"), 1);
    expect_in("out.txt", "WRONG");
    expect_in("err.txt", "WRONG kernel/2q1s64/32x8/d128/f16/t2/self-test-wrong");
    expect_in("err.txt", "again: pkv-bench kernel --batch 2q1s64");
    json_t *root = load("w.json");
    check_schema(root);
    const json_t *wrong = find_case(root, "self-test-wrong");
    assert_true(json_is_false(json_object_get(json_object_get(wrong, "correct"), "ok")));
    assert_true(json_is_null(json_object_get(wrong, "stats"))); /* not timed */
    assert_false(json_is_null(json_object_get(find_case(root, "contig-hnd"), "stats")));
    json_decref(root);
}

/* That the slow side is told apart is tested with a clock that knows no neighbours; here only that
 * it is planted, right, and timed. */
static void test_slow_side(void **state)
{
    (void)state;
    assert_int_equal(run("kernel --profile ci --batch 2q1s64 --self-test slow --json s.json"), 0);
    json_t *root = load("s.json");
    const json_t *slow = find_case(root, "self-test-slow");
    assert_true(json_is_true(json_object_get(json_object_get(slow, "correct"), "ok")));
    assert_false(json_is_null(json_object_get(slow, "ratio")));
    json_decref(root);
}

static void test_refusals(void **state)
{
    static const struct {
        const char *arguments, *says;
    } cases[] = {
        { "", "a command is missing" },
        { "kernels", "unknown command 'kernels'" },
        { "run --profile fast", "--profile wants quick, full or ci" },
        { "run extra", "unexpected argument 'extra'" },
        { "run --batch 1q1s1", "--batch has no effect on 'run'" },
        { "kernel --heads 8/8", "--heads describes a --batch, and there is none" },
        { "kernel --head-dim 64", "--head-dim describes a --batch, and there is none" },
        { "kernel --kv-dtype f32 --list", "--kv-dtype describes a --batch, and there is none" },
        { "kernel --block-tokens 8", "--block-tokens describes a --batch, and there is none" },
        { "machine --filter x", "--filter has no effect on 'machine'" },
        { "machine --list", "--list has no effect on 'machine'" },
        { "machine --seed 2", "--seed has no effect on 'machine'" },
        { "machine --csv x.csv", "--csv has no effect on 'machine'" },
        { "machine --fail-noisy", "--fail-noisy has no effect on 'machine'" },
        { "capacity -r 3", "-r, --repeats has no effect on 'capacity'" },
        { "capacity --max-time 3", "--max-time has no effect on 'capacity'" },
        { "capacity --max-memory 1G", "--max-memory has no effect on 'capacity'" },
        { "capacity --isa scalar", "--isa has no effect on 'capacity'" },
        { "capacity --no-huge-pages", "--no-huge-pages has no effect on 'capacity'" },
        { "capacity --fail-noisy", "--fail-noisy has no effect on 'capacity'" },
        { "capacity --pool 100", "--pool has no effect on 'capacity'" },
        { "share --pool 2000 --seed 2", "--seed has no effect on a trace" },
        { "share --isa scalar", "--isa has no effect on 'share'" },
        { "share --pool 100,x", "--pool wants an integer from 1 to 2147483646, not 'x'" },
        { "share --pool 100,inf,100", "--pool names 100 twice" },
        { "share --pool ''", "--pool wants a list such as 1000,10000,inf" },
        { "share --trace-block 0", "--trace-block wants an integer from 1" },
        { "share --trace nowhere.jsonl",
          "cannot read the trace nowhere.jsonl: No such file or directory; --trace FILE names" },
        { "share --trace torn.jsonl --json x.json", "torn.jsonl: line 1: not JSON at byte" },
        { "share --trace lost.jsonl --trace-block 3 --pool 7,1 --csv x.csv",
          "--pool 1 is too small for this trace: its longest prompt and the output need 2 blocks" },
        { "share --trace lost.jsonl --trace-block 1 --json x.json", "--trace-block says how many" },
        { "blockmgr --heads 8/8", "--heads has no effect on 'blockmgr'" },
        { "blockmgr --self-test slow", "--self-test has no effect on 'blockmgr'" },
        { "capacity --list --json x.json", "--list runs nothing that --json could write" },
        { "capacity --json same --csv same", "--json and --csv cannot both write same" },
        { "kernel --batch 1q1s4 --block-tokens 16,64,16", "--block-tokens names 16 twice" },
        { "kernel --batch 8q1s1x", "character 6" },
        { "kernel --batch 2q2k_1q64s32",
          "character 11: kv length 32 is below the query length 64" },
        { "kernel --batch 1q1s4 --heads 8/3", "--heads wants" },
        { "kernel --head-dim 12", "multiple of 8" },
        { "kernel --batch 1q1s4 --kv-dtype int2", "--kv-dtype wants" },
        { "kernel --threads 0", "--threads wants an integer from 1 to 1024" },
        { "blockmgr --threads 2", "--threads has no effect on 'blockmgr'" },
        { "capacity --csv same --markdown same", "--csv and --markdown cannot both write same" },
        { "kernel --block-tokens 16,0", "--block-tokens wants an integer from 1 to 1024" },
        { "kernel --filter nothing-has-this-name", "no case id contains" },
        { "machine --max-memory 12", "at least 8M" },
        { "run --max-memory lots", "--max-memory wants a size" },
        { "run --max-time -1", "--max-time wants seconds" },
        { "run -r 0", "-r wants an integer from 1" },
        { "run --isa sse", "--isa wants" },
        { "run -o html", "-o wants table or md" },
        { "capacity --json - --csv -", "cannot share standard output" },
        { "capacity --json /nonexistent-folder/x.json", "cannot write /nonexistent-folder/x.json" },
    };
    (void)state;
    const int before = count_files();
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const int code = run(cases[i].arguments);
        if (code != 2) fail_msg("'%s' exits with %d", cases[i].arguments, code);
        expect_in("err.txt", cases[i].says);
        char *said = read_file("err.txt");
        if (strchr(said, '\n') != said + strlen(said) - 1) fail_msg("more than a line: %s", said);
        free(said);
        char *out = read_file("out.txt");
        assert_string_equal(out, "");
        free(out);
    }
    /* A device is written as it is, never replaced by a file. */
    assert_int_equal(run("kernel --profile ci --batch 1q1s4 --csv /dev/full"), 2);
    expect_in("err.txt", "cannot write /dev/full: No space left on device");
    struct stat full;
    assert_true(stat("/dev/full", &full) == 0 && S_ISCHR(full.st_mode));
    assert_int_equal(count_files(), before); /* no file, whole or partial */
    /* A failing run leaves an older file as it was. */
    assert_int_equal(run("kernel --profile ci --batch 1q1s8 --csv keep.csv"), 0);
    char *old = read_file("keep.csv");
    assert_int_equal(run("kernel --filter nothing-has-this-name --csv keep.csv"), 2);
    char *now = read_file("keep.csv");
    assert_string_equal(old, now);
    free(old);
    free(now);
}

static void test_help_and_list(void **state)
{
    static const char *const commands[] = { "run",   "kernel", "blockmgr", "capacity",
                                            "share", "model",  "machine" };
    (void)state;
    assert_int_equal(run("--help"), 0);
    expect_in("out.txt", "Usage: pkv-bench COMMAND");
    for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
        char arguments[64];
        snprintf(arguments, sizeof(arguments), "%s --help", commands[i]);
        assert_int_equal(run(arguments), 0);
        expect_in("out.txt", "--profile");
        char *help = read_file("out.txt");
        assert_int_equal(strstr(help, "--batch") != NULL, strcmp(commands[i], "kernel") == 0);
        assert_int_equal(strstr(help, "--filter") != NULL, strcmp(commands[i], "machine") != 0);
        assert_int_equal(strstr(help, "--isa") != NULL,
                         strcmp(commands[i], "capacity") != 0 && strcmp(commands[i], "share") != 0);
        assert_int_equal(strstr(help, "--trace") != NULL, strcmp(commands[i], "share") == 0);
        assert_null(strstr(help, "--self-test"));
        free(help);
    }
    assert_int_equal(run("run --profile full --list --threads 1"), 0);
    expect_in("out.txt", "kernel/32q1s2k/32x8/d128/f16/paged-random/b16\n");
    expect_in("out.txt", "blockmgr/decode-step/256/pagedkv\n");
    expect_in("out.txt", "capacity/sharegpt-like\n");
    expect_in("out.txt", "share/synthetic_trace\n");
    /* The whole id of a row names it alone; what it is compared with stays. */
    assert_int_equal(
        run("run --list --threads 1 --filter kernel/8q1s2k/32x8/d128/f16/paged-random/b1"), 0);
    char *ids = read_file("out.txt");
    assert_string_equal(ids, "kernel/8q1s2k/32x8/d128/f16/contig-hnd\n"
                             "kernel/8q1s2k/32x8/d128/f16/contig-nhd\n"
                             "kernel/8q1s2k/32x8/d128/f16/paged-random/b1\n"
                             "kernel/8q1s2k/32x8/d128/f16/read-loop\n");
    free(ids);
}

static void test_too_little_memory(void **state)
{
    (void)state;
    assert_int_equal(run("kernel --profile ci --batch 1q1s64k --max-memory 16M"), 1);
    expect_in("out.txt", "SKIPPED kernel/1q1s64k");
    expect_in("err.txt", "kernel/1q1s64k/32x8/d128/f16 was not run: needs more than --max-memory");
    assert_int_equal(run("kernel --profile ci --batch 64q1s1k --max-memory 64M"), 0);
    expect_in("out.txt", "shrunk to");
}

static void test_level(void **state)
{
    (void)state;
    assert_int_equal(run("kernel --profile ci --batch 1q1s40 --isa scalar --json s.json"), 0);
    json_t *root = load("s.json");
    const json_t *params = json_object_get(find_case(root, "contig-hnd"), "params");
    assert_non_null(strstr(json_string_value(json_object_get(params, "kernel")), "scalar"));
    json_decref(root);
    setenv("PKV_ISA", "scalar", 1);
    assert_int_equal(run("kernel --profile ci --batch 1q1s40"), 0);
    expect_in("out.txt", "scalar");
    /* --isa goes before PKV_ISA, also where it says best. */
    char level[32];
    snprintf(level, sizeof(level), "level %s", pkv_isa_name(pkv_isa_detect()));
    assert_int_equal(run("kernel --profile ci --batch 1q1s40 --isa best"), 0);
    expect_in("out.txt", level);
    unsetenv("PKV_ISA");
}

/* Who asked for a level that is not here, and what is. */
static void test_missing_level(void **state)
{
    char says[96], arguments[64];
    (void)state;
    setenv("PKV_ISA", "sse", 1);
    assert_int_equal(run("machine --profile ci"), 2);
    expect_in("err.txt", "PKV_ISA wants");
    assert_int_equal(run("capacity --filter alpaca"), 0); /* needs no level */
    unsetenv("PKV_ISA");
    /* One of the two belongs to another architecture. */
    const pkv_isa missing =
        pkv_isa_check(PKV_ISA_NEON, NULL) == PKV_OK ? PKV_ISA_AVX2 : PKV_ISA_NEON;
    snprintf(says, sizeof(says), "asks for %s, but the highest level here is %s",
             pkv_isa_name(missing), pkv_isa_name(pkv_isa_detect()));
    snprintf(arguments, sizeof(arguments), "machine --profile ci --isa %s", pkv_isa_name(missing));
    assert_int_equal(run(arguments), 2);
    expect_in("err.txt", "--isa asks for");
    expect_in("err.txt", says);
    setenv("PKV_ISA", pkv_isa_name(missing), 1);
    assert_int_equal(run("kernel --profile ci --batch 1q1s4"), 2);
    expect_in("err.txt", "PKV_ISA asks for");
    expect_in("err.txt", says);
    assert_int_equal(run("capacity --filter alpaca"), 0);
    unsetenv("PKV_ISA");
}

static void test_ci_profile(void **state)
{
    (void)state;
    const time_t start = time(NULL);
    assert_int_equal(run("run --profile ci --json ci.json --csv ci.csv"), 0);
    print_message("# run --profile ci took %ld s of 60\n", (long)(time(NULL) - start));
    json_t *root = load("ci.json");
    check_schema(root);
    check_cases(root);
    check_csv("ci.csv", json_array_size(json_object_get(root, "cases")));
    /* Sanitizers slow it down several times; their wall time says nothing. */
    const json_t *flags = json_object_get(json_object_get(root, "tool"), "flags");
    if (strstr(json_string_value(flags), "sanitize=none")) assert_true(time(NULL) - start < 60);
    json_decref(root);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kernel_outputs),    cmocka_unit_test(test_standard_output),
        cmocka_unit_test(test_capacity),          cmocka_unit_test(test_share),
        cmocka_unit_test(test_sampling),          cmocka_unit_test(test_blockmgr),
        cmocka_unit_test(test_wrong_side),        cmocka_unit_test(test_slow_side),
        cmocka_unit_test(test_refusals),          cmocka_unit_test(test_help_and_list),
        cmocka_unit_test(test_too_little_memory), cmocka_unit_test(test_level),
        cmocka_unit_test(test_missing_level),
    };
    const struct CMUnitTest long_tests[] = { cmocka_unit_test(test_ci_profile) };
    if (argc > 1 && strcmp(argv[1], "long") == 0)
        return cmocka_run_group_tests(long_tests, make_dir, remove_dir);
    return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
