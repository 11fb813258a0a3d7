/* Random operations on the manager and on the oracle, compared after each one (op_driver.h).
 *
 * A failing list is shrunk and printed. Every eighth seed runs again with another hash secret and
 * must give the same digests. See --help. */
#include "op_driver.h"

#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#define BIT(status) (1u << (status))
#define OK_BIT BIT(PKV_OK)
#define ARG BIT(PKV_E_INVALID_ARG)
#define STALE BIT(PKV_E_STALE)
#define STATE BIT(PKV_E_STATE)
#define LIMIT BIT(PKV_E_LIMIT)
#define RANGE BIT(PKV_E_RANGE)
#define LATER BIT(PKV_E_AGAIN)
#define NO_ROOM (BIT(PKV_E_NO_BLOCKS) | LATER)
#define ROOM (BIT(PKV_E_NEVER) | NO_ROOM)
#define OTHER BIT(PKV_E_UNSUPPORTED)

/* The statuses that the contract of each function names. Not in it: what takes 2^31 calls, and
 * PKV_E_NEVER of resume (what was there once fits). */
static const unsigned possible[OP_N_FN] = {
    [OP_ns_open] = OK_BIT | ARG | LIMIT,
    [OP_ns_close] = OK_BIT | ARG | STALE | STATE | LATER,
    [OP_open] = OK_BIT | STALE | LIMIT | LATER,
    [OP_match] = OK_BIT | ARG | STALE | STATE | LIMIT | ROOM,
    [OP_reserve] = OK_BIT | ARG | STALE | STATE | LIMIT | ROOM,
    [OP_commit] = OK_BIT | ARG | STALE | STATE,
    [OP_fork] = OK_BIT | ARG | STALE | STATE | LIMIT | LATER,
    [OP_truncate] = OK_BIT | ARG | STALE | STATE | RANGE,
    [OP_close] = OK_BIT | STALE | BIT(PKV_E_BUSY),
    [OP_row] = OK_BIT | ARG | STALE | STATE,
    [OP_slots] = OK_BIT | ARG | STALE | STATE,
    [OP_info] = OK_BIT | STALE,
    [OP_probe] = OK_BIT | ARG | STALE,
    [OP_need] = OK_BIT | ARG | STALE | STATE | LIMIT | ROOM,
    [OP_step_begin] = OK_BIT | ARG | LIMIT,
    [OP_step_retire] = OK_BIT | STALE,
    [OP_step_abort] = OK_BIT | STALE,
    [OP_retain] = OK_BIT | ARG | STALE | STATE,
    [OP_decay] = OK_BIT | ARG,
    [OP_evict] = OK_BIT | ARG,
    [OP_new_epoch] = OK_BIT | ARG,
    [OP_snapshot] = OK_BIT | ARG | STALE | STATE | LIMIT | NO_ROOM | BIT(PKV_E_ABI),
    [OP_hold_open] = OK_BIT | ARG | STALE | STATE | RANGE | LIMIT,
    [OP_hold_post] = OK_BIT,
    [OP_poll] = OK_BIT | ARG,
    [OP_hold_reclaim] = OK_BIT | STALE | STATE,
    [OP_hold_blocks] = OK_BIT | ARG | STALE | LIMIT,
    [OP_suspend] = OK_BIT | ARG | STALE | STATE | LIMIT | NO_ROOM,
    [OP_resume] = OK_BIT | ARG | STALE | STATE | LIMIT | NO_ROOM,
    [OP_blocks_take] = OK_BIT | ARG | LIMIT | ROOM | OTHER | BIT(PKV_E_ABI),
    [OP_blocks_ref] = OK_BIT | ARG | OTHER,
    [OP_blocks_unref] = OK_BIT | ARG | OTHER,
    [OP_block_publish] = OK_BIT | ARG | STALE | STATE | LIMIT | OTHER | BIT(PKV_E_IDENTITY),
    [OP_blocks_lookup] = OK_BIT | ARG | STALE | OTHER,
    [OP_table_delta] = OK_BIT | ARG | LIMIT | BIT(PKV_E_ABI),
    [OP_table_resync] = OK_BIT | ARG,
    [OP_seqs_common] = OK_BIT | ARG | STALE | STATE,
    [OP_view_slots] = OK_BIT | ARG | STALE | STATE | BIT(PKV_E_ABI),
    [OP_view_row] = OK_BIT | ARG | STALE | STATE | LIMIT | BIT(PKV_E_ABI),
};
static const char *const fn_name[OP_N_FN] = {
#define NAME(name, feature) #name,
    OP_FN_LIST(NAME)
#undef NAME
};
static const char *const inside_name[OR_N_COVER] = {
#define NAME(name) #name,
    OR_COVER_LIST(NAME)
#undef NAME
};

enum { N_FEATURES = 6 };
static const char *const feature_name[N_FEATURES] = { "steps", "groups", "policy",
                                                      "holds", "raw",    "tables" };

enum { USUAL_SEEDS = 1400, USUAL_OPS = 2000 };

/* Print what was reached; true: everything. `one_hash`: the probe bound is in force. *strange: a
 * status that no contract names. */
static bool print_cover(const op_cover *c, bool one_hash, bool *strange)
{
    bool all = true;
    *strange = false;
    for (int f = 0; f < OP_N_FN; f++) {
        printf("  %-13s", fn_name[f]);
        for (int s = 0; s < 18; s++) {
            bool wanted = possible[f] & BIT(s);
            if (!c->status[f][s] && !wanted) continue;
            printf(" %s %llu%s", pkv_status_name((pkv_status)s),
                   (unsigned long long)c->status[f][s],
                   !wanted            ? " <-- WRONG"
                   : !c->status[f][s] ? " <-- MISSING"
                                      : "");
            *strange = *strange || !wanted;
            all = all && c->status[f][s];
        }
        printf("\n");
    }
    for (int i = 0; i < 6; i++) {
        printf("  stop reason %d: %llu%s\n", i, (unsigned long long)c->stop[i],
               c->stop[i] ? "" : " <-- MISSING");
        all = all && c->stop[i];
    }
    for (int i = 0; i < OR_N_COVER; i++) {
        const bool wanted = one_hash || i != OR_PREPARED_NO_ROOM; /* else the index has room */
        printf("  %-26s %llu%s\n", inside_name[i], (unsigned long long)c->inside[i],
               c->inside[i] || !wanted ? "" : " <-- MISSING");
        all = all && (c->inside[i] || !wanted);
    }
    return all;
}

/* Leave out as much as possible while the list still fails. */
static int shrink(op_run *run, op *ops, int n)
{
    op *try = malloc((size_t)n * sizeof *try);
    if (!try) return n;
    n = run->failed_at + 1;
    for (int chunk = n / 2; chunk > 0;) {
        bool any = false;
        for (int at = 0; at + chunk <= n;) {
            memcpy(try, ops, (size_t)at * sizeof *ops);
            memcpy(try + at, ops + at + chunk, (size_t)(n - at - chunk) * sizeof *ops);
            if (op_run_list(run, try, n - chunk)) {
                at += chunk;
                continue;
            }
            n = run->failed_at + 1;
            memcpy(ops, try, (size_t)n * sizeof *ops);
            any = true;
        }
        if (!any || chunk > 1) chunk = any && chunk == 1 ? 1 : chunk / 2;
    }
    free(try);
    return n;
}

static void report(op_run run, op *ops, int n_ops)
{
    printf("FAILED seed %llu, operation %d of %d: %s\n", (unsigned long long)run.seed,
           run.failed_at, n_ops, run.why);
    run.cover = NULL;
    run.trace = NULL;
    int n = shrink(&run, ops, n_ops);
    run.trace = stdout;
    printf("shrunk to %d operations:\n", n);
    if (op_run_list(&run, ops, n)) printf("does not fail again\n");
    printf(
        "  => %s\nrepeat: random_ops --seeds 1 --seed %llu --ops %d --nodes %d --quick --features ",
        run.why, (unsigned long long)run.seed, n_ops, run.most_nodes);
    for (int i = 0, n_named = 0; i < N_FEATURES; i++)
        if (run.features & 1u << i) printf(n_named++ ? ",%s" : "%s", feature_name[i]);
    printf(run.features ? "\n" : "none\n");
    fflush(stdout);
}

static bool run_seed(op_run run, op *ops, int n_ops, uint64_t *digests)
{
    const uint64_t seed = run.seed;
    uint64_t rng = seed * 0x2545f4914f6cdd1du + 1;
    for (int i = 0; i < n_ops; i++)
        ops[i] =
            op_random(&rng, (int)(seed % OP_N_STYLES), op_features_of_seed(seed, run.features));
    if (!op_run_list(&run, ops, n_ops)) {
        report(run, ops, n_ops);
        return false;
    }
    *digests = (*digests ^ run.digests) * 0x100000001b3u;
    if (seed % 8 || run.alone) return true;
    op_run other = run;
    other.secret = 0xa7;
    other.cover = NULL;
    other.trace = NULL;
    if (op_run_list(&other, ops, n_ops) && other.digests == run.digests) return true;
    printf("FAILED seed %llu: digests depend on hash_secret\n", (unsigned long long)seed);
    return false;
}

struct settings {
    uint64_t seed, seeds;
    int n_ops;
    bool quick;
};

static void usage(void)
{
    printf(
        "Usage: random_ops [options]\n"
        "Random operations on the block manager and on an oracle, compared after each one.\n"
        "  --seeds N   N configurations, from --seed on (%d)\n"
        "  --seed S    the first of them (the environment's PKV_SEED, else 1)\n"
        "  --ops N     operations for each of them (%d)\n"
        "  --nodes N   the build has one hash value and the probe bound N: no more nodes fit the "
        "index\n"
        "  --features LIST  use these only, of steps,groups,policy,holds,raw,tables; or none\n"
        "  --alone     the oracle only, against its simulated bytes\n"
        "  --quick     do not demand that every status and transition is reached (so with "
        "--features)\n"
        "  --trace     print every call of the first seed\n"
        "  --help      this text\n"
        "With fewer operations in all than by default, what was not reached is printed, but no\n"
        "failure. The last line is `N passed, N failed, N skipped`: one per seed, one for what "
        "was\nreached. Exit: 0 all right, 1 a failure, 2 unusable arguments.\n",
        USUAL_SEEDS, USUAL_OPS);
}

/* A whole number from low to high; anything else ends the program. */
static uint64_t number(const char *name, const char *text, uint64_t low, uint64_t high)
{
    char *end;
    errno = 0;
    const unsigned long long n = strtoull(text, &end, 10);
    if (*text >= '0' && *text <= '9' && *end == '\0' && errno == 0 && n >= low && n <= high)
        return n;
    fprintf(stderr, "random_ops: %s takes a whole number from %llu to %llu, not '%s'\n", name,
            (unsigned long long)low, (unsigned long long)high, text);
    exit(2);
}

/* "steps,groups" -> bits. */
static unsigned features_of(const char *text)
{
    unsigned bits = 0;
    if (strcmp(text, "none") == 0) return 0;
    for (const char *at = text;;) {
        const size_t n = strcspn(at, ",");
        int i = 0;
        while (i < N_FEATURES && (strlen(feature_name[i]) != n || strncmp(feature_name[i], at, n)))
            i++;
        if (i == N_FEATURES) {
            fprintf(stderr, "random_ops: --features knows no '%.*s'; see --help\n", (int)n, at);
            exit(2);
        }
        bits |= 1u << i;
        if (!at[n]) return bits;
        at += n + 1;
    }
}

static void parse(int argc, char **argv, struct settings *o, op_run *run)
{
    static const struct option names[] = {
        { "seeds", 1, NULL, 'n' }, { "seed", 1, NULL, 's' },  { "ops", 1, NULL, 'o' },
        { "nodes", 1, NULL, 'm' }, { "alone", 0, NULL, 'a' }, { "quick", 0, NULL, 'q' },
        { "trace", 0, NULL, 't' }, { "help", 0, NULL, 'h' },  { "features", 1, NULL, 'f' },
        { NULL, 0, NULL, 0 },
    };
    const uint64_t most_seeds = 1000000000, last_seed = UINT64_MAX - most_seeds;
    const char *given = getenv("PKV_SEED");
    *o = (struct settings){ given ? number("PKV_SEED", given, 0, last_seed) : 1, USUAL_SEEDS,
                            USUAL_OPS, false };
    for (int c; (c = getopt_long(argc, argv, "", names, NULL)) != -1;) {
        if (c == 'n') o->seeds = number("--seeds", optarg, 1, most_seeds);
        if (c == 's') o->seed = number("--seed", optarg, 0, last_seed);
        if (c == 'o') o->n_ops = (int)number("--ops", optarg, 1, 100000000);
        if (c == 'm') run->most_nodes = (int)number("--nodes", optarg, 0, INT32_MAX);
        if (c == 'f') run->features = features_of(optarg);
        if (c == 'a') run->alone = true;
        if (c == 'q') o->quick = true;
        if (c == 't') run->trace = stdout;
        if (c == 'h') {
            usage();
            exit(0);
        }
        if (c == '?') {
            fputs("random_ops: --help lists the options\n", stderr);
            exit(2);
        }
    }
    o->quick = o->quick || run->features != OP_ALL;
    if (optind == argc) return;
    fprintf(stderr, "random_ops: '%s' is not an option; --help lists them\n", argv[optind]);
    exit(2);
}

/* What was reached, and whether that will do. */
static bool judge_cover(const struct settings *o, const op_cover *cover, bool one_hash)
{
    bool strange;
    const bool all = print_cover(cover, one_hash, &strange);
    const bool few = o->seeds * (uint64_t)o->n_ops < (uint64_t)USUAL_SEEDS * USUAL_OPS;
    if (strange) printf("FAILED: a status that the contract of the function does not name\n");
    if (!all && few) printf("not everything was reached, which so few operations need not\n");
    else if (!all && !o->quick) printf("FAILED: something was not reached\n");
    return !strange && (all || few || o->quick);
}

int main(int argc, char **argv)
{
    struct settings o;
    int passed = 0, failed = 0;
    op_run run = { .secret = 1, .features = OP_ALL };
    uint64_t digests = 0; /* equal on every platform and compiler for the same seeds */
    parse(argc, argv, &o, &run);
    op *ops = malloc((size_t)o.n_ops * sizeof *ops);
    op_cover *cover = run.cover = calloc(1, sizeof *cover);
    if (!ops || !cover) {
        fprintf(stderr, "random_ops: out of memory for %d operations\n", o.n_ops);
        free(ops);
        free(cover);
        return 2;
    }
    printf("seeds %llu .. %llu, %d operations each\n", (unsigned long long)o.seed,
           (unsigned long long)(o.seed + o.seeds - 1), o.n_ops);
    for (run.seed = o.seed; run.seed < o.seed + o.seeds && failed < 5; run.seed++, run.trace = NULL)
        *(run_seed(run, ops, o.n_ops, &digests) ? &passed : &failed) += 1;
    printf("all digests folded: %016llx\n%llu operations; reached:\n", (unsigned long long)digests,
           (unsigned long long)cover->ops);
    *(judge_cover(&o, cover, run.most_nodes > 0) ? &passed : &failed) += 1;
    free(ops);
    free(cover);
    printf("%d passed, %d failed, 0 skipped\n", passed, failed);
    return failed ? 1 : 0;
}
