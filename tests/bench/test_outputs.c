/* Tables and CSV of a report made by hand: what must be said, and what must not. */
#include "bench_test.h"

#include "bandwidth.h"
#include "outputs.h"

static struct bench_report report;

static struct bench_row *add_row(const char *case_id, const char *layout, double median)
{
    struct bench_error err;
    struct bench_row *r = bench_report_add(&report, &err);
    assert_non_null(r);
    snprintf(r->id, sizeof(r->id), "%s/%s", case_id, layout);
    snprintf(r->case_id, sizeof(r->case_id), "%s", case_id);
    snprintf(r->label, sizeof(r->label), "%s", layout);
    snprintf(r->layout, sizeof(r->layout), "%s", layout);
    snprintf(r->repro, sizeof(r->repro), "pkv-bench again %s", r->id);
    r->bytes_needed = 1 << 20;
    r->samples_ns = calloc(1, sizeof(double));
    r->samples_ns[0] = median;
    r->stats = (struct bench_stats){ 1,      median, median, median, median,
                                     median, median, median, median, median };
    return r;
}

static void add_goal(struct bench_row *r, const char *name, const char *text, double limit,
                     double value, bool at_least)
{
    struct bench_goal g;
    memset(&g, 0, sizeof(g));
    snprintf(g.name, sizeof(g.name), "%s", name);
    snprintf(g.text, sizeof(g.text), "%s", text);
    g.limit = limit;
    g.value = value;
    g.at_least = at_least;
    g.has_interval = true;
    g.lo = value - 0.05;
    g.hi = value + 0.05;
    bench_row_goal(r, &g);
}

static void set_ratio(struct bench_row *r, double value, double lo, double hi)
{
    r->has_ratio = true;
    r->ratio = (struct bench_ratio){ value, lo, hi, 20 };
    snprintf(r->versus, sizeof(r->versus), "contiguous");
}

/* Two kernel cases, one in cache; a wrong side; a capacity table with a losing block size. */
static int make_report(void **state)
{
    struct bench_error err;
    (void)state;
    memset(&report, 0, sizeof(report));
    report.machine.read_gbs = 20;
    snprintf(report.command, sizeof(report.command), "pkv-bench test");
    add_row("kernel/cold", "contig-hnd", 104857.6); /* 10 GB/s: half of 20 */
    struct bench_row *r = add_row("kernel/cold", "paged-random", 115343.36);
    set_ratio(r, 1.1, 1.05, 1.15);
    add_goal(r, "C2", "ratio <= 1.05", 1.05, 1.1, false);
    add_goal(r, "", "ratio <= 1.09", 1.09, 1.1, false);
    r->has_share = true;
    snprintf(r->share_to, sizeof(r->share_to), "kernel/cold/read-loop");
    r->share = (struct bench_ratio){ 0.909, 0.9, 0.95, 20 };
    r = add_row("kernel/cold", "paged-seq", 105000);
    set_ratio(r, 1.001, 0.99, 1.01);
    add_goal(r, "C1", "share >= 0.75", 0.75, 0.8, true);
    add_row("kernel/cold", "read-loop", 100000);
    r = add_row("kernel/hot", "contig-hnd", 50000);
    r->in_cache = true;
    r = add_row("kernel/hot", "paged-random", 100000);
    r->in_cache = true;
    set_ratio(r, 2, 1.9, 2.1);
    r = add_row("kernel/hot", "paged-reversed", 1);
    r->stats.n = 0;
    r->correct = (struct bench_correct){ .checked = true, .renamed_equal = -1 };
    const char *const policies[] = { "max", "oracle:alloc=ideal", "paged:block=16",
                                     "paged:block=256" };
    const double to_max[] = { 1, 3, 5, 2 }, to_best[] = { 1. / 3, 1, 5. / 3, 2. / 3 };
    for (int i = 0; i < 4; i++) {
        r = add_row("capacity/x", policies[i], 0);
        r->stats.n = 0;
        r->bytes_needed = 0;
        r->layout[0] = '\0';
        r->group = GROUP_CAPACITY;
        bench_row_value(r, "ratio_to_max", to_max[i]);
        bench_row_value(r, "ratio_to_best", to_best[i]);
    }
    return bench_report_skip(&report, "kernel/big", "needs more memory", &err) ? 0 : -1;
}

static int free_report(void **state)
{
    (void)state;
    bench_report_free(&report);
    return 0;
}

static char printed[1 << 16];

static FILE *begin_print(void)
{
    memset(printed, 0, sizeof(printed));
    FILE *f = fmemopen(printed, sizeof(printed) - 1, "w");
    assert_non_null(f);
    return f;
}

static const char *tables(bool markdown)
{
    FILE *f = begin_print();
    out_tables(&report, markdown, f);
    fclose(f);
    return printed;
}

static const char *expect(const char *text, const char *part)
{
    const char *at = strstr(text, part);
    if (!at) fail_msg("'%s' is missing in:\n%s", part, text);
    return at;
}

/* The line that begins with `label` in the table of a case. */
static void expect_line(const char *text, const char *case_id, const char *label, const char *part)
{
    const char *line = expect(expect(text, case_id), label);
    const size_t n = strcspn(line, "\n");
    char copy[512];
    assert_true(n < sizeof(copy));
    memcpy(copy, line, n);
    copy[n] = '\0';
    if (!strstr(copy, part)) fail_msg("'%s' is not in '%s'", part, copy);
}

static void test_tables(void **state)
{
    (void)state;
    const char *text = tables(false);
    expect(text, "of read-loop"); /* the yardstick's name heads the column */
    expect_line(text, "kernel/cold:", "contig-hnd", "10.00");
    expect_line(text, "kernel/cold:", "paged-random", "0.909 [0.900, 0.950]");
    expect_line(text, "kernel/cold:", "paged-random", "1.100 [1.050, 1.150]  slower");
    expect_line(text, "kernel/cold:", "paged-random",
                "ratio <= 1.05: missed; ratio <= 1.09: missed");
    expect_line(text, "kernel/cold:", "paged-seq", "no difference seen");
    expect_line(text, "kernel/hot:", "paged-random", "in cache");
    expect_line(text, "kernel/hot:", "paged-reversed", "WRONG");
    expect(text, "SKIPPED kernel/big: needs more memory");
    /* Goals with a name in a table, in the order of the names; the others where missed. */
    const char *goals = expect(text, "Kernel goals");
    const char *c1 = expect(goals, "C1    kernel/cold/paged-seq");
    assert_true(c1 < expect(goals, "C2    kernel/cold/paged-random"));
    expect_line(goals, "Kernel goals", "C1 ", "share >= 0.75  0.800 [0.750, 0.850]  met");
    expect(text, "Goals: 1 of 3 met");
    expect(text, "missed: kernel/cold/paged-random: 1.100 [1.050, 1.150], goal ratio <= 1.09");
    assert_null(strstr(goals, "goal ratio <= 1.05"));
    assert_null(strstr(text, "noisy"));
}

static void add_served(const char *side, const char *label, double ttft_ms, double tpot_ms)
{
    struct bench_row *r = add_row("serve/a", side, 1e6);
    r->group = GROUP_SERVE;
    snprintf(r->label, sizeof(r->label), "%s", label);
    set_ratio(r, 0.5, 0.4, 0.6); /* of the time: twice the tokens per second */
    snprintf(r->versus, sizeof(r->versus), "max");
    r->has_ratio = strcmp(side, "paged") == 0;
    bench_row_value(r, "ttft_p50_ms", ttft_ms);
    bench_row_value(r, "tpot_p50_ms", tpot_ms);
}

/* Every losing row, worst first, and none that does not lose. */
static void test_losses(void **state)
{
    (void)state;
    add_served("paged", "paged, blocks of 16", 5.1, 37);
    add_served("max", "max: longest context each", 5, 11);
    const char *text = tables(false);
    const char *section = expect(text, "Where paging loses");
    const char *hot = expect(section, "2.000 [1.900, 2.100] kernel/hot/paged-random (in cache)");
    const char *cold = expect(section, "1.100 [1.050, 1.150] kernel/cold/paged-random");
    assert_true(hot < cold);
    expect(section, "holds 0.67 of the best contiguous policy: capacity/x/paged:block=256");
    assert_null(strstr(section, "0.990"));
    expect(section, "tpot_p50_ms 37 against 11 of max: serve/a/paged");
    assert_null(strstr(section, "ttft_p50_ms 5.1 against")); /* 2 % are noise */
}

/* Both capacity ratios in one sentence, each headline with its command. */
static void test_headline(void **state)
{
    (void)state;
    const char *text = tables(false);
    const char *section = expect(text, "\nHeadline\n");
    expect(section,
           "takes 1.100 [1.050, 1.150] times the contiguous time (kernel/cold/paged-random)");
    expect(section, "pkv-bench again kernel/cold/paged-random");
    expect(section, "holds 5.00 times the sequences of contiguous maximum regions and 1.67 times "
                    "those of the best contiguous policy");
    expect(section, "pkv-bench again capacity/x/paged:block=16");
    report.has_aa = report.noisy = true;
    text = tables(true);
    expect(text, "### Headline (noisy run)");
    expect(text, "NOISY, do not quote times of this run");
    expect(text, "| contig-hnd ");
}

/* No share of memory bandwidth for what lies in the caches. */
static void test_csv(void **state)
{
    (void)state;
    snprintf(report.rows[0]->note, sizeof(report.rows[0]->note), "a \"b\", c");
    FILE *f = begin_print();
    out_csv(&report, f);
    fclose(f);
    const char *text = printed;
    expect(text, ",1048576,0,0,10.0000,0.5000,"); /* cold */
    expect(text, ",1048576,0,1,20.9715,,");       /* hot: GB/s, no share */
    expect(text, ",\"a \"\"b\"\", c\",,,,,,\n");
    expect(text, "ratio_to_max=5;ratio_to_best=1.66666667");
}

/* A yardstick from the caches is named so, and nothing is measured with it. */
static void test_read_in_cache(void **state)
{
    (void)state;
    report.machine.read_in_cache = true;
    report.machine.read_bytes = 64 << 20;
    const char *text = tables(false);
    expect(text, "in cache: a buffer of 64 MiB is below 4 times the last-level cache");
    FILE *f = begin_print();
    out_csv(&report, f);
    fclose(f);
    expect(printed, ",1048576,0,0,10.0000,,");
}

/* Just below and at four times the last-level cache. */
static void test_probe_in_cache(void **state)
{
    struct machine_info m;
    struct bench_error err = { 0, "" };
    struct bandwidth_opts opts = { PKV_ISA_BEST, NULL, 4 << 20, 4 << 20, false, false };
    const struct bench_clock clock = bench_clock_raw();
    (void)state;
    memset(&m, 0, sizeof(m));
    m.llc_bytes = 1 << 20;
    assert_true(bench_team_create(2, &opts.team, &err));
    assert_true(bandwidth_probe(&clock, &opts, &m, &err));
    assert_int_equal(m.read_bytes, 4 << 20);
    assert_false(m.read_in_cache);
    opts.max_bytes -= 4096;
    assert_true(bandwidth_probe(&clock, &opts, &m, &err));
    assert_true(m.read_in_cache);
    bench_team_destroy(opts.team);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_tables, make_report, free_report),
        cmocka_unit_test_setup_teardown(test_losses, make_report, free_report),
        cmocka_unit_test_setup_teardown(test_headline, make_report, free_report),
        cmocka_unit_test_setup_teardown(test_csv, make_report, free_report),
        cmocka_unit_test_setup_teardown(test_read_in_cache, make_report, free_report),
        cmocka_unit_test(test_probe_in_cache),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
