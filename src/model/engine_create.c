/* Making an engine: every number checked, then threads, backend, pool, pass, sampler and the arrays
 * of a step, so that steps allocate nothing. */
#include "model/engine_internal.h"

#include "common/clock.h"

#include "model/model_handle.h"

#include <math.h>
#include <string.h>

#define DEFAULT_KV_BYTES ((size_t)256 << 20)
#define MAX_SEQS 65536
#define MAX_BATCH_TOKENS (1 << 20)
#define MAX_QUEUE (1 << 24)
/* Cancels that can wait for a step: as many as there can be requests, within reason. */
#define MAX_CANCELS 65536

/* ---------------------------------------------------------------- numbers */

static pkv_status in_range(const pkv_logger *log, const char *name, int64_t value, int64_t least,
                           int64_t most)
{
    if (value >= least && value <= most) return PKV_OK;
    return pkv__refuse(log, PKV_E_INVALID_ARG, "engine: %s is %lld; %lld to %lld", name,
                       (long long)value, (long long)least, (long long)most);
}

/* Fill in defaults and check, in place. */
static pkv_status complete_config(pkv_engine_config *c, const pkv_model_info *info)
{
    const pkv_logger *log = &c->log;
    if (c->block_tokens == 0) c->block_tokens = 16;
    if (c->n_blocks == 0 && c->kv_bytes == 0) c->kv_bytes = DEFAULT_KV_BYTES;
    if (c->max_seqs == 0) c->max_seqs = 64;
    if (c->max_batch_tokens == 0) c->max_batch_tokens = pkv__max_i32(512, c->max_seqs);
    if (c->chunk_tokens == 0) c->chunk_tokens = 128;
    if (c->max_queue == 0) c->max_queue = 65536;
    if (c->max_context == 0) c->max_context = info->context;
    if (c->n_threads == 0) c->n_threads = 1;
    const struct {
        const char *name;
        int64_t value, least, most;
    } fields[] = {
        { "kv_dtype", c->kv_dtype, 0, PKV_DTYPE_COUNT - 1 },
        { "block_tokens", c->block_tokens, 1, 2048 },
        { "n_blocks", c->n_blocks, 0, INT32_MAX },
        { "max_seqs", c->max_seqs, 1, MAX_SEQS },
        { "max_batch_tokens", c->max_batch_tokens, c->max_seqs, MAX_BATCH_TOKENS },
        { "chunk_tokens", c->chunk_tokens, 1, INT32_MAX },
        { "max_queue", c->max_queue, 1, MAX_QUEUE },
        { "max_context", c->max_context, 2, info->context },
        { "watermark_blocks", c->watermark_blocks, -1, INT32_MAX },
        { "preempt", c->preempt, PKV_PREEMPT_AUTO, PKV_PREEMPT_RECOMPUTE },
        { "placement", c->placement, PKV_PLACE_PAGED, PKV_PLACE_POW2 },
        { "n_threads", c->n_threads, 1, PKV__MAX_THREADS },
    };
    for (size_t i = 0; i < PKV_ARRAY_LEN(fields); i++) {
        const pkv_status status =
            in_range(log, fields[i].name, fields[i].value, fields[i].least, fields[i].most);
        if (status != PKV_OK) return status;
    }
    if (!(c->slo_ttft_ms >= 0 && isfinite(c->slo_ttft_ms)) ||
        !(c->slo_tpot_ms >= 0 && isfinite(c->slo_tpot_ms)))
        return pkv__refuse(log, PKV_E_INVALID_ARG,
                           "engine: slo_ttft_ms and slo_tpot_ms are at least 0; 0 is no limit");
    return PKV_OK;
}

static uint64_t system_clock_ns(void *ctx)
{
    (void)ctx;
    return pkv__clock_ns();
}

/* ---------------------------------------------------------------- memory */

static size_t take(size_t *at, size_t n, size_t bytes)
{
    const size_t first = pkv__align_up(*at, PKV_CACHE_LINE);
    *at = first + n * bytes;
    return first;
}

/* Lay the arrays out behind `base`; NULL only counts. Returns the bytes of all. */
static size_t place_arrays(pkv_engine *e, char *base, size_t vocab, size_t max_jobs)
{
    const size_t seqs = (size_t)e->max_seqs, tokens = (size_t)e->max_batch_tokens,
                 width = (size_t)e->place->table_width, words = ((size_t)e->n_blocks + 1 + 63) / 64,
                 chains = (size_t)e->table_mask + 1;
    size_t at = 0;
#define ARRAY(field, n)                                                                            \
    do {                                                                                           \
        const size_t first = take(&at, n, sizeof(*(field)));                                       \
        if (base) (field) = (void *)(base + first);                                                \
    } while (0)
    ARRAY(e->table, chains);
    ARRAY(e->heap[PKV__BY_ARRIVAL].at, max_jobs);
    ARRAY(e->heap[PKV__BY_DEADLINE].at, max_jobs);
    ARRAY(e->rows, seqs);
    ARRAY(e->shares, seqs);
    ARRAY(e->seqs, seqs);
    ARRAY(e->counts, seqs);
    ARRAY(e->children, seqs);
    ARRAY(e->tokens, tokens);
    ARRAY(e->positions, tokens);
    ARRAY(e->slots, tokens);
    ARRAY(e->q_indptr, seqs + 1);
    ARRAY(e->kv_len, seqs);
    ARRAY(e->logit_rows, seqs);
    ARRAY(e->tables, seqs * width);
    ARRAY(e->drawn, seqs);
    ARRAY(e->new_delays, seqs * PKV__N_DELAYS);
    ARRAY(e->piece, 2 * (size_t)e->piece_room);
    ARRAY(e->seen, words);
    ARRAY(e->logits, seqs * vocab); /* the last: it is large, and nobody reads it unwritten */
#undef ARRAY
    return at;
}

static pkv_status make_arrays(pkv_engine *e, int32_t max_queue)
{
    const size_t max_jobs = (size_t)max_queue + (size_t)e->max_seqs;
    const size_t vocab = (size_t)e->weights->config.vocab;
    uint32_t chains = 1;
    e->piece_room = pkv__output_room(e->tokenizer);
    while (chains < max_jobs) chains *= 2;
    e->table_mask = chains - 1;
    e->arrays_bytes = place_arrays(e, NULL, vocab, max_jobs);
    e->arrays = pkv__alloc(&e->alloc, e->arrays_bytes, PKV_CACHE_LINE);
    if (!e->arrays) return PKV_E_NO_MEMORY;
    place_arrays(e, e->arrays, vocab, max_jobs);
    memset(e->arrays, 0, (size_t)((char *)e->logits - (char *)e->arrays));
    return PKV_OK;
}

/* ---------------------------------------------------------------- parts */

static void run_tasks(void *ctx, int32_t n_tasks, void (*task)(void *task_ctx, int32_t i),
                      void *task_ctx)
{
    pkv__parallel(ctx, n_tasks, task, task_ctx);
}

/* One pool of threads for products, attention and moves: two would spin against each other. */
static pkv_status make_backend(pkv_engine *e, const pkv_engine_config *c)
{
    pkv_cpu_config cpu = PKV_CPU_CONFIG_INIT;
    cpu.max_isa = c->isa;
    cpu.alloc = c->alloc;
    cpu.log = c->log;
    cpu.n_threads = c->n_threads;
    if (c->n_threads > 1) {
        const pkv_status status = pkv__threads_create(&cpu, &e->threads);
        if (status != PKV_OK) return status;
        cpu.parallel_for = run_tasks;
        cpu.parallel_ctx = e->threads;
    }
    return pkv_backend_create_cpu(&cpu, &e->backend);
}

static pkv_status make_placement(pkv_engine *e, const pkv_engine_config *c,
                                 const pkv_model_info *info)
{
    pkv__place_usage usage;
    pkv__placement_config cfg = { .kind = c->placement,
                                  .backend = e->backend,
                                  .shape = { info->n_layers, info->n_kv_heads, info->head_dim,
                                             c->block_tokens, c->kv_dtype },
                                  .n_blocks = c->n_blocks,
                                  .kv_bytes = c->kv_bytes,
                                  .swap_bytes = c->swap_bytes,
                                  .max_seqs = c->max_seqs,
                                  .max_context = c->max_context,
                                  .prefix_cache = !c->no_prefix_cache,
                                  .log = c->log,
                                  .alloc = c->alloc };
    const pkv_status status = pkv__placement_create(&cfg, &e->place);
    if (status != PKV_OK) return status;
    e->place->ops->usage(e->place, &usage);
    e->n_blocks = usage.n_blocks;
    e->watermark = c->watermark_blocks >= 0 ? c->watermark_blocks : usage.n_blocks / 100;
    if (e->watermark < usage.n_blocks) return PKV_OK;
    return pkv__refuse(&c->log, PKV_E_INVALID_ARG,
                       "engine: watermark_blocks is %d and the pool has %d: nobody would be "
                       "admitted beside another; at most %d",
                       e->watermark, usage.n_blocks, usage.n_blocks - 1);
}

static pkv_status make_forward(pkv_engine *e, const pkv_engine_config *c)
{
    const pkv__forward_config cfg = { .weights = e->weights,
                                      .backend = e->backend,
                                      .isa = c->isa,
                                      .threads = e->threads,
                                      .max_batch_tokens = c->max_batch_tokens,
                                      .max_logit_rows = c->max_seqs,
                                      .max_positions = c->max_context,
                                      .fast = c->fast,
                                      .log = c->log,
                                      .alloc = c->alloc };
    return pkv__forward_create(&cfg, &e->forward);
}

/* The union of what configuration files and tokenizer call an end. */
static void collect_eos(pkv_engine *e, const pkv_model_info *info)
{
    pkv_tokenizer_info tok = PKV_TOKENIZER_INFO_INIT;
    e->n_eos = info->n_eos;
    memcpy(e->eos, info->eos, (size_t)info->n_eos * sizeof(*e->eos));
    if (!e->tokenizer || pkv_tokenizer_get_info(e->tokenizer, &tok) != PKV_OK) return;
    if (tok.n_ids > info->vocab)
        pkv__log(&e->log, PKV_LOG_WARN,
                 "engine: the tokenizer has %d ids, the model %d; texts that need the others will "
                 "be refused: is it this model's?",
                 tok.n_ids, info->vocab);
    if (tok.eos < 0) return;
    for (int32_t i = 0; i < e->n_eos; i++)
        if (e->eos[i] == tok.eos) return;
    e->eos[e->n_eos++] = tok.eos;
}

static void take_config(pkv_engine *e, const pkv_engine_config *c)
{
    e->alloc = c->alloc;
    e->log = c->log;
    e->weights = pkv__model_weights(c->model);
    e->tokenizer = c->tokenizer;
    e->kind = c->placement;
    e->preempt = c->preempt;
    e->max_seqs = c->max_seqs;
    e->max_batch_tokens = c->max_batch_tokens;
    e->chunk_tokens = c->chunk_tokens;
    e->max_context = c->max_context;
    e->slo_ttft_ms = c->slo_ttft_ms;
    e->slo_tpot_ms = c->slo_tpot_ms;
    e->clock_ns = c->clock_ns ? c->clock_ns : system_clock_ns;
    e->clock_ctx = c->clock_ctx;
    e->wake = c->wake;
    e->wake_ctx = c->wake_ctx;
    e->pass = pkv__forward_run;
}

static pkv_status make_parts(pkv_engine *e, const pkv_engine_config *c, const pkv_model_info *info)
{
    pkv_status status = make_backend(e, c);
    if (status != PKV_OK) return status;
    status = make_placement(e, c, info);
    if (status != PKV_OK) return status;
    status = make_forward(e, c);
    if (status != PKV_OK) return status;
    status = pkv__sampler_create(info->vocab, &c->alloc, &e->sampler);
    if (status != PKV_OK) return status;
    status = pkv__inbox_create(c->max_queue, pkv__min_i32(c->max_queue + c->max_seqs, MAX_CANCELS),
                               &c->alloc, &e->inbox);
    if (status != PKV_OK) return status;
    return make_arrays(e, c->max_queue);
}

/* ---------------------------------------------------------------- create, destroy */

/* Parts that were not made are NULL. */
static void drop_parts(pkv_engine *e)
{
    pkv__free(&e->alloc, e->arrays, e->arrays_bytes);
    pkv__inbox_destroy(e->inbox);
    pkv__sampler_destroy(e->sampler);
    pkv__forward_destroy(e->forward);
    if (e->place) e->place->ops->destroy(e->place);
    pkv_backend_destroy(e->backend);
    pkv__threads_destroy(e->threads);
    const pkv_allocator alloc = e->alloc;
    pkv__free(&alloc, e, sizeof(*e));
}

pkv_status pkv_engine_create(const pkv_engine_config *cfg, pkv_engine **out)
{
    if (!cfg || !out) return PKV_E_INVALID_ARG;
    if (cfg->struct_size != sizeof(*cfg)) return PKV_E_ABI;
    pkv_engine_config c = *cfg;
    pkv_model_info info = PKV_MODEL_INFO_INIT;
    if (!pkv__allocator_valid(&c.alloc))
        return pkv__refuse(&c.log, PKV_E_INVALID_ARG, "engine: half an allocator");
    if (!c.model) return pkv__refuse(&c.log, PKV_E_INVALID_ARG, "engine: model is NULL");
    pkv_status status = pkv_model_get_info(c.model, &info);
    if (status != PKV_OK) return status;
    status = complete_config(&c, &info);
    if (status != PKV_OK) return status;
    pkv_engine *e = pkv__alloc(&c.alloc, sizeof(*e), PKV_CACHE_LINE);
    if (!e) return PKV_E_NO_MEMORY;
    memset(e, 0, sizeof(*e));
    take_config(e, &c);
    collect_eos(e, &info);
    status = make_parts(e, &c, &info);
    if (status == PKV_OK) status = pkv__stats_init(e, &info, &c);
    if (status != PKV_OK) {
        drop_parts(e);
        return status;
    }
    *out = e;
    return PKV_OK;
}

void pkv_engine_destroy(pkv_engine *engine)
{
    if (!engine) return;
    pkv_engine *e = engine;
    PKV_ASSERT(!e->in_step); /* a callback would come back to freed memory */
    for (pkv__job *job; (job = pkv__inbox_take(e->inbox));) pkv__job_free(e, job);
    for (uint32_t i = 0; i <= e->table_mask; i++)
        for (pkv__job *job = e->table[i], *next; job; job = next) {
            next = job->chain;
            pkv__job_free(e, job);
        }
    pthread_mutex_destroy(&e->lock);
    drop_parts(e);
}
