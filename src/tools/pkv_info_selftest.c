/* pkv-info model --selftest: the ids of a golden.json beside the model, once more.
 *
 *   { "greedy_ids": [1, 403, 407, ...] }   the first is the prompt, the others are the most likely
 *
 * A file of the right size whose matrices are turned or mixed up opens like any other; only what it
 * computes shows it. */
#include "pkv_info_model.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "pagedkv/engine.h"

#define GOLDEN "golden.json"

typedef struct ids {
    int32_t *list; /* owned */
    int32_t n;
} ids;

static void golden_path(const char *model, char *out, size_t cap)
{
    struct stat info;
    const char *slash = strrchr(model, '/');
    if (stat(model, &info) == 0 && S_ISDIR(info.st_mode)) snprintf(out, cap, "%s/" GOLDEN, model);
    else if (slash) snprintf(out, cap, "%.*s/" GOLDEN, (int)(slash - model), model);
    else snprintf(out, cap, GOLDEN);
}

static int read_golden(const info_model_facts *m, ids *out)
{
    char path[1024];
    json_error_t error;
    golden_path(m->path, path, sizeof(path));
    json_t *root = json_load_file(path, JSON_REJECT_DUPLICATES, &error);
    if (!root) {
        info_complain("--selftest: %s: %s", path, error.text);
        return INFO_IO;
    }
    const json_t *list = json_object_get(root, "greedy_ids");
    const size_t n = json_array_size(list);
    bool good = n >= 2 && n <= (size_t)m->info.context;
    out->list = good ? malloc(n * sizeof(*out->list)) : NULL;
    for (size_t k = 0; good && out->list && k < n; k++) {
        const json_t *id = json_array_get(list, k);
        const json_int_t v = json_integer_value(id);
        good = json_is_integer(id) && v >= 0 && v < m->info.vocab;
        out->list[k] = (int32_t)v;
    }
    out->n = (int32_t)n;
    json_decref(root);
    if (good && out->list) return INFO_OK;
    if (good) info_complain("no memory");
    else
        info_complain("--selftest: %s: greedy_ids is no list of 2 to %d ids below %d", path,
                      m->info.context, m->info.vocab);
    return INFO_IO;
}

static void take_token(void *ctx, const pkv_token_event *event)
{
    ids *out = ctx;
    if (event->token >= 0) out->list[out->n++] = event->token;
}

/* Greedy, f32, exact: what the golden was made with. got->list has room for all of them. */
static pkv_status generate(const info_model_facts *m, const ids *want, ids *got, info_log *log)
{
    pkv_engine_config cfg = PKV_ENGINE_CONFIG_INIT;
    pkv_request request = PKV_REQUEST_INIT;
    pkv_step_report report = PKV_STEP_REPORT_INIT;
    pkv_engine *engine = NULL;
    pkv_request_id id;
    cfg.model = m->model;
    cfg.kv_dtype = PKV_F32;
    cfg.block_tokens = 16;
    cfg.n_blocks = want->n / 16 + 3; /* the null block, and one that is not full */
    cfg.max_seqs = 1;
    cfg.log = info_logger(log);
    request.ids = want->list;
    request.n_ids = 1;
    request.max_new = want->n - 1;
    request.ignore_eos = true;
    request.on_token = take_token;
    request.ctx = got;
    pkv_status status = pkv_engine_create(&cfg, &engine);
    if (status == PKV_OK) status = pkv_engine_submit(engine, &request, &id);
    do {
        if (status == PKV_OK) status = pkv_engine_step(engine, &report);
    } while (status == PKV_OK && report.n_unfinished > 0);
    pkv_engine_destroy(engine);
    return status;
}

int info_model_selftest(info_model_facts *m)
{
    info_log log = { .n_notes = 0 };
    ids want = { NULL, 0 }, got = { NULL, 0 };
    int status = read_golden(m, &want);
    if (status == INFO_OK) {
        got.list = malloc((size_t)want.n * sizeof(*got.list));
        if (!got.list) info_complain("no memory");
        if (!got.list) status = INFO_IO;
    }
    if (status == INFO_OK) {
        const pkv_status done = generate(m, &want, &got, &log);
        if (done != PKV_OK) status = info_failed(&log, done);
    }
    if (status == INFO_OK) {
        m->test_ids = want.n - 1;
        while (m->test_equal < got.n && got.list[m->test_equal] == want.list[m->test_equal + 1])
            m->test_equal++;
        m->test_got = m->test_equal < got.n ? got.list[m->test_equal] : -1;
        m->test_want = m->test_equal < m->test_ids ? want.list[m->test_equal + 1] : -1;
    }
    free(want.list);
    free(got.list);
    return status;
}
