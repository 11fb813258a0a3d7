/* Every file of tests/attacks through the public API: the status that the manifest wants, one line
 * that names the place and could not hurt a terminal, and nothing that stays allocated. Odd files
 * open, also while memory fails at each allocation in turn. */
#include "model_test.h"
#include "pagedkv/kv_size.h"
#include "pagedkv/model.h"
#include "pagedkv/tokenizer.h"

#include <jansson.h>
#include <limits.h>

#define BASE_WEIGHTS "safetensors/ok-base.safetensors"

/* What one open said. */
typedef struct heard {
    char error[512];
    int n_errors;
    bool dirty; /* a control character or a byte that is not ASCII, in any line */
} heard;

static void hear(void *ctx, pkv_log_level level, const char *text)
{
    heard *h = ctx;
    for (const char *c = text; *c; c++) h->dirty |= *c < ' ' || *c > '~';
    if (level != PKV_LOG_ERROR) return;
    snprintf(h->error, sizeof(h->error), "%s", text);
    h->n_errors++;
}

typedef struct attack {
    const char *kind, *file, *says, *status;
    int32_t vocab_size;
    char path[1024]; /* what is opened */
    int n_wrong;
} attack;

/* All files are tried before the test fails. */
static void PKV_PRINTF(2, 3) wrong(attack *a, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    fprintf(stderr, "# %s: ", a->file);
    vfprintf(stderr, fmt, args);
    fputc('\n', stderr);
    va_end(args);
    a->n_wrong++;
}

/* ---------------------------------------------------------------- one open */

static pkv_status open_model(const attack *a, const pkv_logger *log, const pkv_allocator *alloc)
{
    pkv_model *model = (pkv_model *)(uintptr_t)1; /* must stay as it is on failure */
    pkv_model_config cfg = PKV_MODEL_CONFIG_INIT;
    cfg.path = a->path;
    cfg.log = *log;
    cfg.alloc = *alloc;
    const pkv_status status = pkv_model_open(&cfg, &model);
    if (status != PKV_OK) {
        assert_ptr_equal(model, (pkv_model *)(uintptr_t)1);
        return status;
    }
    pkv_model_info info = PKV_MODEL_INFO_INIT;
    assert_int_equal(pkv_model_get_info(model, &info), PKV_OK);
    assert_in_range(info.vocab, 1, 8);
    pkv_model_close(model);
    return status;
}

static pkv_status open_tokenizer(const attack *a, const pkv_logger *log, const pkv_allocator *alloc)
{
    pkv_tokenizer *tok = (pkv_tokenizer *)(uintptr_t)1;
    pkv_tokenizer_config cfg = PKV_TOKENIZER_CONFIG_INIT;
    cfg.path = a->path;
    cfg.log = *log;
    cfg.alloc = *alloc;
    cfg.vocab_size = a->vocab_size;
    if (strcmp(a->kind, "tiktoken") == 0) cfg.splitter = "gpt2";
    const pkv_status status = pkv_tokenizer_open(&cfg, &tok);
    if (status != PKV_OK) {
        assert_ptr_equal(tok, (pkv_tokenizer *)(uintptr_t)1);
        return status;
    }
    int32_t ids[32], n;
    const pkv_status encoded =
        pkv_tokenizer_encode(tok, "ab <s>\xFF\x80 a", 10, PKV_TOK_ADD_SPECIAL, ids, 32, &n);
    pkv_tokenizer_close(tok);
    assert_true(encoded == PKV_OK || encoded == PKV_E_NO_MEMORY);
    return encoded;
}

static pkv_status read_source(const attack *a, const pkv_logger *log, const pkv_allocator *alloc)
{
    pkv_kv_source source = PKV_KV_SOURCE_INIT;
    return pkv_kv_source_read(a->path, log, alloc, &source);
}

typedef pkv_status (*open_fn)(const attack *a, const pkv_logger *log, const pkv_allocator *alloc);

static pkv_status open_once(attack *a, open_fn open, long fail_at, heard *h, long *n_allocs)
{
    counted_memory m;
    const pkv_allocator alloc = count_memory(&m, fail_at);
    const pkv_logger log = { hear, h };
    memset(h, 0, sizeof(*h));
    const pkv_status status = open(a, &log, &alloc);
    if (m.n_live != 0) wrong(a, "%ld allocations stay", m.n_live);
    if (m.peak_bytes > ((size_t)1 << 20)) wrong(a, "%zu bytes for a file of 4 kB", m.peak_bytes);
    if (h->dirty) wrong(a, "a line with odd bytes: %s", h->error);
    if (h->n_errors > 1 || (status == PKV_OK) != (h->n_errors == 0))
        if (status != PKV_E_NO_MEMORY)
            wrong(a, "%s with %d lines: %s", pkv_status_name(status), h->n_errors, h->error);
    *n_allocs = m.n_allocs;
    return status;
}

/* ---------------------------------------------------------------- one case */

static bool is_tokenizer(const attack *a)
{
    static const char *const kinds[] = { "tokenizer_json", "tiktoken", "sentencepiece",
                                         "vocab_bpe",      "tok512",   "gguf_tokenizer" };
    for (size_t k = 0; k < PKV_ARRAY_LEN(kinds); k++)
        if (strcmp(a->kind, kinds[k]) == 0) return true;
    return false;
}

static void check(attack *a)
{
    const open_fn open = is_tokenizer(a) ? open_tokenizer : open_model;
    const bool good = strcmp(a->status, "OK") == 0;
    char want[64];
    heard h;
    long n_allocs, unused;
    pkv_status status = open_once(a, open, LONG_MAX, &h, &n_allocs);
    snprintf(want, sizeof(want), good ? "PKV_%s" : "PKV_E_%s", a->status);
    if (strcmp(want, pkv_status_name(status)) != 0 || !strstr(h.error, a->says))
        wrong(a, "%s \"%s\", expected %s \"%s\"", pkv_status_name(status), h.error, want, a->says);
    if (status == PKV_E_FORMAT && is_tokenizer(a) && !strstr(h.error, ": byte ") &&
        !strstr(h.error, ": line "))
        wrong(a, "no place: %s", h.error);
    for (long k = 0; k < n_allocs; k++) {
        const pkv_status failed = open_once(a, open, k, &h, &unused);
        if (failed != PKV_E_NO_MEMORY && (good || failed != status))
            wrong(a, "%s when allocation %ld fails", pkv_status_name(failed), k);
    }
    if (is_tokenizer(a)) return;
    status = open_once(a, read_source, LONG_MAX, &h, &unused);
    if (status != PKV_OK && status != PKV_E_FORMAT && status != PKV_E_UNSUPPORTED &&
        status != PKV_E_IO)
        wrong(a, "as a source of KV: %s", pkv_status_name(status));
    if (good && status != PKV_OK) wrong(a, "as a source of KV: %s", h.error);
}

/* A configuration needs its name, and weights beside it. */
static void check_config(attack *a, const bytes *weights)
{
    char folder[512];
    bytes text = { 0 };
    read_bytes(a->path, &text);
    scratch_folder(folder, sizeof(folder));
    write_bytes(folder, "config.json", text.data, text.n);
    write_bytes(folder, "model.safetensors", weights->data, weights->n);
    snprintf(a->path, sizeof(a->path), "%s", folder);
    check(a);
    scratch_remove(folder);
    bytes_free(&text);
}

/* ---------------------------------------------------------------- all of one kind */

static void check_kind(const char *kind)
{
    json_error_t error;
    bytes weights = { 0 };
    json_t *list = json_load_file(PKV_ATTACKS "/manifest.json", 0, &error);
    int n_bad = 0, n_good = 0, n_wrong = 0;
    if (!list) fail_msg("%s: %s", PKV_ATTACKS, error.text);
    read_bytes(PKV_ATTACKS "/" BASE_WEIGHTS, &weights);
    for (size_t k = 0; k < json_array_size(list); k++) {
        const json_t *entry = json_array_get(list, k);
        attack a = { .kind = json_string_value(json_object_get(entry, "kind")),
                     .file = json_string_value(json_object_get(entry, "file")),
                     .says = json_string_value(json_object_get(entry, "says")),
                     .status = json_string_value(json_object_get(entry, "status")),
                     .vocab_size =
                         (int32_t)json_integer_value(json_object_get(entry, "vocab_size")) };
        assert_true(a.kind && a.file && a.says);
        if (strcmp(a.kind, kind) != 0) continue;
        assert_non_null(a.status);
        snprintf(a.path, sizeof(a.path), "%s/%s", PKV_ATTACKS, a.file);
        if (strcmp(kind, "config") == 0) check_config(&a, &weights);
        else check(&a);
        n_wrong += a.n_wrong;
        *(strcmp(a.status, "OK") == 0 ? &n_good : &n_bad) += 1;
    }
    bytes_free(&weights);
    json_decref(list);
    assert_int_equal(n_wrong, 0);
    assert_true(n_bad >= 5 && n_good >= 1);
}

#define KIND(name)                                                                                 \
    static void test_##name(void **state)                                                          \
    {                                                                                              \
        (void)state;                                                                               \
        check_kind(#name);                                                                         \
    }
KIND(safetensors)
KIND(index)
KIND(config)
KIND(gguf)
KIND(split)
KIND(llama2c)
KIND(tokenizer_json)
KIND(tiktoken)
KIND(sentencepiece)
KIND(vocab_bpe)
KIND(tok512)
KIND(gguf_tokenizer)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_safetensors),    cmocka_unit_test(test_index),
        cmocka_unit_test(test_config),         cmocka_unit_test(test_gguf),
        cmocka_unit_test(test_split),          cmocka_unit_test(test_llama2c),
        cmocka_unit_test(test_tokenizer_json), cmocka_unit_test(test_tiktoken),
        cmocka_unit_test(test_sentencepiece),  cmocka_unit_test(test_vocab_bpe),
        cmocka_unit_test(test_tok512),         cmocka_unit_test(test_gguf_tokenizer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
