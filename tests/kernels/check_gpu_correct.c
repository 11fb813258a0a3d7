/* check_gpu, stage correctness: the cases of check_kernels, each operation in a process of its own,
 * so that what a bad kernel does to the device ends there. */
#include "check_gpu.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

struct family {
    const char *name;
    double share; /* of the stage's time */
    const char *dry;
};
static const struct family families[] = {
    { "attention", 0.5, "attention.ragged.f16" },
    { "attention_mla", 0.1, "attention_mla.record" },
    { "kv_write", 0.1, "kv_write.scatter.bf16" },
    { "kv_gather", 0.06, "kv_gather.gathers.int8" },
    { "blocks_copy", 0.06, "blocks_copy.copies" },
    { "blocks_gather", 0.04, "blocks_gather.swaps" },
    { "blocks_zero", 0.04, "blocks_zero.zeroing" },
    { "states_merge", 0.06, "states_merge.lone.f16" },
    { "table_check", 0.04, "table_check.clean" },
};

/* This program as check_kernels, with what it prints in a pipe. The alarm outlives exec and ends
 * it. */
static pid_t start(const char *name, unsigned seconds, const struct gpu *g, FILE **out)
{
    int ends[2];
    char seed[24];
    snprintf(seed, sizeof(seed), "%llu", (unsigned long long)(g->seed % 1000000));
    if (pipe(ends) != 0) return -1;
    fflush(stdout);
    const pid_t pid = fork();
    if (pid == 0) {
        dup2(ends[1], 1);
        close(ends[0]);
        close(ends[1]);
        setenv("PKV_ISA", "cuda", 1);
        alarm(seconds);
        execl("/proc/self/exe", g->program, "--check-kernels", "--case", name,
              g->dry_run ? "--seed" : "--first-seed", seed, (char *)NULL);
        _exit(127);
    }
    close(ends[1]);
    *out = pid > 0 ? fdopen(ends[0], "r") : NULL;
    if (!*out) close(ends[0]);
    return *out ? pid : -1;
}

/* Counts and the first complaint of a run. */
struct said {
    long passed, failed, skipped;
    bool summed;
    char first[160], skip[160];
};

static struct said listen(FILE *out)
{
    struct said s = { 0 };
    char line[512];
    while (fgets(line, sizeof(line), out)) {
        line[strcspn(line, "\n")] = '\0';
        const char *seed = strstr(line, "--case ");
        if (strncmp(line, "FAILED", 6) == 0 && !s.first[0]) s.failed++;
        if (strncmp(line, "FAILED", 6) == 0 && !s.first[0])
            snprintf(s.first, sizeof(s.first), "%.150s", line);
        if (strstr(line, "repeat: ") && seed && !strstr(s.first, "--case"))
            snprintf(s.first, sizeof(s.first), "%.150s", seed);
        if (strncmp(line, "skipped ", 8) == 0 && !s.skip[0])
            snprintf(s.skip, sizeof(s.skip), "%.150s", line + 8);
        long passed, failed, skipped;
        if (sscanf(line, "%ld passed, %ld failed, %ld skipped", &passed, &failed, &skipped) != 3)
            continue;
        s.passed = passed;
        s.failed = failed;
        s.skipped = skipped;
        s.summed = true;
    }
    return s;
}

static void judge(struct gpu *g, const struct family *f, const struct said *s, int status)
{
    const bool in_time = !(WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM);
    struct gpu_result *r = gpu_add(g, GPU_OK, "%s", f->name);
    if (s->failed > 0) {
        r->verdict = GPU_WRONG;
        gpu_note(r, "%ld runs failed: %s", s->failed, s->first);
    } else if (!in_time) {
        r->verdict = GPU_SKIPPED;
        gpu_note(r, "ended when its time was over, nothing failed before");
    } else if (!s->summed || !WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        r->verdict = GPU_WRONG;
        gpu_note(r, "ended with status %#x and no count", (unsigned)status);
    } else if (s->passed == 0) {
        r->verdict = GPU_SKIPPED;
        gpu_note(r, "%s", s->skip[0] ? s->skip : "nothing ran");
    } else
        gpu_note(r, "%ld runs passed, %ld skipped%s%s", s->passed, s->skipped,
                 s->skip[0] ? ", the first: " : "", s->skip);
}

void gpu_correctness(struct gpu *g)
{
    const double seconds = g->deadline - gpu_now();
    for (size_t i = 0; i < sizeof(families) / sizeof(families[0]); i++) {
        const struct family *f = &families[i];
        const unsigned limit = g->dry_run ? 120 : (unsigned)(seconds * f->share) + 1;
        FILE *out = NULL;
        int status = 0;
        const pid_t pid = start(g->dry_run ? f->dry : f->name, limit, g, &out);
        if (pid < 0) {
            gpu_note(gpu_add(g, GPU_WRONG, "%s", f->name), "no process");
            continue;
        }
        const struct said s = listen(out);
        fclose(out);
        while (waitpid(pid, &status, 0) < 0) continue;
        judge(g, f, &s, status);
    }
}
