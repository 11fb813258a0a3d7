/* check_gpu: lines of results, the table and the JSON. */
#include "check_gpu.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>

static const char *const verdict_names[] = {
    [GPU_OK] = "ok",         [GPU_WRONG] = "WRONG",       [GPU_MET] = "met",
    [GPU_MISSED] = "missed", [GPU_MEASURED] = "measured", [GPU_SKIPPED] = "skipped",
};

struct gpu_result *gpu_add(struct gpu *g, enum gpu_verdict verdict, const char *fmt, ...)
{
    if (g->n_results == g->cap_results) {
        g->cap_results = 2 * g->cap_results + 64;
        g->results = realloc(g->results, (size_t)g->cap_results * sizeof(*g->results));
        if (!g->results) exit(2);
    }
    struct gpu_result *r = &g->results[g->n_results++];
    va_list args;
    *r = (struct gpu_result){ .verdict = verdict, .unit = "" };
    snprintf(r->stage, sizeof(r->stage), "%s", g->stage);
    va_start(args, fmt);
    vsnprintf(r->name, sizeof(r->name), fmt, args);
    va_end(args);
    return r;
}

void gpu_note(struct gpu_result *r, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    vsnprintf(r->note, sizeof(r->note), fmt, args);
    va_end(args);
}

void gpu_judge(struct gpu *g, struct gpu_result *r, double ceiling, const char *goal, double least)
{
    if (r->rate <= 0 || ceiling <= 0) return;
    r->share = r->rate / ceiling;
    if (least <= 0 || g->dry_run) return;
    snprintf(r->goal, sizeof(r->goal), "%s >= %.0f %%", goal, 100 * least);
    if (r->verdict == GPU_MEASURED) r->verdict = r->share >= least ? GPU_MET : GPU_MISSED;
}

static void print_line(const struct gpu_result *r)
{
    printf("%-12s %-58.58s %-8s", r->stage, r->name, verdict_names[r->verdict]);
    if (r->median_us > 0) printf(" %10.1f %10.1f us", r->min_us, r->median_us);
    if (r->rate > 0) printf(" %8.1f %s", r->rate, r->unit);
    if (r->share > 0) printf(" %5.1f %%", 100 * r->share);
    printf("%s%s%s%s\n", r->goal[0] ? "  " : "", r->goal, r->note[0] ? "  " : "", r->note);
}

void gpu_print_table(const struct gpu *g)
{
    int n[GPU_SKIPPED + 1] = { 0 };
    printf("\n%-12s %-58s %-8s %s\n", "stage", "what", "verdict",
           "least, median; rate; share of the ceiling; goal");
    for (int i = 0; i < g->n_results; i++) {
        print_line(&g->results[i]);
        n[g->results[i].verdict]++;
    }
    printf("%d right, %d wrong, %d goals met, %d missed, %d measured without a goal, %d skipped\n",
           n[GPU_OK], n[GPU_WRONG], n[GPU_MET], n[GPU_MISSED], n[GPU_MEASURED], n[GPU_SKIPPED]);
}

static void put_text(FILE *f, const char *key, const char *text, const char *end)
{
    fprintf(f, "\"%s\": \"", key);
    for (const unsigned char *at = (const unsigned char *)text; *at; at++) {
        if (*at == '"' || *at == '\\') fprintf(f, "\\%c", *at);
        else if (*at < 0x20) fprintf(f, "\\u%04x", *at);
        else fputc(*at, f);
    }
    fprintf(f, "\"%s", end);
}

static void put_machine(FILE *f, const struct gpu *g)
{
    const struct gpu_about *a = &g->about;
    struct utsname un;
    char when[32] = "", host[200] = "unknown";
    const time_t now = time(NULL);
    struct tm utc;
    if (gmtime_r(&now, &utc)) strftime(when, sizeof(when), "%Y-%m-%dT%H:%M:%SZ", &utc);
    if (uname(&un) == 0)
        snprintf(host, sizeof(host), "%.60s %.60s %.60s", un.sysname, un.release, un.machine);
    put_text(f, "when", when, ",\n");
    put_text(f, "device", a->device, ",\n");
    fprintf(f,
            "\"compute_capability\": %d, \"sms\": %d, \"memory_bytes\": %zu, \"l2_bytes\": %zu,\n",
            a->sm, a->n_sms, a->memory_bytes, a->l2_bytes);
    put_text(f, "driver", a->driver, ", ");
    put_text(f, "runtime", a->runtime, ",\n");
    put_text(f, "host", host, ",\n");
    put_text(f, "compiler", __VERSION__, ", ");
    put_text(f, "nvcc", a->nvcc, ",\n"); /* empty in a dry run */
    put_text(f, "version", pkv_version(), ", ");
    put_text(f, "commit", gpu_commit, ",\n");
    fprintf(f, "\"seed\": %llu, \"dry_run\": %s,\n", (unsigned long long)g->seed,
            g->dry_run ? "true" : "false");
    fprintf(f, "\"copy_gb_s\": %.1f, \"read_gb_s\": %.1f, \"gemm_tflop_s\": %.1f,\n", g->copy_gbs,
            g->read_gbs, g->gemm_tflops);
}

/* Anew after each stage, so that whatever ends the program leaves what came before. */
bool gpu_write_json(const struct gpu *g)
{
    FILE *f = g->json_path ? fopen(g->json_path, "w") : NULL;
    if (!g->json_path) return true;
    if (!f) return false;
    fputs("{\n", f);
    put_machine(f, g);
    fputs("\"results\": [\n", f);
    for (int i = 0; i < g->n_results; i++) {
        const struct gpu_result *r = &g->results[i];
        fputc('{', f);
        put_text(f, "stage", r->stage, ", ");
        put_text(f, "name", r->name, ", ");
        put_text(f, "verdict", verdict_names[r->verdict], ", ");
        put_text(f, "goal", r->goal, ", ");
        put_text(f, "note", r->note, ", ");
        put_text(f, "unit", r->unit, ", ");
        fprintf(f,
                "\"runs\": %d, \"min_us\": %.3f, \"median_us\": %.3f, \"rate\": %.3f, \"share\": "
                "%.4f}%s\n",
                r->n_runs, r->min_us, r->median_us, r->rate, r->share,
                i + 1 < g->n_results ? "," : "");
    }
    fputs("]\n}\n", f);
    return fclose(f) == 0;
}
