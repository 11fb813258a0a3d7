/* check_gpu: options and stages. See --help. Exit: 0 nothing is wrong (goals may be missed), 1 a
 * wrong result or a device that fails, 2 unusable arguments or a JSON that cannot be written, 77 no
 * GPU. */
#include "check_gpu.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* check_kernels.c, which is this program's correctness stage in a process of its own. */
int check_kernels_main(int argc, char **argv);

static const struct stage {
    const char *name;
    void (*run)(struct gpu *g);
    double seconds; /* 240 in all */
    const char *what;
} stages[] = {
    { "ceilings", gpu_ceilings, 15, "copy, reads, a product of cuBLAS; clock and power" },
    { "correctness", gpu_correctness, 80, "check_kernels on the GPU, family by family" },
    { "bits", gpu_bits, 20, "graph replay, invariant batches, repetition, renamed and far blocks" },
    { "decode", gpu_decode, 60, "batch x length x block x type x heads" },
    { "batches", gpu_batches, 15, "lengths after Zipf, invariant mode" },
    { "prefill", gpu_prefill, 25, "512 .. 32k tokens, paged and contiguous" },
    { "moves", gpu_moves, 20, "write, gather, copy, merge, swap" },
};
enum { N_STAGES = sizeof(stages) / sizeof(stages[0]) };

double gpu_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

bool gpu_out_of_time(struct gpu *g, const char *name)
{
    if (gpu_now() < g->deadline) return false;
    if (g->n_dropped++ == 0) snprintf(g->dropped, sizeof(g->dropped), "%s", name);
    return true;
}

bool gpu_took(struct gpu *g, struct gpu_result *r, pkv_status status)
{
    if (status == PKV_OK) return true;
    r->verdict = status == PKV_E_UNSUPPORTED ? GPU_SKIPPED : GPU_WRONG;
    gpu_note(r, "%s: %s", pkv_status_name(status), g->log);
    return false;
}

bool gpu_finished(struct gpu_result *r)
{
    char why[128];
    if (gpu_wait(why, sizeof(why))) return true;
    r->verdict = GPU_WRONG;
    gpu_note(r, "the device: %s", why);
    return false;
}

static int compare_doubles(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Runs of a graph; at least 20, more while they are short. */
static int time_graph(struct gpu *g, struct gpu_graph *graph, double *us)
{
    const int n_warm = g->dry_run ? 0 : 3, least = g->dry_run ? 1 : 20;
    const double end = gpu_now() + 0.25;
    int n = 0;
    for (int i = 0; i < n_warm; i++) gpu_replay(graph);
    while (n < least || (!g->dry_run && n < GPU_MAX_RUNS && gpu_now() < end)) {
        gpu_clock_start();
        gpu_replay(graph);
        us[n++] = gpu_clock_stop();
    }
    return n;
}

bool gpu_measure(struct gpu *g, struct gpu_result *r, pkv_status (*fn)(void *ctx), void *ctx,
                 int calls, double work, const char *unit)
{
    double us[GPU_MAX_RUNS];
    pkv_status status = fn(ctx); /* what is unsupported is found before anything is recorded */
    if (!gpu_took(g, r, status) || !gpu_finished(r)) return false;
    struct gpu_graph *graph = gpu_record(fn, ctx, &status);
    if (!graph) {
        if (gpu_took(g, r, status) && gpu_finished(r)) gpu_note(r, "the graph was refused");
        r->verdict = GPU_WRONG;
        return false;
    }
    r->n_runs = time_graph(g, graph, us);
    gpu_graph_free(graph);
    if (!gpu_finished(r)) return false;
    if (r->verdict != GPU_WRONG) r->verdict = GPU_MEASURED;
    if (g->dry_run) return true;
    qsort(us, (size_t)r->n_runs, sizeof(*us), compare_doubles);
    r->min_us = us[0] / calls;
    r->median_us = us[r->n_runs / 2] / calls;
    r->unit = unit;
    if (r->median_us > 0) r->rate = work / r->median_us * (strcmp(unit, "GB/s") == 0 ? 1e-3 : 1e-6);
    return true;
}

static void keep_log(void *ctx, pkv_log_level level, const char *text)
{
    struct gpu *g = ctx;
    (void)level;
    snprintf(g->log, sizeof(g->log), "%s", text);
}

/* Two bytes as f16, bf16 or two codes, four as a scale: all finite, of moderate size. */
static bool fill_pool(struct gpu *g)
{
    const size_t piece = g->pool_bytes < (16u << 20) ? g->pool_bytes : 16u << 20;
    struct rng r = { g->seed };
    uint64_t *host = malloc(piece);
    if (!host) return false;
    for (size_t i = 0; i < piece / 8; i++)
        host[i] = (rng_next(&r) & UINT64_C(0x80bf80bf80bf80bf)) | UINT64_C(0x3f003f003f003f00);
    gpu_upload(g->pool, host, piece);
    free(host);
    for (size_t done = piece; done < g->pool_bytes; done += piece) {
        const size_t left = g->pool_bytes - done;
        gpu_copy(g->pool + done, g->pool, left < piece ? left : piece);
    }
    return true;
}

static int open_device(struct gpu *g)
{
    char why[256];
    pkv_cuda_config cfg = PKV_CUDA_CONFIG_INIT;
    cfg.log = (pkv_logger){ keep_log, g };
    if (!gpu_open(&g->about, why, sizeof(why))) {
        printf(g->about.is_absent ? "SKIPPED no GPU: %s\n" : "FAILED the device: %s\n", why);
        return g->about.is_absent ? 77 : 1;
    }
    if (g->about.is_emulated != g->dry_run) {
        printf(g->dry_run ? "--dry-run is for the program that is linked with the emulator\n"
                          : "this program is linked with the emulator: --dry-run\n");
        return 2;
    }
    if (pkv_backend_create_cuda(&cfg, &g->be) != PKV_OK) {
        printf("FAILED no backend on %s: %s\n", g->about.device, g->log);
        return 1;
    }
    g->pool_bytes = g->about.free_bytes / 10 * 6 / 4096 * 4096;
    if (g->pool_bytes > (size_t)44 << 30) g->pool_bytes = (size_t)44 << 30;
    g->pool = gpu_alloc(g->pool_bytes);
    if (!g->pool || !fill_pool(g))
        printf("FAILED no memory for %zu bytes of K and V\n", g->pool_bytes);
    else if (!gpu_wait(why, sizeof(why))) printf("FAILED the device: %s\n", why);
    else return 0;
    return 1;
}

static bool is_wanted(const struct gpu *g, const char *name)
{
    const size_t n = strlen(name);
    if (!g->stages) return true;
    for (const char *at = g->stages; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
        if (strncmp(at, name, n) == 0 && (at[n] == ',' || at[n] == '\0')) return true;
    return false;
}

static bool keep_results(const struct gpu *g)
{
    if (gpu_write_json(g)) return true;
    fprintf(stderr, "cannot write '%s': %s\n", g->json_path, strerror(errno));
    return false;
}

static int run_stages(struct gpu *g)
{
    int wrong = 0;
    bool kept = keep_results(g);
    if (!kept) return 2; /* before minutes are spent on them */
    for (int i = 0; i < N_STAGES; i++) {
        if (!is_wanted(g, stages[i].name)) continue;
        const double begin = gpu_now();
        g->stage = stages[i].name;
        g->deadline = begin + (g->dry_run ? 1e6 : stages[i].seconds);
        g->n_dropped = 0;
        stages[i].run(g);
        if (g->n_dropped > 0)
            gpu_note(gpu_add(g, GPU_SKIPPED, "%d more, for want of time", g->n_dropped),
                     "the first: %s", g->dropped);
        printf("stage %s: %.1f s\n", g->stage, gpu_now() - begin);
        fflush(stdout);
        kept = keep_results(g);
    }
    gpu_print_table(g);
    for (int i = 0; i < g->n_results; i++) wrong += g->results[i].verdict == GPU_WRONG;
    return wrong > 0 ? 1 : kept ? 0 : 2;
}

static void usage(FILE *f, const char *program)
{
    fprintf(f,
            "Usage: %s [--stage NAME,..] [--json FILE] [--seed N] [--dry-run]\n"
            "Checks every CUDA kernel on the GPU of this machine and measures it; about four "
            "minutes.\n",
            program);
    for (int i = 0; i < N_STAGES; i++)
        fprintf(f, "  %-12s %3.0f s at most: %s\n", stages[i].name, stages[i].seconds,
                stages[i].what);
    fprintf(f, "--dry-run: small, on the emulated GPU that the program is linked with instead.\n"
               "Exit: 0 nothing is wrong (goals may be missed), 1 a wrong result or a device that "
               "fails, 2 unusable arguments or a JSON that cannot be written, 77 no GPU.\n");
}

static bool stages_known(const struct gpu *g)
{
    for (const char *at = g->stages; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL) {
        const size_t n = strcspn(at, ",");
        int i = 0;
        while (i < N_STAGES && (strlen(stages[i].name) != n || strncmp(at, stages[i].name, n))) i++;
        if (i == N_STAGES) return false;
    }
    return true;
}

/* A whole number below 2^64. */
static bool parse_seed(const char *text, uint64_t *seed)
{
    char *end = NULL;
    errno = 0;
    *seed = strtoull(text, &end, 10);
    return *text >= '0' && *text <= '9' && *end == '\0' && errno == 0;
}

/* -1: go on. */
static int parse(int argc, char **argv, struct gpu *g)
{
    static const struct option names[] = {
        { "stage", 1, NULL, 's' },   { "json", 1, NULL, 'j' }, { "seed", 1, NULL, 'r' },
        { "dry-run", 0, NULL, 'd' }, { "help", 0, NULL, 'h' }, { NULL, 0, NULL, 0 },
    };
    const char *odd = NULL; /* what is not understood */
    for (int opt; (opt = getopt_long(argc, argv, "", names, NULL)) != -1;) {
        if (opt == 's') g->stages = optarg;
        if (opt == 'j') g->json_path = optarg;
        if (opt == 'd') g->dry_run = true;
        if (opt == 'h') {
            usage(stdout, argv[0]);
            return 0;
        }
        if (opt == '?') return 2;
        if (opt == 'r' && !parse_seed(optarg, &g->seed)) odd = optarg;
    }
    if (optind < argc) odd = argv[optind];
    if (!odd && !stages_known(g)) odd = g->stages;
    if (!odd) return -1;
    fprintf(stderr, "%s: what is '%s'? --help says how\n", argv[0], odd);
    return 2;
}

int main(int argc, char **argv)
{
    struct gpu g = { .program = argv[0], .seed = 1 };
    if (argc > 1 && strcmp(argv[1], "--check-kernels") == 0) {
        gpu_lend_memory();
        return check_kernels_main(argc - 1, argv + 1);
    }
    int rc = parse(argc, argv, &g);
    if (rc >= 0) return rc;
    rc = open_device(&g);
    if (rc == 0) {
        printf("%s, compute capability %d.%d, driver %s, seed %llu\n", g.about.device,
               g.about.sm / 10, g.about.sm % 10, g.about.driver[0] ? g.about.driver : "none",
               (unsigned long long)g.seed);
        rc = run_stages(&g);
    }
    if (g.pool) gpu_free(g.pool);
    pkv_backend_destroy(g.be);
    free(g.results);
    return rc;
}
