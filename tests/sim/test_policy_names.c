/* Policies as text: what is read, what is refused and why, and that names read back as they are. */
#include "common/philox.h"
#include "sim/sim_internal.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Field by field: padding does not count. */
static bool same(const pkv_sim_policy *a, const pkv_sim_policy *b)
{
    return a->kind == b->kind && a->addr == b->addr && a->block_tokens == b->block_tokens &&
           a->prefix == b->prefix && a->swap == b->swap && a->group == b->group &&
           a->n_seqs == b->n_seqs && a->switch_ppm == b->switch_ppm &&
           a->max_tokens == b->max_tokens && a->page_bytes == b->page_bytes;
}

/* Its name, after it has been read back. */
static void write_checked(const pkv_sim_policy *p, char name[PKV_SIM_POLICY_NAME_BYTES])
{
    char again[PKV_SIM_POLICY_NAME_BYTES];
    pkv_sim_policy back = { .block_tokens = -5 };
    pkv_sim_policy_name(p, name);
    if (pkv_sim_policy_parse(name, NULL, &back) != PKV_OK || !same(p, &back))
        fail_msg("'%s' does not read back", name);
    pkv_sim_policy_name(&back, again);
    assert_string_equal(name, again);
}

static void test_accepted(void **state)
{
    (void)state;
    static const struct {
        const char *text, *name;
    } cases[] = {
        { "max", "max" },
        { "pow2:alloc=buddy", "pow2" },
        { "oracle:alloc=ideal", "oracle:alloc=ideal" },
        { "max:alloc=first-fit", "max:alloc=first-fit" },
        { "oracle:alloc=best-fit", "oracle:alloc=best-fit" },
        { "oracle:ideal", "oracle:alloc=ideal" },
        { "max:next-fit", "max:alloc=next-fit" },
        { "oracle:alloc=compact", "oracle:alloc=compact" },
        { "pow2:alloc=ideal,alloc=buddy", "pow2" },
        { "static-batch", "static-batch" },
        { "static-batch:ideal", "static-batch:alloc=ideal" },
        { "orca-real", "orca-real" },
        { "orca-real:max_tokens=512", "orca-real:max_tokens=512" },
        { "orca-real:max_tokens=1073741824", "orca-real:max_tokens=1073741824" },
        { "vattn", "vattn:page=2M" },
        { "vattn:page=256K", "vattn:page=256K" },
        { "vattn:page=128K", "vattn:page=128K" },
        { "vattn:page=64K", "vattn:page=64K" },
        { "paged", "paged:block=16" },
        { "paged:block=1024", "paged:block=1024" },
        { "paged:block=1", "paged:block=1" },
        { "paged:block=008", "paged:block=8" },
        { "paged:block=8,block=32", "paged:block=32" },
        { "paged+recompute", "paged:block=16" },
        { "paged+recompute+prefix:block=8", "paged+prefix:block=8" },
        { "paged+prefix+swap:block=16", "paged+prefix+swap:block=16" },
        { "paged+swap+prefix", "paged+prefix+swap:block=16" },
        { "paged+fork", "paged+fork:block=16,n=4" },
        { "paged+fork:n=64,block=1", "paged+fork:block=1,n=64" },
        { "paged+fork:n=1", "paged+fork:block=16,n=1" },
        { "paged+beam", "paged+beam:block=16,width=4,switch=0.1" },
        { "paged+beam:width=6,switch=0.000001", "paged+beam:block=16,width=6,switch=0.000001" },
        { "paged+beam:switch=0", "paged+beam:block=16,width=4,switch=0" },
        { "paged+beam:switch=1", "paged+beam:block=16,width=4,switch=1" },
        { "paged+beam:switch=1.000", "paged+beam:block=16,width=4,switch=1" },
        { "paged+beam:switch=0.250", "paged+beam:block=16,width=4,switch=0.25" },
        { "paged+beam+swap+prefix:block=1024,width=64,switch=0.123456",
          "paged+prefix+swap+beam:block=1024,width=64,switch=0.123456" },
    };
    for (size_t k = 0; k < PKV_ARRAY_LEN(cases); k++) {
        pkv_sim_policy p;
        char name[PKV_SIM_POLICY_NAME_BYTES];
        if (pkv_sim_policy_parse(cases[k].text, NULL, &p) != PKV_OK)
            fail_msg("'%s' is refused", cases[k].text);
        write_checked(&p, name);
        assert_string_equal(name, cases[k].name);
    }
}

static void test_fields(void **state)
{
    (void)state;
    pkv_sim_policy p;
    assert_int_equal(pkv_sim_policy_parse("vattn:page=64K", NULL, &p), PKV_OK);
    const pkv_sim_policy vattn = { .kind = PKV_SIM_VATTN, .n_seqs = 1, .page_bytes = 65536 };
    assert_true(same(&p, &vattn));
    assert_int_equal(pkv_sim_policy_parse("orca-real:max_tokens=7", NULL, &p), PKV_OK);
    const pkv_sim_policy orca = { .kind = PKV_SIM_ORCA_REAL, .n_seqs = 1, .max_tokens = 7 };
    assert_true(same(&p, &orca));
    assert_int_equal(pkv_sim_policy_parse("paged+swap+beam:width=3,switch=0.05", NULL, &p), PKV_OK);
    const pkv_sim_policy beam = { .kind = PKV_SIM_PAGED,
                                  .block_tokens = 16,
                                  .swap = true,
                                  .group = PKV_SIM_GROUP_BEAM,
                                  .n_seqs = 3,
                                  .switch_ppm = 50000 };
    assert_true(same(&p, &beam));
    assert_int_equal(pkv_sim_policy_parse("static-batch:alloc=first-fit", NULL, &p), PKV_OK);
    const pkv_sim_policy batch = { .kind = PKV_SIM_STATIC_BATCH,
                                   .addr = PKV_SIM_ADDR_FIRST_FIT,
                                   .n_seqs = 1 };
    assert_true(same(&p, &batch));
}

static void keep_text(void *ctx, pkv_log_level level, const char *text)
{
    (void)level;
    snprintf(ctx, 256, "%s", text);
}

static void test_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text, *why; /* part of the message */
    } cases[] = {
        { "", "known are max, pow2, oracle, static-batch, orca-real, paged and vattn" },
        { "orca", "known are" },
        { "maxx", "unknown name" },
        { "Max", "unknown name" },
        { " max", "unknown name" },
        { "max:", "takes alloc=NAME" },
        { "max:alloc", "buddy, ideal, first-fit, best-fit, next-fit or compact" },
        { "max:worst-fit", "unknown key 'worst-fit'" },
        { "max:alloc=", "buddy, ideal" },
        { "max:alloc=first", "buddy, ideal" },
        { "max:ideal=", "unknown key 'ideal'" },
        { "max:block=16", "block is for paged; this one takes alloc=NAME" },
        { "max+swap", "only paged" },
        { "orca-real:alloc=ideal", "this one takes max_tokens=N" },
        { "orca-real:ideal", "this one takes max_tokens=N" },
        { "orca-real:max_tokens=0", "a number of slots, 1 .. 2^30" },
        { "orca-real:max_tokens=1073741825", "a number of slots, 1 .. 2^30" },
        { "orca-real:max_tokens=99999999999999999999", "a number of slots" },
        { "vattn:page=4K", "2M, 256K, 128K or 64K" },
        { "vattn:page=65536", "2M, 256K, 128K or 64K" },
        { "vattn:block=16", "this one takes page=BYTES" },
        { "paged:block=0", "1 .. 1024" },
        { "paged:block=1025", "1 .. 1024" },
        { "paged:block=-1", "1 .. 1024" },
        { "paged:block=+1", "1 .. 1024" },
        { "paged:block=16x", "1 .. 1024" },
        { "paged:block= 16", "1 .. 1024" },
        { "paged:block=16=16", "1 .. 1024" },
        { "paged:block", "1 .. 1024" },
        { "paged:block=16,", "takes block=N" },
        { "paged:,block=16", "takes block=N" },
        { "paged:alloc=ideal", "alloc is for max, pow2, oracle and static-batch" },
        { "paged:n=4", "n is for paged+fork; this one takes block=N" },
        { "paged:width=4", "width is for paged+beam" },
        { "paged+fork:width=4", "this one takes block=N and n=N" },
        { "paged+beam:n=4", "this one takes block=N, width=N and switch=P" },
        { "paged+fork:n=0", "1 .. 64" },
        { "paged+fork:n=65", "1 .. 64" },
        { "paged+beam:width=65", "1 .. 64" },
        { "paged+beam:switch=1.1", "0 .. 1" },
        { "paged+beam:switch=2", "0 .. 1" },
        { "paged+beam:switch=-0.1", "0 .. 1" },
        { "paged+beam:switch=0.1234567", "six decimals" },
        { "paged+beam:switch=0.0000001", "six decimals" },
        { "paged+beam:switch=.5", "0 .. 1" },
        { "paged+beam:switch=0.", "0 .. 1" },
        { "paged+beam:switch=1e-3", "0 .. 1" },
        { "paged+beam:switch=nan", "0 .. 1" },
        { "paged+", "prefix, swap, recompute, fork and beam" },
        { "paged+swap+", "prefix, swap, recompute, fork and beam" },
        { "paged+cache", "prefix, swap, recompute, fork and beam" },
        { "paged+swap+swap", "twice" },
        { "paged+swap+recompute", "not both" },
        { "paged+fork+beam", "not both" },
        { "paged+fork=4", "prefix, swap" },
    };
    for (size_t k = 0; k < PKV_ARRAY_LEN(cases); k++) {
        char said[256] = "";
        const pkv_logger log = { keep_text, said };
        pkv_sim_policy p = { .block_tokens = -5 };
        if (pkv_sim_policy_parse(cases[k].text, &log, &p) != PKV_E_INVALID_ARG)
            fail_msg("'%s' is accepted", cases[k].text);
        assert_int_equal(p.block_tokens, -5);
        char quoted[100];
        snprintf(quoted, sizeof(quoted), "'%s'", cases[k].text);
        if (!strstr(said, cases[k].why) || !strstr(said, quoted))
            fail_msg("'%s' is refused with: %s", cases[k].text, said);
    }
    pkv_sim_policy p;
    assert_int_equal(pkv_sim_policy_parse(NULL, NULL, &p), PKV_E_INVALID_ARG);
    assert_int_equal(pkv_sim_policy_parse("max", NULL, NULL), PKV_E_INVALID_ARG);
}

static pkv_sim_policy random_policy(pkv__rng *rng)
{
    static const int64_t pages[] = { 65536, 131072, 262144, 2097152 };
    pkv_sim_policy p = { .kind = (pkv_sim_kind)pkv__rng_below(rng, 7), .n_seqs = 1 };
    switch (p.kind) {
    case PKV_SIM_MAX:
    case PKV_SIM_POW2:
    case PKV_SIM_ORACLE:
    case PKV_SIM_STATIC_BATCH:
        p.addr = (pkv_sim_addr)pkv__rng_below(rng, 6);
        break;
    case PKV_SIM_ORCA_REAL:
        p.max_tokens = (int32_t)pkv__rng_below(rng, 1u << pkv__rng_below(rng, 31));
        break;
    case PKV_SIM_VATTN:
        p.page_bytes = pages[pkv__rng_below(rng, 4)];
        break;
    case PKV_SIM_PAGED:
        p.block_tokens = 1 + (int32_t)pkv__rng_below(rng, 1024);
        p.prefix = pkv__rng_below(rng, 2);
        p.swap = pkv__rng_below(rng, 2);
        p.group = (pkv_sim_group)pkv__rng_below(rng, 3);
        if (p.group != PKV_SIM_GROUP_NONE) p.n_seqs = 1 + (int32_t)pkv__rng_below(rng, 64);
        if (p.group == PKV_SIM_GROUP_BEAM) p.switch_ppm = (int32_t)pkv__rng_below(rng, 1000001);
        break;
    }
    return p;
}

static void test_round_trip(void **state)
{
    (void)state;
    const char *given = getenv("PKV_SEED");
    const uint64_t seed = given ? strtoull(given, NULL, 10) : 1;
    print_message("# PKV_SEED=%llu\n", (unsigned long long)seed);
    pkv__rng rng;
    pkv__rng_init(&rng, seed, 0, 0);
    for (int round = 0; round < 20000; round++) {
        char name[PKV_SIM_POLICY_NAME_BYTES];
        const pkv_sim_policy p = random_policy(&rng);
        write_checked(&p, name);
        assert_true(strlen(name) + 1 <= sizeof(name));
    }
}

/* Texts of any kind do no harm, and what is accepted has a name that reads back. */
static void test_scrambled(void **state)
{
    (void)state;
    static const char *const pieces[] = { "max",   "paged", "+",     "swap",  "prefix", "fork",
                                          "beam",  ":",     ",",     "=",     "block",  "n",
                                          "width", "16",    "0.5",   "alloc", "ideal",  "vattn",
                                          "page",  "2M",    "switch" };
    pkv__rng rng;
    pkv__rng_init(&rng, 2, 0, 0);
    int n_accepted = 0;
    for (int round = 0; round < 300000; round++) {
        char text[200] = "", name[PKV_SIM_POLICY_NAME_BYTES];
        if (pkv__rng_below(&rng, 2)) strcpy(text, "paged+");
        const uint32_t n = 1 + pkv__rng_below(&rng, 8);
        for (uint32_t k = 0; k < n; k++)
            strcat(text, pieces[pkv__rng_below(&rng, PKV_ARRAY_LEN(pieces))]);
        pkv_sim_policy p;
        if (pkv_sim_policy_parse(text, NULL, &p) != PKV_OK) continue;
        n_accepted++;
        write_checked(&p, name);
    }
    assert_true(n_accepted > 1000);
}

/* A struct that no text gives has a name too. */
static void test_names_of_nonsense(void **state)
{
    (void)state;
    char name[PKV_SIM_POLICY_NAME_BYTES];
    pkv_sim_policy p = { .kind = (pkv_sim_kind)77 };
    pkv_sim_policy_name(&p, name);
    assert_string_equal(name, "?");
    p = (pkv_sim_policy){ .kind = PKV_SIM_MAX, .addr = (pkv_sim_addr)77 };
    pkv_sim_policy_name(&p, name);
    assert_string_equal(name, "?");
    p = (pkv_sim_policy){ .kind = PKV_SIM_PAGED,
                          .prefix = true,
                          .swap = true,
                          .group = PKV_SIM_GROUP_BEAM,
                          .block_tokens = INT32_MIN,
                          .n_seqs = INT32_MIN,
                          .switch_ppm = INT32_MIN };
    memset(name, 'x', sizeof(name));
    pkv_sim_policy_name(&p, name);
    assert_true(memchr(name, '\0', sizeof(name)) != NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_accepted),  cmocka_unit_test(test_fields),
        cmocka_unit_test(test_refused),   cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_scrambled), cmocka_unit_test(test_names_of_nonsense),
    };
    return cmocka_run_group_tests_name("policy_names", tests, NULL, NULL);
}
