#include "model_engine.h"

#include <stdlib.h>
#include <string.h>

pkv_engine_config model_engine_config(const pkv_model *model, const struct model_load *load,
                                      int32_t n_threads, pkv_isa isa)
{
    pkv_engine_config cfg = PKV_ENGINE_CONFIG_INIT;
    const int32_t tokens = load->n_prompt + load->n_new;
    cfg.model = model;
    cfg.kv_dtype = PKV_F32;
    cfg.block_tokens = 16;
    cfg.n_blocks = 1 + load->n_seqs * (tokens / 16 + 1);
    cfg.watermark_blocks = 0;
    cfg.max_seqs = load->n_seqs;
    cfg.max_batch_tokens = load->n_seqs * load->n_prompt;
    if (cfg.max_batch_tokens > 2048) cfg.max_batch_tokens = 2048;
    if (cfg.max_batch_tokens < load->n_seqs) cfg.max_batch_tokens = load->n_seqs;
    cfg.chunk_tokens = cfg.max_batch_tokens;
    cfg.max_context = tokens;
    cfg.no_prefix_cache = true;
    cfg.n_threads = n_threads;
    cfg.isa = isa;
    return cfg;
}

bool model_engine_create(const pkv_engine_config *cfg, const struct model_load *load,
                         struct model_engine *out, struct bench_error *err)
{
    pkv_model_info info = PKV_MODEL_INFO_INIT;
    memset(out, 0, sizeof(*out));
    out->load = *load;
    out->seed = 1;
    out->ids = bench_calloc((size_t)load->n_prompt, sizeof(*out->ids), err);
    if (!out->ids) return false;
    pkv_status status = pkv_model_get_info(cfg->model, &info);
    if (status == PKV_OK) status = pkv_engine_create(cfg, &out->engine);
    out->vocab = info.vocab;
    if (status == PKV_OK) return true;
    model_engine_destroy(out);
    return bench_fail(err, BENCH_SKIP, "no engine: %s", pkv_status_name(status));
}

void model_engine_destroy(struct model_engine *m)
{
    pkv_engine_destroy(m->engine);
    free(m->ids);
    memset(m, 0, sizeof(*m));
}

static void note_token(void *ctx, const pkv_token_event *event)
{
    struct model_engine *m = ctx;
    if (event->token >= 0 && event->request == 1 && m->n_told < MODEL_TOLD) {
        m->told = bench_mix(m->told ^ (uint32_t)event->token);
        m->n_told++;
    }
    if (event->finish == PKV_FINISH_ERROR) m->failed = true;
}

static void submit(struct model_engine *m, int32_t n_new)
{
    struct bench_rng rng = { m->seed++ };
    pkv_request r = PKV_REQUEST_INIT;
    pkv_request_id id;
    for (int32_t i = 0; i < m->load.n_prompt; i++)
        m->ids[i] = m->load.n_prompt == 1 ? 1 : (int32_t)bench_rng_below(&rng, (uint64_t)m->vocab);
    r.ids = m->ids;
    r.n_ids = m->load.n_prompt;
    r.max_new = n_new;
    r.ignore_eos = true;
    r.on_token = note_token;
    r.ctx = m;
    if (pkv_engine_submit(m->engine, &r, &id) != PKV_OK) m->failed = true;
}

static pkv_step_report step(struct model_engine *m)
{
    pkv_step_report report = PKV_STEP_REPORT_INIT;
    if (pkv_engine_step(m->engine, &report) == PKV_OK &&
        (report.n_tokens > 0 || report.n_unfinished == 0))
        return report;
    m->failed = true;
    report.n_unfinished = 0;
    return report;
}

void model_engine_drain(struct model_engine *m)
{
    while (step(m).n_unfinished > 0) {}
    m->n_left = 0;
}

void model_engine_load(struct model_engine *m)
{
    for (int32_t i = 0; i < m->load.n_seqs; i++) submit(m, m->load.n_new);
}

void model_engine_fill(struct model_engine *m)
{
    int32_t decoded = 0;
    model_engine_load(m);
    for (;;) {
        const pkv_step_report report = step(m);
        if (m->failed || report.n_waiting + report.n_swapped == 0) break;
        decoded++; /* by those that were in first */
    }
    while (!m->failed) {
        const pkv_step_report report = step(m);
        decoded++;
        if (report.n_prefill == 0) break;
    }
    m->n_left = m->load.n_new - 2 - decoded;
    if (m->n_left < 1) m->failed = true;
}

void model_engine_keep(void *ctx)
{
    struct model_engine *m = ctx;
    if (m->n_left > 0 || m->failed) return;
    model_engine_drain(m);
    model_engine_fill(m);
}

void model_engine_decode(void *ctx)
{
    struct model_engine *m = ctx;
    const pkv_step_report report = step(m);
    m->n_left--;
    if (report.n_tokens != m->load.n_seqs) m->failed = true;
}

void model_engine_prefill(void *ctx)
{
    struct model_engine *m = ctx;
    submit(m, 1);
    model_engine_drain(m);
}
