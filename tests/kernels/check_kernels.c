/* check_kernels: every operation, at every level, on cruel shapes, values and memory.
 * See --help. Exit: 0 all right, 1 a failure, 2 unusable arguments, 77 the level is not here. */
#include "check_kernels.h"
#include "check_device.h"
#include "coverage.h"
#include "hostile_memory.h"
#include "kernel_bench.h"
#include "test_levels.h"

#include <errno.h>
#include <getopt.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>

static const struct check_case *const all_cases[] = {
    attn_shape_cases,  attn_exact_cases,   attn_bits_cases, attn_table_cases,   attn_sparse_cases,
    attn_scale_cases,  attn_code_cases,    attn_mask_cases, attn_cascade_cases, attn_mla_cases,
    attn_thread_cases, attn_verdict_cases, kv_write_cases,  rope_fill_cases,    kv_gather_cases,
    move_cases,        copy_shape_cases,   merge_cases,
};

struct tally {
    const char *op;
    pkv_isa isa;
    pkv_dtype dtype;
    enum check_types typed;
    long passed, failed, skipped;
    double ratio;
};

struct options {
    const char *case_name;
    const char *type; /* of cases with a type; NULL: all */
    int64_t seed, first_seed;
    bool quick, brief, list, bench, accuracy, verbose;
    int scale; /* times the seeds of each case */
    const char *dump;
    struct bench_options timing;
};

static struct tally tallies[512];
static int n_tallies;
static sigjmp_buf crash_return;
enum { STOPPED = 1 << 16 }; /* no signal's number */
static const struct check *at_death;

static void case_name(char *buf, size_t bytes, const struct check_case *k, pkv_dtype dtype)
{
    snprintf(buf, bytes, k->typed ? "%s.%s.%s" : "%s.%s", k->op, k->family, pkv_dtype_name(dtype));
}

void check_fail(struct check *c, const char *fmt, ...)
{
    char name[96];
    va_list args;
    if (c->failed) return; /* one run, one report */
    c->failed = true;
    case_name(name, sizeof(name), c->current, c->dtype);
    printf("FAILED  %s  level %s  case %s  seed %lld\n        shape: %s\n        ", c->current->op,
           pkv_isa_name(c->isa), name, (long long)c->seed, c->shape[0] ? c->shape : "-");
    va_start(args, fmt);
    vprintf(fmt, args);
    va_end(args);
    if (c->log[0]) printf("\n        log: %s", c->log);
    printf("\n        repeat: PKV_ISA=%s %s --case %s --seed %lld\n", pkv_isa_name(c->isa),
           c->program, name, (long long)c->seed);
    fflush(stdout);
}

void check_skip(struct check *c, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    vsnprintf(c->skip, sizeof(c->skip), fmt, args);
    va_end(args);
}

_Noreturn void check_stop(struct check *c, const char *reason)
{
    check_skip(c, "%s", reason);
    siglongjmp(crash_return, STOPPED);
}

static struct tally *tally_of(const struct check *c)
{
    for (int i = 0; i < n_tallies; i++)
        if (strcmp(tallies[i].op, c->current->op) == 0 && tallies[i].isa == c->isa &&
            tallies[i].dtype == c->dtype && !tallies[i].typed == !c->current->typed)
            return &tallies[i];
    struct tally *t = &tallies[n_tallies++];
    *t = (struct tally){ c->current->op, c->isa, c->dtype, c->current->typed, 0, 0, 0, 0 };
    return t;
}

static void on_crash(int sig)
{
    siglongjmp(crash_return, sig);
}

/* A sanitizer's own report goes first; it ends the program. */
#pragma weak __sanitizer_set_death_callback
void __sanitizer_set_death_callback(void (*callback)(void));

static void on_death(void)
{
    char name[96];
    case_name(name, sizeof(name), at_death->current, at_death->dtype);
    printf("FAILED  in case %s\n        repeat: PKV_ISA=%s %s --case %s --seed %lld\n", name,
           pkv_isa_name(at_death->isa), at_death->program, name, (long long)at_death->seed);
    fflush(stdout);
}

static void catch_crashes(const struct check *c)
{
    at_death = c;
    if (__sanitizer_set_death_callback) {
        __sanitizer_set_death_callback(on_death);
        return;
    }
    static unsigned char stack[64 * 1024];
    const int signals[] = { SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGPROF };
    const stack_t alt = { .ss_sp = stack, .ss_size = sizeof(stack) };
    struct sigaction act = { .sa_handler = on_crash, .sa_flags = SA_ONSTACK | SA_NODEFER };
    sigaltstack(&alt, NULL);
    for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
        sigaction(signals[i], &act, NULL);
}

/* Seeds of different cases must not repeat each other: the name takes part (FNV-1a). */
static uint64_t mix(const char *name, int64_t seed)
{
    uint64_t h = UINT64_C(0xcbf29ce484222325);
    for (; *name; name++) h = (h ^ (unsigned char)*name) * UINT64_C(0x100000001b3);
    return h ^ (uint64_t)seed * UINT64_C(0xd1342543de82ef95);
}

/* A run that takes this much of a CPU will not end: the timer's signal counts as a crash. */
static void limit_cpu(int seconds)
{
    const struct itimerval limit = { { 0, 0 }, { seconds, 0 } };
    setitimer(ITIMER_PROF, &limit, NULL);
}

static void run_once(struct check *c, int64_t seed)
{
    char name[96];
    case_name(name, sizeof(name), c->current, c->dtype);
    c->seed = seed;
    c->rng.state = mix(name, seed);
    c->failed = false;
    c->device_rng.state = ~c->rng.state;
    c->shape[0] = c->skip[0] = c->log[0] = '\0';
    c->ratio = 0;
    pkv_backend *const be = c->be;
    const int sig = sigsetjmp(crash_return, 1);
    limit_cpu(sig == 0 ? 120 : 0); /* under emulation, too */
    if (sig == 0) {
        check_schedule(c);
        c->current->run(c);
    } else {
        check_device_reset();
        if (sig != STOPPED) check_fail(c, "signal %d (%s)", sig, strsignal(sig));
    }
    limit_cpu(0);
    if (sig != 0) hostile_release_all();
    c->be = be;
    struct tally *t = tally_of(c);
    if (c->failed) t->failed++;
    else if (c->skip[0]) t->skipped++;
    else t->passed++;
    if (c->ratio > t->ratio) t->ratio = c->ratio;
    if (c->verbose)
        printf("%s seed %lld: %s%s  %s\n", name, (long long)seed, c->failed ? "FAILED" : "ok",
               c->skip[0] ? " (skipped)" : "", c->shape);
}

/* An emulated device does about 10^8 simple instructions a second: quick runs have fewer there. */
static int64_t n_runs(const struct check *c, const struct options *o)
{
    if (o->brief) return o->scale;
    const int n = o->quick ? c->current->n_quick : c->current->n_seeds;
    const int share = o->quick && check_on_device(c) ? 4 : 1;
    return (int64_t)((n + share - 1) / share) * o->scale;
}

static void run_case(struct check *c, const struct options *o)
{
    const int64_t first = o->seed >= 0 ? o->seed : o->first_seed;
    const int64_t n = o->seed >= 0 ? 1 : n_runs(c, o);
    long n_skipped = 0;
    char name[96], reason[sizeof(c->skip)] = "";
    for (int64_t i = 0; i < n; i++) {
        run_once(c, first + i);
        if (!c->skip[0] || c->failed) continue;
        if (n_skipped++ == 0) snprintf(reason, sizeof(reason), "%s", c->skip);
    }
    case_name(name, sizeof(name), c->current, c->dtype);
    if (n_skipped > 0)
        printf("skipped %ld of %lld runs of %s: %s\n", n_skipped, (long long)n, name, reason);
}

static bool wanted(const struct options *o, const char *name)
{
    const size_t n = o->case_name ? strlen(o->case_name) : 0;
    return n == 0 || (strncmp(name, o->case_name, n) == 0 && (name[n] == '\0' || name[n] == '.'));
}

static int first_type(enum check_types typed)
{
    return typed == TYPED_CODES ? PKV_E4M3 : PKV_F32;
}

static int last_type(enum check_types typed)
{
    if (typed == UNTYPED) return PKV_F32;
    return typed == TYPED_FLOATS ? PKV_BF16 : PKV_U4;
}

/* Calls `each` for every case that is wanted; returns how many. */
static int for_cases(const struct options *o, struct check *c,
                     void (*each)(struct check *, const struct options *))
{
    int n = 0;
    for (size_t list = 0; list < sizeof(all_cases) / sizeof(all_cases[0]); list++)
        for (const struct check_case *k = all_cases[list]; k->op; k++)
            for (int t = first_type(k->typed); t <= last_type(k->typed); t++) {
                char name[96];
                case_name(name, sizeof(name), k, (pkv_dtype)t);
                if (!wanted(o, name)) continue;
                if (k->typed && o->type && strcmp(o->type, pkv_dtype_name((pkv_dtype)t)) != 0)
                    continue;
                c->current = k;
                c->dtype = (pkv_dtype)t;
                each(c, o);
                n++;
            }
    return n;
}

static void list_case(struct check *c, const struct options *o)
{
    char name[96];
    case_name(name, sizeof(name), c->current, c->dtype);
    printf("%-36s %5d seeds\n", name, o->quick ? c->current->n_quick : c->current->n_seeds);
}

/* Only to count: whether there is such a case is known before anything runs or is printed. */
static void pass_case(struct check *c, const struct options *o)
{
    (void)c, (void)o;
}

static void log_line(void *ctx, pkv_log_level level, const char *text)
{
    struct check *c = ctx;
    (void)level;
    snprintf(c->log, sizeof(c->log), "%s", text);
    if (c->verbose) printf("  log: %s\n", text);
}

/* All cases at one level. Asking the backend for a level that is not here must fail; getting one
 * silently would be the worst failure of all. */
static int run_level(struct check *c, const struct options *o, pkv_isa isa)
{
    pkv_cpu_config cfg = PKV_CPU_CONFIG_INIT;
    struct timespec t0, t1;
    cfg.max_isa = isa;
    cfg.log.fn = log_line;
    cfg.log.ctx = c;
    c->isa = isa;
    pkv_cuda_config cuda_cfg = PKV_CUDA_CONFIG_INIT;
    cuda_cfg.log = cfg.log;
    const pkv_status status = isa == PKV_ISA_CUDA ? pkv_backend_create_cuda(&cuda_cfg, &c->be)
                                                  : pkv_backend_create_cpu(&cfg, &c->be);
    if (status == PKV_E_UNSUPPORTED && isa == PKV_ISA_CUDA) {
        printf("SKIPPED level %s: %s\n", pkv_isa_name(isa), c->log);
        return 77;
    }
    if (status == PKV_E_UNSUPPORTED && isa > PKV_ISA_SCALAR) {
        const char *reason = "?";
        const bool lacks = pkv_isa_check(isa, &reason) == PKV_E_UNSUPPORTED;
        printf("%s level %s: %s (best: %s)\n", lacks ? "SKIPPED" : "FAILED  refused",
               pkv_isa_name(isa), reason, pkv_isa_name(pkv_isa_detect()));
        return lacks ? 77 : 1;
    }
    if (status != PKV_OK) {
        printf("FAILED  no backend at level %s: %s\n", pkv_isa_name(isa), pkv_status_name(status));
        return 1;
    }
    if (check_on_device(c)) attn_cover_device(c);
    clock_gettime(CLOCK_MONOTONIC, &t0);
    c->n_level_units = 0;
    const int n_run = for_cases(o, c, run_case);
    clock_gettime(CLOCK_MONOTONIC, &t1);
    printf("level %s: %d cases in %.1f s; %ld sequences through %s kernels\n", pkv_isa_name(isa),
           n_run, (double)(t1.tv_sec - t0.tv_sec) + 1e-9 * (double)(t1.tv_nsec - t0.tv_nsec),
           c->n_level_units, pkv_isa_name(isa));
    pkv_backend_destroy(c->be);
    return 0;
}

/* A level that is not here counts as one skip. */
static int summary(const struct options *o, long skipped)
{
    long passed = 0, failed = 0;
    printf("%-14s %-10s %-5s %8s %8s %8s   %s\n", "operation", "level", "dtype", "passed", "failed",
           "skipped", "observed / bound");
    for (int i = 0; i < n_tallies; i++) {
        const struct tally *t = &tallies[i];
        passed += t->passed;
        failed += t->failed;
        skipped += t->skipped;
        printf("%-14s %-10s %-5s %8ld %8ld %8ld   ", t->op, pkv_isa_name(t->isa),
               t->typed ? pkv_dtype_name(t->dtype) : "-", t->passed, t->failed, t->skipped);
        if (t->ratio == 0) printf("exact\n");
        else
            printf("%.3f%s\n", t->ratio,
                   t->ratio < 0.01 && o->seed < 0 && !o->case_name ? "  TOO LOOSE" : "");
    }
    const bool full = !o->quick && !o->case_name && o->seed < 0;
    failed += cover_print(full);
    printf("%ld passed, %ld failed, %ld skipped\n", passed, failed, skipped);
    return failed > 0;
}

static void usage(FILE *f, const char *program)
{
    fprintf(f,
            "Usage: %s [options]\n"
            "Tests every kernel against a double-precision reference, on cruel shapes and memory.\n"
            "  --case NAME     only this case, or all that start with NAME. (see --list)\n"
            "  --type NAME     of cases for each type only those of this one\n"
            "  --seed S        only this run of each case\n"
            "  --first-seed S  start at seed S instead of 0\n"
            "  --times N       N times as many seeds\n"
            "  --quick         fewer seeds\n"
            "  --brief         one seed\n"
            "  --bench         time operations, per level, against loops that only read or copy\n"
            "  --op NAME       of --bench: only this one\n"
            "  --threads N     of --bench: threads of the backends (default: PKV_THREADS, or 1)\n"
            "  --mib N         of --bench: MiB of keys and values that decode reads (768)\n"
            "  --accuracy      what store types and scales cost in the output of attention\n"
            "  --dump FILE     of --accuracy: also on a model's K, V, Q (tests/oracle/dump_kv.py)\n"
            "  --list          the cases and their number of seeds\n"
            "  --verbose       a line per run, and what the library logs\n"
            "Environment: PKV_ISA=LEVEL (scalar, avx2, avx512, avx512bf16, amx, neon, cuda) runs "
            "exactly that\n"
            "level; unset or best, every level that is here. The last line is `N passed, N failed, "
            "N skipped`.\n"
            "Exit: 0 all right, 1 a failure, 2 unusable arguments, 77 the level is not here.\n",
            program);
}

static bool parse_number(const char *text, int64_t *out)
{
    char *end;
    errno = 0;
    const long long n = strtoll(text, &end, 10);
    if (*text == '\0' || *end != '\0' || errno != 0 || n < 0) return false;
    *out = n;
    return true;
}

static bool parse_count(const char *text, int64_t most, int64_t *out)
{
    return parse_number(text, out) && *out >= 1 && *out <= most;
}

/* Options of --bench and --accuracy. */
static bool parse_measure(int opt, struct options *o)
{
    int64_t threads = o->timing.threads;
    bool ok = true;
    if (opt == 'b') o->bench = true;
    if (opt == 'o') o->timing.op = optarg;
    if (opt == 'n') ok = parse_count(optarg, 256, &threads);
    if (opt == 'm') ok = parse_count(optarg, 1 << 20, &o->timing.mib);
    if (opt == 'a') o->accuracy = true;
    if (opt == 'd') o->dump = optarg;
    o->timing.threads = (int32_t)threads;
    return ok;
}

static int parse(int argc, char **argv, struct options *o)
{
    static const struct option names[] = {
        { "case", 1, NULL, 'c' },       { "type", 1, NULL, 'y' },    { "seed", 1, NULL, 's' },
        { "first-seed", 1, NULL, 'f' }, { "times", 1, NULL, 't' },   { "quick", 0, NULL, 'q' },
        { "brief", 0, NULL, '1' },      { "bench", 0, NULL, 'b' },   { "op", 1, NULL, 'o' },
        { "mib", 1, NULL, 'm' },        { "threads", 1, NULL, 'n' }, { "accuracy", 0, NULL, 'a' },
        { "dump", 1, NULL, 'd' },       { "list", 0, NULL, 'l' },    { "help", 0, NULL, 'h' },
        { "verbose", 0, NULL, 'v' },    { NULL, 0, NULL, 0 },
    };
    int64_t times = 1;
    for (int opt; (opt = getopt_long(argc, argv, "", names, NULL)) != -1;) {
        bool ok = parse_measure(opt, o);
        if (opt == 'c') o->case_name = optarg;
        if (opt == 'y') o->type = optarg;
        if (opt == 's') ok = parse_number(optarg, &o->seed);
        if (opt == 'f') ok = parse_number(optarg, &o->first_seed) && o->first_seed <= INT64_MAX / 2;
        if (opt == 't') ok = parse_count(optarg, 1000000, &times);
        if (opt == 'q') o->quick = true;
        if (opt == '1') o->quick = o->brief = true;
        if (opt == 'l') o->list = true;
        if (opt == 'v') o->verbose = true;
        if (opt == 'h') {
            usage(stdout, argv[0]);
            return 0;
        }
        if (opt == '?' || !ok) {
            if (!ok) fprintf(stderr, "%s: not a usable number: %s\n", argv[0], optarg);
            fprintf(stderr, "%s --help says how\n", argv[0]);
            return 2;
        }
    }
    o->scale = (int)times;
    if (optind == argc) return -1;
    fprintf(stderr, "%s: what is '%s'? --help says how\n", argv[0], argv[optind]);
    return 2;
}

static int run_levels(struct check *c, const struct options *o, pkv_isa asked)
{
    int worst = 0, skipped_levels = 0;
    for (int i = 0; i <= TEST_N_LEVELS; i++) {
        const pkv_isa isa = i < TEST_N_LEVELS ? test_levels[i] : PKV_ISA_CUDA;
        if (asked != PKV_ISA_BEST && isa != asked) continue;
        const int rc = run_level(c, o, isa);
        skipped_levels += rc == 77;
        if (rc == 1 || (rc == 77 && asked != PKV_ISA_BEST)) worst = rc;
    }
    const int failed = summary(o, skipped_levels);
    return failed ? 1 : worst;
}

int main(int argc, char **argv)
{
    struct options o = { .seed = -1, .scale = 1, .timing = { .threads = 1, .mib = 768 } };
    struct check c = { .program = argv[0] };
    pkv_isa asked = PKV_ISA_BEST;
    const char *env = getenv("PKV_ISA"), *threads = getenv("PKV_THREADS");
    int64_t n_threads = 1;
    if (threads && *threads && !parse_count(threads, 256, &n_threads)) {
        fprintf(stderr, "%s: PKV_THREADS=%s is no number of threads\n", argv[0], threads);
        return 2;
    }
    o.timing.threads = (int32_t)n_threads;
    const int rc = parse(argc, argv, &o);
    if (rc >= 0) return rc;
    c.verbose = o.verbose;
    if (env && *env && pkv_isa_from_name(env, &asked) != PKV_OK) {
        fprintf(stderr, "%s: PKV_ISA=%s is no level; see --help\n", argv[0], env);
        return 2;
    }
    if (for_cases(&o, &c, o.list ? list_case : pass_case) == 0) {
        fprintf(stderr, "%s: no case is called '%s'; see --list\n", argv[0], o.case_name);
        return 2;
    }
    if (o.list) return 0;
    o.timing.isa = asked;
    if (o.bench) return kernel_bench(&o.timing);
    if (o.accuracy) return kernel_accuracy(asked, o.dump);
    setvbuf(stdout, NULL, _IOLBF, 0);
    attn_cover_expect();
    catch_crashes(&c);
    return run_levels(&c, &o, asked);
}
