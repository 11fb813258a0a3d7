/* pkv-bench serve: the load by hand, and the program with all placements against each other. The
 * program is $PKV_BENCH, the schema $PKV_BENCH_SCHEMA. */
#include "bench_test.h"

#include "json_schema.h"
#include "serve_load.h"

#include "pagedkv/backend.h"

#include <math.h>
#include <sys/wait.h>
#include <unistd.h>

static char dir[64];

static int make_dir(void **state)
{
    (void)state;
    const int n = snprintf(dir, sizeof(dir) - 6, "/tmp/pkv-serve-test-");
    memset(dir + n, 'X', 6); /* mkdtemp wants six of them at the end */
    return mkdtemp(dir) ? 0 : -1;
}

static int remove_dir(void **state)
{
    char command[128];
    (void)state;
    snprintf(command, sizeof(command), "rm -r '%s'", dir);
    return system(command);
}

static int run(const char *arguments)
{
    char command[1024];
    assert_non_null(getenv("PKV_BENCH"));
    snprintf(command, sizeof(command), "cd %s && '%s' %s > out.txt 2> err.txt < /dev/null", dir,
             getenv("PKV_BENCH"), arguments);
    const int status = system(command);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void expect_in(const char *file, const char *text)
{
    char path[128], *content = calloc(1, 1 << 20);
    assert_non_null(content);
    snprintf(path, sizeof(path), "%s/%s", dir, file);
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    assert_true(fread(content, 1, (1 << 20) - 1, f) > 0);
    fclose(f);
    if (!strstr(content, text)) fail_msg("%s does not say '%s':\n%s", file, text, content);
    free(content);
}

static json_t *load_json(const char *name)
{
    char path[128], why[512];
    json_error_t error;
    snprintf(path, sizeof(path), "%s/%s", dir, name);
    json_t *root = json_load_file(path, 0, &error);
    if (!root) fail_msg("%s: line %d: %s", name, error.line, error.text);
    json_t *schema = json_load_file(getenv("PKV_BENCH_SCHEMA"), 0, &error);
    assert_non_null(schema);
    if (!json_schema_check(schema, root, "$", why, sizeof(why))) fail_msg("%s", why);
    json_decref(schema);
    return root;
}

static const json_t *find_row(const json_t *root, const char *id)
{
    const json_t *cases = json_object_get(root, "cases");
    for (size_t i = 0; i < json_array_size(cases); i++) {
        const json_t *c = json_array_get(cases, i);
        if (strcmp(json_string_value(json_object_get(c, "id")), id) == 0) return c;
    }
    fail_msg("no row %s", id);
    return NULL;
}

static double value_of(const json_t *root, const char *id, const char *name)
{
    const json_t *v = json_object_get(json_object_get(find_row(root, id), "values"), name);
    if (!json_is_number(v)) fail_msg("%s has no %s", id, name);
    return json_number_value(v);
}

static const char *param_of(const json_t *root, const char *id, const char *name)
{
    const json_t *params = json_object_get(find_row(root, id), "params");
    const char *text = json_string_value(json_object_get(params, name));
    if (!text) fail_msg("%s has no %s", id, name);
    return text;
}

/* ---------------------------------------------------------------- the load */

static struct serve_load load_of(const struct serve_spec *spec)
{
    struct bench_error err = { BENCH_OK, "" };
    struct serve_load load;
    if (!serve_load_make(spec, &load, &err)) fail_msg("%s", err.text);
    return load;
}

/* Fixed lengths, so that everything can be done by hand: 37 / 4 is 9, 10 / 4 is 3 (2.5, up). */
static void test_load_is_scaled(void **state)
{
    (void)state;
    const struct serve_spec spec = {
        .lengths = "fixed:37,10", .scale = 4, .n_requests = 3, .n_prefix = 5, .n_samples = 2
    };
    struct serve_load load = load_of(&spec);
    assert_int_equal(load.n, 3);
    assert_int_equal(load.context, 32); /* 47 / 4 is 12, the prefix makes 17, in blocks of 16 */
    for (int i = 0; i < 3; i++) {
        assert_int_equal(load.reqs[i].prompt_tokens, 9 + 5);
        assert_int_equal(load.reqs[i].output_tokens, 3);
        assert_int_equal(load.reqs[i].arrival_ns, 0);
    }
    assert_int_equal(load.n_prompt, 3 * 14);
    assert_int_equal(load.n_output, 3 * 3 * 2);
    serve_load_free(&load);
}

static void test_load_fits_the_context(void **state)
{
    (void)state;
    struct serve_spec spec = {
        .lengths = "fixed:37,10", .scale = 1, .n_requests = 1, .n_samples = 1, .context = 40
    };
    struct serve_load load = load_of(&spec);
    assert_int_equal(load.reqs[0].prompt_tokens, 37);
    assert_int_equal(load.reqs[0].output_tokens, 3);
    serve_load_free(&load);
    spec.context = 20;
    load = load_of(&spec);
    assert_int_equal(load.reqs[0].prompt_tokens, 19);
    assert_int_equal(load.reqs[0].output_tokens, 1);
    serve_load_free(&load);
}

static void test_prompts_share_the_prefix(void **state)
{
    (void)state;
    struct serve_spec spec = { .lengths = "fixed:30,4",
                               .scale = 1,
                               .n_requests = 2,
                               .n_prefix = 20,
                               .n_samples = 1,
                               .seed = 7 };
    int32_t a[50], b[50];
    struct serve_load load = load_of(&spec);
    serve_load_prompt(&load, 0, 1000, a);
    serve_load_prompt(&load, 1, 1000, b);
    assert_memory_equal(a, b, 20 * sizeof(*a));
    assert_memory_not_equal(a + 20, b + 20, 30 * sizeof(*a));
    for (int i = 0; i < 50; i++) assert_in_range(a[i], 0, 999);
    serve_load_free(&load);
    spec.same_prompt = true;
    load = load_of(&spec);
    serve_load_prompt(&load, 1, 1000, b);
    assert_memory_equal(a, b, sizeof(a));
    serve_load_free(&load);
}

/* Gaps of mean 1 / rate; the mean of 4,000 lies within 5 % of that (3 sigma: 4.7 %). */
static void test_arrivals_have_the_rate(void **state)
{
    (void)state;
    struct bench_error err;
    const struct serve_spec spec = {
        .lengths = "fixed:1,1", .scale = 1, .n_requests = 4000, .n_samples = 1, .seed = 3
    };
    struct serve_load load = load_of(&spec);
    assert_true(serve_load_arrive(&load, 250, &err));
    const double last_s = (double)load.reqs[3999].arrival_ns * 1e-9;
    assert_near(last_s, 4000 / 250., 0.05 * 4000 / 250);
    serve_load_free(&load);
}

/* ---------------------------------------------------------------- the program */

/* Tokens of the ci profile's offline requests, drawn and scaled here once more. */
static void ci_tokens(int64_t *prompt, int64_t *output)
{
    pkv_sim_request reqs[24];
    *prompt = *output = 0;
    assert_int_equal(pkv_sim_draw("sharegpt-like", 1, 0, NULL, reqs, 24), PKV_OK);
    for (int i = 0; i < 24; i++) {
        const int64_t p = lround(reqs[i].prompt_tokens / 32.);
        const int64_t o = lround(reqs[i].output_tokens / 32.);
        *prompt += p > 1 ? p : 1;
        *output += o > 1 ? o : 1;
    }
}

static void check_offline(const json_t *root)
{
    int64_t prompt, output;
    ci_tokens(&prompt, &output);
    /* Four regions of the longest context: never more at a time, and always so many. */
    assert_near(value_of(root, "serve/offline/max", "peak_seqs"), 4, 0);
    assert_near(value_of(root, "serve/offline/max", "mean_seqs_queued"), 4, 0);
    const double paged = value_of(root, "serve/offline/paged", "mean_seqs_queued");
    assert_near(value_of(root, "serve/offline/paged", "seqs_ratio"), paged / 4, 1e-9);
    assert_true(paged >= 2 * 4);
    static const char *const ids[] = { "serve/offline/paged", "serve/offline/max",
                                       "serve/offline/pow2", "serve/offline/request" };
    for (int i = 0; i < BENCH_LEN(ids); i++) {
        assert_string_equal(param_of(root, ids[i], "pool_tokens"), "256"); /* equal memory */
        const double out_rate = value_of(root, ids[i], "output_tokens_per_s");
        const double in_rate = value_of(root, ids[i], "prompt_tokens_per_s");
        assert_near(in_rate / out_rate, (double)prompt / (double)output, 1e-6);
        /* A step gives a sequence at most one token, so there are as many steps at least. */
        assert_true(value_of(root, ids[i], "steps") * value_of(root, ids[i], "peak_seqs") >=
                    (double)output - 24);
        const double filled = value_of(root, ids[i], "slots_filled");
        assert_true(filled > 0 && filled <= 1);
    }
}

/* Every placement gave every request the same ids, or a row would be WRONG. */
static void test_ci_profile(void **state)
{
    (void)state;
    assert_int_equal(run("serve --profile ci --json c.json --csv c.csv --markdown c.md"), 0);
    json_t *root = load_json("c.json");
    const json_t *cases = json_object_get(root, "cases");
    assert_int_equal(json_array_size(cases), 5 * 4 + 2);
    for (size_t i = 0; i < json_array_size(cases); i++) {
        const json_t *c = json_array_get(cases, i);
        assert_true(json_is_true(json_object_get(json_object_get(c, "correct"), "ok")));
        assert_string_equal(json_string_value(json_object_get(c, "level")), "serve");
        assert_int_equal(json_array_size(json_object_get(c, "samples_ns")), 1);
    }
    check_offline(root);
    assert_near(value_of(root, "serve/same-prompt/second", "cached_tokens"), 127,
                0); /* all but the last */
    assert_true(value_of(root, "serve/pressure/half-swap", "preempt_swap") > 0);
    assert_near(value_of(root, "serve/pressure/half-swap", "preempt_recompute"), 0, 0);
    assert_true(value_of(root, "serve/pressure/half-recompute", "recomputed_tokens") > 0);
    assert_near(value_of(root, "serve/pressure/fits", "preempt_swap"), 0, 0);
    /* Twelve prompts with 32 tokens before them; at least the last of them find both blocks. */
    assert_true(value_of(root, "serve/prefix/paged", "cached_tokens") >= 32);
    assert_near(value_of(root, "serve/prefix/max", "cached_tokens"), 0, 0);
    assert_string_equal(param_of(root, "serve/samples/max", "samples"), "2");
    expect_in("c.md", "### serve/offline: all requests at once; 24 requests of sharegpt-like / 32");
    expect_in("c.csv", "serve/open/request,serve,");
    json_decref(root);
}

/* As the other commands: a level that is not here is refused, and repeated where it is. */
static void test_level(void **state)
{
    (void)state;
    const pkv_isa missing = pkv_isa_detect() == PKV_ISA_NEON ? PKV_ISA_AVX2 : PKV_ISA_NEON;
    char arguments[128];
    snprintf(arguments, sizeof(arguments), "serve --profile ci --filter offline --isa %s",
             pkv_isa_name(missing));
    assert_int_equal(run(arguments), 2);
    expect_in("err.txt", "--isa asks for");
    assert_int_equal(run("serve --profile ci --filter offline --isa scalar --threads 1 --seed 3 "
                         "--json l.json"),
                     0);
    json_t *root = load_json("l.json");
    const json_t *repro = json_object_get(find_row(root, "serve/offline/max"), "repro");
    assert_string_equal(json_string_value(repro),
                        "pkv-bench serve --profile ci --filter serve/offline --seed 3 "
                        "--isa scalar --threads 1");
    json_decref(root);
}

/* Ids that differ between placements are an error that nobody overlooks. */
static void test_other_ids_are_wrong(void **state)
{
    (void)state;
    assert_int_equal(
        run("serve --profile ci --filter serve/offline --self-test wrong --json w.json"), 1);
    expect_in("err.txt", "WRONG serve/offline/request: token 0 of request 0 is ");
    expect_in("err.txt", "again: pkv-bench serve --profile ci --filter serve/offline --seed 1");
    json_t *root = load_json("w.json");
    const json_t *wrong = find_row(root, "serve/offline/request");
    assert_true(json_is_false(json_object_get(json_object_get(wrong, "correct"), "ok")));
    assert_true(json_is_null(json_object_get(wrong, "stats")));
    assert_false(json_is_null(json_object_get(find_row(root, "serve/offline/paged"), "stats")));
    json_decref(root);
    assert_int_equal(run("serve --profile ci --filter same-prompt --self-test wrong"), 1);
    expect_in("err.txt", "WRONG serve/same-prompt/second: the second answer is not the first");
}

static void write_lengths(const char *name)
{
    char path[128];
    snprintf(path, sizeof(path), "%s/%s", dir, name);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs("num_prefill_tokens,num_decode_tokens\n40,24\n16,60\n", f);
    assert_int_equal(fclose(f), 0);
}

static void test_workload_by_hand(void **state)
{
    (void)state;
    write_lengths("my.csv");
    assert_int_equal(run("serve --profile ci -m tiny --lengths ./my.csv --scale 2 --requests 9 "
                         "--concurrency 3 --kv-memory 1M --slo-ttft 60000 --json h.json"),
                     0);
    json_t *root = load_json("h.json");
    assert_near(value_of(root, "serve/workload/paged", "peak_seqs"), 3, 0);
    assert_near(value_of(root, "serve/workload/paged", "slo_met"), 1, 0);
    assert_string_equal(param_of(root, "serve/workload/paged", "context"), "48"); /* 76 / 2 is 38 */
    assert_string_equal(param_of(root, "serve/workload/paged", "arrivals"), "3 at a time");
    assert_string_equal(param_of(root, "serve/workload/paged", "lengths"), "my.csv");
    /* 1 MiB of 2 x 5 layers x 4 heads x 8 x 2 bytes: 1,638 tokens, 102 blocks, one of them null */
    assert_string_equal(param_of(root, "serve/workload/max", "pool_tokens"), "1616");
    json_decref(root);
    /* Room for one block of 640 bytes a token and the null block, but for no region of 48. */
    assert_int_equal(run("serve --profile ci -m tiny --lengths fixed:8,8 --scale 1 --requests 2 "
                         "--max-context 48 --kv-memory 20480 --json s.json"),
                     0);
    expect_in("out.txt", "SKIPPED serve/workload/max: no engine");
    root = load_json("s.json");
    assert_true(value_of(root, "serve/workload/paged", "peak_seqs") >= 1);
    json_decref(root);
}

static void test_refusals(void **state)
{
    static const struct {
        const char *arguments, *says;
    } cases[] = {
        { "serve --rate 1 --concurrency 2", "--rate is an open loop and --concurrency a closed" },
        { "serve --rate 0", "--rate wants a number above 0, not '0'" },
        { "serve --scale 0", "--scale wants an integer from 1 to" },
        { "serve --kv-memory big", "--kv-memory wants a size such as 16M, not 'big'" },
        { "serve --lengths none.csv", "--lengths: cannot read none.csv: No such file" },
        { "serve --lengths gaussian", "--lengths: " },
        { "serve -m none.bin", "none.bin" },
        { "serve --max-time 3", "--max-time has no effect on 'serve'" },
        { "run --rate 3", "--rate has no effect on 'run'" },
        { "kernel -m tiny", "--model has no effect on 'kernel'" },
        { "serve -m tiny --kv-memory 20480 --lengths fixed:60,4 --scale 1 --requests 1",
          "request 0 of 60 + 4 tokens: " },
    };
    (void)state;
    for (int i = 0; i < BENCH_LEN(cases); i++) {
        if (run(cases[i].arguments) != 2) fail_msg("accepted: %s", cases[i].arguments);
        expect_in("err.txt", cases[i].says);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_load_is_scaled),
        cmocka_unit_test(test_load_fits_the_context),
        cmocka_unit_test(test_prompts_share_the_prefix),
        cmocka_unit_test(test_arrivals_have_the_rate),
        cmocka_unit_test(test_ci_profile),
        cmocka_unit_test(test_level),
        cmocka_unit_test(test_other_ids_are_wrong),
        cmocka_unit_test(test_workload_by_hand),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
