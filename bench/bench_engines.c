/* Backends and teams of a run. */
#include "bench_engines.h"

#include <stdlib.h>
#include <string.h>

static void keep_reason(void *ctx, pkv_log_level level, const char *text)
{
    struct bench_error *err = ctx;
    if (level == PKV_LOG_ERROR) (void)bench_fail(err, err->code, "%s", text);
}

static pkv_backend *create(pkv_isa isa, int32_t threads, struct bench_error *err)
{
    pkv_cpu_config cfg = PKV_CPU_CONFIG_INIT;
    struct bench_error reason = { BENCH_USAGE, "" };
    pkv_backend *backend = NULL;
    cfg.max_isa = isa;
    cfg.n_threads = threads;
    if (pkv_backend_create_cpu(&cfg, &backend) == PKV_OK) return backend;
    /* Once more for the reason: a backend that lives on must not log into this stack. */
    cfg.log = (pkv_logger){ keep_reason, &reason };
    const pkv_status status = pkv_backend_create_cpu(&cfg, &backend);
    pkv_backend_destroy(backend);
    (void)bench_fail(err, status == PKV_E_UNSUPPORTED ? BENCH_SKIP : BENCH_USAGE, "%s (%s)",
                     reason.text, pkv_status_name(status));
    return NULL;
}

pkv_backend *bench_engines_backend(struct bench_engines *e, pkv_isa isa, int32_t threads,
                                   struct bench_error *err)
{
    for (int32_t i = 0; i < e->n_backends; i++)
        if (e->backends[i].isa == isa && e->backends[i].threads == threads)
            return e->backends[i].backend;
    if (e->n_backends == ENGINES_MAX) abort(); /* our cases ask for more kinds than there are */
    pkv_backend *backend = create(isa, threads, err);
    if (!backend) return NULL;
    e->backends[e->n_backends].isa = isa;
    e->backends[e->n_backends].threads = threads;
    e->backends[e->n_backends++].backend = backend;
    return backend;
}

struct bench_team *bench_engines_team(struct bench_engines *e, int32_t threads,
                                      struct bench_error *err)
{
    for (int32_t i = 0; i < e->n_teams; i++)
        if (e->teams[i].threads == threads) return e->teams[i].team;
    if (e->n_teams == ENGINES_MAX) abort();
    struct bench_team *team = NULL;
    if (!bench_team_create(threads, &team, err)) return NULL;
    e->teams[e->n_teams].threads = threads;
    e->teams[e->n_teams++].team = team;
    return team;
}

void bench_engines_close(struct bench_engines *e)
{
    for (int32_t i = 0; i < e->n_backends; i++) pkv_backend_destroy(e->backends[i].backend);
    for (int32_t i = 0; i < e->n_teams; i++) bench_team_destroy(e->teams[i].team);
    memset(e, 0, sizeof(*e));
}

bool bench_level_has_attention(pkv_isa isa, pkv_dtype dtype, bool many_rows)
{
    struct bench_error err;
    bool found = false;
    if (pkv_isa_check(isa, NULL) != PKV_OK) return false;
    pkv_backend *backend = create(isa, 1, &err);
    pkv_kernel_desc k = { .struct_size = sizeof(k) };
    for (int32_t i = 0; backend && pkv_kernel_info(backend, i, &k) == PKV_OK; i++)
        found = found || (k.op == PKV_OP_ATTENTION && k.dtype == dtype && k.isa == isa &&
                          !strstr(k.name, "_int8qk_") && /* of calls that ask for it only */
                          (strstr(k.name, "_rows_") != NULL) == many_rows);
    pkv_backend_destroy(backend);
    return found;
}
