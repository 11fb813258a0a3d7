/* pkv-info tokenize: text to ids, ids to text, and whether both ways agree. */
#include "pkv_info.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "pagedkv/kv_size.h"
#include "pagedkv/tokenizer.h"
#include "tool_tokenizer.h"

#define MAX_TEXT ((size_t)1 << 30) /* what encode takes */

typedef struct text {
    char *bytes; /* owned */
    size_t n, cap;
} text;

typedef struct tokens {
    int32_t *ids; /* owned */
    int32_t n;
} tokens;

typedef struct asked {
    const char *tokenizer, *model, *splitter, *file, *text, *ids;
    int32_t vocab_size;
    bool special, add_special, check, count, json;
} asked;

typedef enum trip { TRIP_UNKNOWN, TRIP_SAME, TRIP_DIFFERS } round_kind;

static int no_memory(void)
{
    info_complain("no memory");
    return INFO_IO;
}

/* ---------------------------------------------------------------- input */

static bool append(text *t, const void *bytes, size_t n)
{
    if (t->n + n > t->cap) {
        const size_t cap = 2 * (t->n + n) + 64;
        char *more = realloc(t->bytes, cap);
        if (!more) return false;
        t->bytes = more;
        t->cap = cap;
    }
    if (n > 0) memcpy(t->bytes + t->n, bytes, n);
    t->n += n;
    return true;
}

static int read_file(const char *path, text *out)
{
    char piece[8192];
    const bool is_stdin = !path || strcmp(path, "-") == 0;
    FILE *file = is_stdin ? stdin : fopen(path, "rb");
    if (!file) {
        info_complain("%s: %s", path, strerror(errno));
        return INFO_IO;
    }
    int status = INFO_OK;
    for (size_t n; status == INFO_OK && (n = fread(piece, 1, sizeof(piece), file)) > 0;) {
        if (out->n + n > MAX_TEXT) {
            info_complain("%s: more than 2^30 bytes", is_stdin ? "standard input" : path);
            status = INFO_USAGE;
        } else if (!append(out, piece, n)) {
            status = no_memory();
        }
    }
    if (status == INFO_OK && ferror(file)) {
        info_complain("%s: %s", is_stdin ? "standard input" : path, strerror(errno));
        status = INFO_IO;
    }
    if (!is_stdin) fclose(file);
    return status;
}

/* "1,403 407": numbers with commas or blanks between them. */
static int read_ids(const char *list, tokens *out)
{
    out->ids = malloc((strlen(list) / 2 + 1) * sizeof(*out->ids));
    if (!out->ids) return no_memory();
    for (const char *at = list; *(at += strspn(at, ", \t\n"));) {
        char *end;
        errno = 0;
        const long id = strtol(at, &end, 10);
        if (end == at || errno != 0 || id < 0 || id > INT32_MAX) {
            info_complain("--ids wants numbers with commas between them, not '%.20s'", at);
            return INFO_USAGE;
        }
        out->ids[out->n++] = (int32_t)id;
        at = end;
    }
    return INFO_OK;
}

/* ---------------------------------------------------------------- both ways */

static int encode(const pkv_tokenizer *tok, const text *in, uint32_t flags, tokens *out)
{
    int32_t cap = 0, n = 0;
    pkv_status status = pkv_tokenizer_encode(tok, in->bytes, in->n, flags, NULL, 0, &n);
    if (status == PKV_E_LIMIT) {
        cap = n;
        out->ids = malloc((size_t)cap * sizeof(*out->ids));
        if (!out->ids) return no_memory();
        status = pkv_tokenizer_encode(tok, in->bytes, in->n, flags, out->ids, cap, &n);
    }
    if (status != PKV_OK) {
        info_complain("%s", pkv_status_text(status));
        return INFO_IO;
    }
    out->n = n;
    return INFO_OK;
}

static int decode(const pkv_tokenizer *tok, const tokens *in, bool skip_special, text *out)
{
    pkv_detok d;
    pkv_detok_init(&d, tok, skip_special);
    for (int32_t k = 0; k <= in->n; k++) {
        char few[512], *piece = few;
        int32_t n = 0;
        const bool last = k == in->n;
        pkv_status status = last ? pkv_detok_flush(&d, piece, sizeof(few), &n)
                                 : pkv_detok_put(&d, in->ids[k], piece, sizeof(few), &n);
        if (status == PKV_E_LIMIT) { /* a long piece */
            piece = malloc((size_t)n);
            if (!piece) return no_memory();
            status = pkv_detok_put(&d, in->ids[k], piece, n, &n);
        }
        const bool kept = status != PKV_OK || append(out, piece, (size_t)n);
        if (piece != few) free(piece);
        if (!kept) return no_memory();
        if (status == PKV_OK) continue;
        info_complain("there is no id %d", in->ids[k]);
        return INFO_USAGE;
    }
    return INFO_OK;
}

static int round_trip(const pkv_tokenizer *tok, const text *in, const tokens *ids, round_kind *out)
{
    text back = { 0 };
    const int status = decode(tok, ids, true, &back);
    *out = back.n == in->n && (in->n == 0 || memcmp(back.bytes, in->bytes, in->n) == 0)
               ? TRIP_SAME
               : TRIP_DIFFERS;
    free(back.bytes);
    return status;
}

/* ---------------------------------------------------------------- output */

/* A piece between quotes, with what does not print as \xNN. */
static void shown(const char *bytes, int32_t n, char *out, size_t cap)
{
    size_t at = 0;
    out[at++] = '"';
    for (int32_t k = 0; k < n && at + 8 < cap; k++) {
        const unsigned char c = (unsigned char)bytes[k];
        const bool plain = c >= ' ' && c < 127 && c != '"' && c != '\\';
        if (plain) out[at++] = (char)c;
        else at += (size_t)snprintf(out + at, cap - at, c == '\n' ? "\\n" : "\\x%02x", c);
    }
    snprintf(out + at, cap - at, "\"");
}

/* Characters: bytes that begin one. */
static int64_t count_characters(const text *t)
{
    int64_t n = 0;
    for (size_t k = 0; k < t->n; k++) n += ((unsigned char)t->bytes[k] & 0xC0) != 0x80;
    return n;
}

static bool print_pieces(const pkv_tokenizer *tok, const tokens *ids)
{
    info_table t = { .align = "rll" };
    info_table_add(&t, "id\tpiece\t");
    for (int32_t k = 0; k < ids->n; k++) {
        const char *bytes = "";
        char piece[512];
        int32_t n = 0;
        bool special = false;
        (void)!pkv_tokenizer_piece(tok, ids->ids[k], &bytes, &n, &special);
        shown(bytes, n, piece, sizeof(piece));
        info_table_add(&t, "%d\t%s\t%s", ids->ids[k], piece, special ? "special" : "");
    }
    return info_table_print(&t, stdout);
}

static int print_encoded(const asked *a, const pkv_tokenizer *tok, const text *in,
                         const tokens *ids, round_kind trip)
{
    if (!a->count && ids->n > 0 && !print_pieces(tok, ids)) return INFO_IO;
    if (!a->count && ids->n > 0) fputc('\n', stdout);
    printf("%d ids, %zu bytes, %lld characters", ids->n, in->n, (long long)count_characters(in));
    if (ids->n > 0) printf(", %.2f bytes per id", (double)in->n / ids->n);
    if (trip != TRIP_UNKNOWN)
        printf(trip == TRIP_SAME ? "; round trip gives the same bytes"
                                 : "; round trip gives OTHER bytes");
    fputc('\n', stdout);
    return info_finish_output();
}

/* As text where it is UTF-8, and as hexadecimal digits. */
static void add_bytes(json_t *object, const char *bytes, size_t n)
{
    json_t *plain = json_stringn(bytes, n);
    char *hex = malloc(2 * n + 1);
    for (size_t k = 0; hex && k < n; k++) snprintf(hex + 2 * k, 3, "%02x", (unsigned char)bytes[k]);
    json_object_set_new(object, "text", plain ? plain : json_null());
    json_object_set_new(object, "hex", hex ? json_stringn(hex, 2 * n) : json_null());
    free(hex);
}

static json_t *pieces_json(const pkv_tokenizer *tok, const tokens *ids)
{
    json_t *list = json_array();
    for (int32_t k = 0; k < ids->n; k++) {
        const char *bytes = "";
        int32_t n = 0;
        bool special = false;
        (void)!pkv_tokenizer_piece(tok, ids->ids[k], &bytes, &n, &special);
        json_t *piece = json_pack("{s:i, s:b}", "id", ids->ids[k], "special", special);
        add_bytes(piece, bytes, (size_t)n);
        json_array_append_new(list, piece);
    }
    return list;
}

static json_t *about_json(const pkv_tokenizer *tok)
{
    pkv_tokenizer_info i = PKV_TOKENIZER_INFO_INIT;
    if (pkv_tokenizer_get_info(tok, &i) != PKV_OK) return json_null();
    return json_pack("{s:s, s:s, s:s, s:i, s:i}", "kind", i.kind, "source", i.source, "splitter",
                     i.splitter, "ids", i.n_ids, "added", i.n_added);
}

static int print_encoded_json(const pkv_tokenizer *tok, const text *in, const tokens *ids,
                              round_kind trip)
{
    json_t *root = json_object(), *list = json_array();
    for (int32_t k = 0; k < ids->n; k++) json_array_append_new(list, json_integer(ids->ids[k]));
    json_object_set_new(root, "tokenizer", about_json(tok));
    json_object_set_new(root, "n_ids", json_integer(ids->n));
    json_object_set_new(root, "n_bytes", json_integer((json_int_t)in->n));
    json_object_set_new(root, "n_characters", json_integer(count_characters(in)));
    json_object_set_new(root, "ids", list);
    json_object_set_new(root, "pieces", pieces_json(tok, ids));
    json_object_set_new(root, "round_trip",
                        trip == TRIP_UNKNOWN ? json_null() : json_boolean(trip == TRIP_SAME));
    return info_print_json(root);
}

static int print_decoded(const asked *a, const pkv_tokenizer *tok, const tokens *ids,
                         const text *out)
{
    if (!a->json) {
        if (out->n > 0) fwrite(out->bytes, 1, out->n, stdout);
        fputc('\n', stdout);
        return info_finish_output();
    }
    json_t *root = json_object();
    json_object_set_new(root, "tokenizer", about_json(tok));
    add_bytes(root, out->bytes ? out->bytes : "", out->n);
    json_object_set_new(root, "pieces", pieces_json(tok, ids));
    return info_print_json(root);
}

/* ---------------------------------------------------------------- the verb */

static int decode_ids(const asked *a, const pkv_tokenizer *tok)
{
    tokens ids = { NULL, 0 };
    text out = { 0 };
    int status = read_ids(a->ids, &ids);
    if (status == INFO_OK) status = decode(tok, &ids, !a->special, &out);
    if (status == INFO_OK) status = print_decoded(a, tok, &ids, &out);
    free(ids.ids);
    free(out.bytes);
    return status;
}

static int encode_text(const asked *a, const pkv_tokenizer *tok)
{
    tokens ids = { NULL, 0 };
    text in = { 0 };
    round_kind trip = TRIP_UNKNOWN;
    const uint32_t flags =
        (a->special ? PKV_TOK_PARSE_SPECIAL : 0) | (a->add_special ? PKV_TOK_ADD_SPECIAL : 0);
    int status = INFO_OK;
    if (a->text && !append(&in, a->text, strlen(a->text))) status = no_memory();
    if (!a->text) status = read_file(a->file, &in);
    if (status == INFO_OK) status = encode(tok, &in, flags, &ids);
    if (status == INFO_OK && a->check) status = round_trip(tok, &in, &ids, &trip);
    if (status == INFO_OK)
        status = a->json ? print_encoded_json(tok, &in, &ids, trip)
                         : print_encoded(a, tok, &in, &ids, trip);
    free(ids.ids);
    free(in.bytes);
    return status == INFO_OK && trip == TRIP_DIFFERS ? INFO_MODEL : status;
}

static int open_and_run(const asked *a)
{
    info_log log = { .n_notes = 0 };
    pkv_tokenizer *tok = NULL;
    pkv_kv_source source = PKV_KV_SOURCE_INIT;
    pkv_tokenizer_config cfg = PKV_TOKENIZER_CONFIG_INIT;
    const pkv_logger logger = info_logger(&log);
    if (a->model && (a->vocab_size == 0 || !a->tokenizer)) {
        const pkv_status status = pkv_kv_source_read(a->model, &logger, NULL, &source);
        if (status != PKV_OK && a->vocab_size == 0) return info_failed(&log, status);
    }
    char *own = a->tokenizer ? NULL : tool_tokenizer_place(a->model, source.format);
    cfg.path = a->tokenizer ? a->tokenizer : own;
    if (!cfg.path) return no_memory();
    cfg.splitter = a->splitter;
    cfg.vocab_size = a->vocab_size > 0 ? a->vocab_size : source.vocab;
    cfg.log = logger;
    const pkv_status status = pkv_tokenizer_open(&cfg, &tok);
    free(own);
    if (status != PKV_OK) return info_failed(&log, status);
    const int result = a->ids ? decode_ids(a, tok) : encode_text(a, tok);
    pkv_tokenizer_close(tok);
    return result;
}

static bool check(const asked *a)
{
    const char *bad = NULL;
    if (!a->tokenizer && !a->model) bad = "which tokenizer? -t PATH, or -m MODEL that brings one";
    else if (a->ids && (a->text || a->file)) bad = "--ids and a text: one of them";
    else if (a->text && a->file) bad = "a text and --file: one of them";
    else if (a->ids && (a->check || a->count || a->add_special))
        bad = "--check, --count and --add-special are for texts";
    if (bad) info_complain("%s", bad);
    return !bad;
}

int info_tokenize(int argc, char **argv)
{
    asked a = { .json = false };
    int n_places = 0;
    const info_option options[] = {
        { "--tokenizer", "-t", "PATH", INFO_TEXT, &a.tokenizer, 0, 0, NULL,
          "a tokenizer.json, .model, .tiktoken, .gguf, vocab.bpe, tok512.bin, or a folder" },
        { "--model", "-m", "PATH", INFO_TEXT, &a.model, 0, 0, NULL,
          "the model: for its vocabulary's size, and its tokenizer unless -t names one" },
        { "--vocab-size", NULL, "N", INFO_WHOLE, &a.vocab_size, 1, 1 << 24, NULL,
          "of a llama2.c tokenizer, which does not say" },
        { "--splitter", NULL, "NAME", INFO_TEXT, &a.splitter, 0, 0, NULL,
          "gpt2, llama3, qwen2 or none, where the file does not say" },
        { "--file", "-f", "FILE", INFO_TEXT, &a.file, 0, 0, NULL,
          "the text; -: standard input, which is also read if there is neither" },
        { "--special", NULL, NULL, INFO_FLAG, &a.special, 0, 0, NULL,
          "names of special tokens in the text become them; with --ids: show them" },
        { "--add-special", NULL, NULL, INFO_FLAG, &a.add_special, 0, 0, NULL,
          "BOS and EOS as the tokenizer wants them" },
        { "--ids", NULL, "1,2,3", INFO_TEXT, &a.ids, 0, 0, NULL, "decode these instead" },
        { "--check", NULL, NULL, INFO_FLAG, &a.check, 0, 0, NULL,
          "decode again and compare; status 3 if it gives other bytes" },
        { "--count", NULL, NULL, INFO_FLAG, &a.count, 0, 0, NULL, "only how many" },
        { "--json", NULL, NULL, INFO_FLAG, &a.json, 0, 0, NULL, "one JSON object" },
    };
    const info_verb verb = { "tokenize -t PATH [OPTION...] [TEXT]",
                             "The ids of a text and their pieces, or the text of ids.",
                             options,
                             sizeof(options) / sizeof(options[0]),
                             1,
                             NULL };
    const info_parsed parsed = info_parse(&verb, argc, argv, &a.text, &n_places);
    if (parsed == INFO_HELPED) return info_finish_output();
    if (parsed == INFO_REFUSED || !check(&a)) return INFO_USAGE;
    return open_and_run(&a);
}
