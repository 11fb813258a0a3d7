/* Random operations on the manager and on the oracle, compared after each one (op_driver.h).
 *
 *   random_ops [--seeds N] [--seed S] [--ops N] [--nodes N] [--alone] [--trace]
 *
 * --seeds N   N configurations, from --seed on (default: the environment's PKV_SEED, else 1)
 * --ops N     operations for each of them
 * --alone     the oracle only, against its simulated bytes
 * --trace     print every call of the first seed
 * --nodes N   the build has one hash value and the probe bound N: no more nodes fit the index
 * --quick     do not demand that every status and transition is reached
 * A failing list is shrunk and printed. Every eighth seed runs again with another hash secret and
 * must give the same digests. Last line: `N passed, N failed, N skipped`, one per seed, plus one
 * for coverage. */
#include "op_driver.h"

#include <stdlib.h>
#include <string.h>

#define BIT(status) (1u << (status))
#define OK_BIT BIT(PKV_OK)
#define ARG BIT(PKV_E_INVALID_ARG)
#define STALE BIT(PKV_E_STALE)
#define STATE BIT(PKV_E_STATE)
#define LIMIT BIT(PKV_E_LIMIT)
#define ROOM (BIT(PKV_E_NEVER) | BIT(PKV_E_NO_BLOCKS))

/* The statuses that the contract of each function names. */
static const unsigned possible[OP_N_FN] = {
    [OP_ns_open] = OK_BIT | ARG | LIMIT,
    [OP_ns_close] = OK_BIT | ARG | STALE | STATE,
    [OP_open] = OK_BIT | STALE | LIMIT,
    [OP_match] = OK_BIT | ARG | STALE | STATE | LIMIT | ROOM,
    [OP_reserve] = OK_BIT | ARG | STALE | LIMIT | ROOM,
    [OP_commit] = OK_BIT | ARG | STALE | STATE,
    [OP_fork] = OK_BIT | ARG | STALE | LIMIT,
    [OP_truncate] = OK_BIT | ARG | STALE,
    [OP_close] = OK_BIT | STALE,
    [OP_row] = OK_BIT | ARG | STALE,
    [OP_slots] = OK_BIT | ARG | STALE,
    [OP_info] = OK_BIT | STALE,
    [OP_probe] = OK_BIT | ARG | STALE,
    [OP_need] = OK_BIT | ARG | STALE | LIMIT | ROOM,
};
static const char *const fn_name[OP_N_FN] = {
#define NAME(name) #name,
    OP_FN_LIST(NAME)
#undef NAME
};
static const char *const inside_name[OR_N_COVER] = {
#define NAME(name) #name,
    OR_COVER_LIST(NAME)
#undef NAME
};

/* Print what was reached; true: everything. */
static bool print_cover(const op_cover *c)
{
    bool all = true;
    for (int f = 0; f < OP_N_FN; f++) {
        printf("  %-9s", fn_name[f]);
        for (int s = 0; s < 18; s++) {
            bool wanted = possible[f] & BIT(s);
            if (!c->status[f][s] && !wanted) continue;
            printf(" %s %llu%s", pkv_status_name((pkv_status)s),
                   (unsigned long long)c->status[f][s],
                   wanted == (c->status[f][s] > 0) ? "" : " <-- WRONG");
            all = all && wanted == (c->status[f][s] > 0);
        }
        printf("\n");
    }
    for (int i = 0; i < 4; i++) {
        printf("  stop reason %d: %llu%s\n", i, (unsigned long long)c->stop[i],
               c->stop[i] ? "" : " <-- MISSING");
        all = all && c->stop[i];
    }
    for (int i = 0; i < OR_N_COVER; i++) {
        printf("  %-26s %llu%s\n", inside_name[i], (unsigned long long)c->inside[i],
               c->inside[i] ? "" : " <-- MISSING");
        all = all && c->inside[i];
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
    printf("  => %s\nrepeat: random_ops --seeds 1 --seed %llu --ops %d --nodes %d --quick\n",
           run.why, (unsigned long long)run.seed, n_ops, run.most_nodes);
    fflush(stdout);
}

static bool run_seed(op_run run, op *ops, int n_ops, uint64_t *digests)
{
    const uint64_t seed = run.seed;
    uint64_t rng = seed * 0x2545f4914f6cdd1du + 1;
    for (int i = 0; i < n_ops; i++) ops[i] = op_random(&rng, (int)(seed % OP_N_STYLES));
    if (!op_run_list(&run, ops, n_ops)) {
        report(run, ops, n_ops);
        return false;
    }
    *digests = (*digests ^ run.digests) * 0x100000001b3u;
    if (seed % 8 || run.alone) return true;
    op_run other = { .seed = seed, .secret = 0xa7, .most_nodes = run.most_nodes };
    if (op_run_list(&other, ops, n_ops) && other.digests == run.digests) return true;
    printf("FAILED seed %llu: digests depend on hash_secret\n", (unsigned long long)seed);
    return false;
}

int main(int argc, char **argv)
{
    const char *given = getenv("PKV_SEED");
    uint64_t seed = given ? strtoull(given, NULL, 10) : 1, seeds = 700;
    int n_ops = 2000, passed = 0, failed = 0;
    bool quick = false;
    op_run run = { .secret = 1 };
    uint64_t digests = 0; /* equal on every platform and compiler for the same seeds */
    for (int i = 1; i < argc; i++) {
        bool more = i + 1 < argc;
        if (!strcmp(argv[i], "--seeds") && more) seeds = strtoull(argv[++i], NULL, 10);
        else if (!strcmp(argv[i], "--seed") && more) seed = strtoull(argv[++i], NULL, 10);
        else if (!strcmp(argv[i], "--ops") && more) n_ops = atoi(argv[++i]);
        else if (!strcmp(argv[i], "--nodes") && more) run.most_nodes = atoi(argv[++i]);
        else if (!strcmp(argv[i], "--alone")) run.alone = true;
        else if (!strcmp(argv[i], "--quick")) quick = true;
        else if (!strcmp(argv[i], "--trace")) run.trace = stdout;
        else n_ops = 0;
    }
    op *ops = n_ops > 0 ? malloc((size_t)n_ops * sizeof *ops) : NULL;
    op_cover *cover = run.cover = calloc(1, sizeof *cover);
    if (!ops || !cover) {
        fprintf(stderr, "usage: random_ops [--seeds N] [--seed S] [--ops N] [--nodes N] [--alone] "
                        "[--quick] [--trace]\n");
        return 2;
    }
    printf("seeds %llu .. %llu, %d operations each\n", (unsigned long long)seed,
           (unsigned long long)(seed + seeds - 1), n_ops);
    for (run.seed = seed; run.seed < seed + seeds && failed < 5; run.seed++, run.trace = NULL)
        *(run_seed(run, ops, n_ops, &digests) ? &passed : &failed) += 1;
    printf("all digests folded: %016llx\n%llu operations; reached:\n", (unsigned long long)digests,
           (unsigned long long)cover->ops);
    bool all = print_cover(cover);
    if (!quick && !all) printf("FAILED: something was not reached, or should not have been\n");
    if (!quick) *(all ? &passed : &failed) += 1;
    free(ops);
    free(cover);
    printf("%d passed, %d failed, 0 skipped\n", passed, failed);
    return failed ? 1 : 0;
}
