/* Requests of a file, one JSON object a line. All of it is read and checked first; a complaint
 * names file, line and column (in characters, from 1) of the key or value that is meant. */
#include "generate.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

typedef struct line_reader {
    const char *name; /* of the file */
    int64_t number;
    const char *line; /* [n] */
    size_t n;
    json_t *object;
    generate_request *r;
} line_reader;

/* ---------------------------------------------------------------- places */

static size_t skip_blanks(const char *s, size_t n, size_t k)
{
    while (k < n && (s[k] == ' ' || s[k] == '\t' || s[k] == '\r' || s[k] == '\n')) k++;
    return k;
}

/* Behind the string that begins at k. */
static size_t skip_string(const char *s, size_t n, size_t k)
{
    for (k++; k < n && s[k] != '"'; k++) k += s[k] == '\\';
    return k + 1;
}

static size_t skip_value(const char *s, size_t n, size_t k)
{
    int depth = 0;
    while (k < n) {
        if (s[k] == '"') {
            k = skip_string(s, n, k);
            continue;
        }
        if (depth == 0 && strchr(",}]", s[k])) break;
        depth += s[k] == '{' || s[k] == '[';
        depth -= s[k] == '}' || s[k] == ']';
        k++;
    }
    return k;
}

static bool is_key(const char *raw, size_t n, const char *key)
{
    json_t *text = json_loadb(raw, n, JSON_DECODE_ANY, NULL);
    const bool same = text && strcmp(json_string_value(text), key) == 0;
    json_decref(text);
    return same;
}

/* Where the key, or its value, begins in a line that is valid JSON. */
static size_t place_of(const line_reader *in, const char *key, bool value)
{
    const char *s = in->line;
    const size_t n = in->n;
    size_t k = skip_blanks(s, n, 0) + 1;
    for (;;) {
        k = skip_blanks(s, n, k);
        if (k >= n || s[k] != '"') return 0;
        const size_t from = k, behind = skip_string(s, n, k);
        k = skip_blanks(s, n, skip_blanks(s, n, behind) + 1); /* the colon */
        if (is_key(s + from, behind - from, key)) return value ? k : from;
        k = skip_blanks(s, n, skip_value(s, n, k)) + 1; /* the comma */
    }
}

static int32_t column_of(const line_reader *in, size_t at)
{
    int32_t column = 1;
    for (size_t k = 0; k < at; k++) column += ((unsigned char)in->line[k] & 0xC0) != 0x80;
    return column;
}

static bool complain_at(const line_reader *in, int32_t column, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
static bool complain_at(const line_reader *in, int32_t column, const char *fmt, ...)
{
    char text[512];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    return generate_complain("%s:%lld:%d: %s", in->name, (long long)in->number, column, text);
}

static bool complain_value(const line_reader *in, const char *key, const char *wants)
{
    return complain_at(in, column_of(in, place_of(in, key, true)), "\"%s\" wants %s", key, wants);
}

/* ---------------------------------------------------------------- values */

static bool take_id(line_reader *in, const char *key, json_t *value)
{
    (void)key;
    in->r->id = json_incref(value);
    return true;
}

static bool take_ids(line_reader *in, const char *key, json_t *value)
{
    generate_request *r = in->r;
    const size_t n = json_array_size(value);
    if (n == 0 || n > INT32_MAX)
        return complain_value(in, key, "token ids, at least one: [1, 403]");
    if (r->ids) /* "prompt" may be a list of them, too */
        return complain_at(in, column_of(in, place_of(in, key, false)),
                           "token ids twice: give \"prompt\" or \"ids\"");
    r->ids = malloc(n * sizeof(*r->ids));
    if (!r->ids) return generate_complain("out of memory");
    r->n_ids = (int32_t)n;
    r->ids_column = column_of(in, place_of(in, key, true));
    for (size_t k = 0; k < n; k++) {
        const json_t *id = json_array_get(value, k);
        if (!json_is_integer(id) || json_integer_value(id) < 0 ||
            json_integer_value(id) > INT32_MAX)
            return complain_value(in, key, "token ids only: [1, 403]");
        r->ids[k] = (int32_t)json_integer_value(id);
    }
    return true;
}

static bool take_prompt(line_reader *in, const char *key, json_t *value)
{
    generate_request *r = in->r;
    if (json_is_array(value)) return take_ids(in, key, value);
    if (!json_is_string(value)) return complain_value(in, key, "a text, or token ids");
    r->n_text = json_string_length(value);
    r->text = malloc(r->n_text + 1);
    if (!r->text) return generate_complain("out of memory");
    memcpy(r->text, json_string_value(value), r->n_text);
    r->text[r->n_text] = '\0';
    return true;
}

static void drop_stops(generate_request *r)
{
    for (int32_t k = 0; k < r->n_stops; k++) free(r->stops[k]);
    r->n_stops = 0;
}

static bool take_stop(line_reader *in, const char *key, json_t *value)
{
    const bool one = json_is_string(value);
    const size_t n = one ? 1 : json_array_size(value);
    if (!one && !json_is_array(value)) return complain_value(in, key, "a text, or a list of texts");
    drop_stops(in->r); /* of the command line */
    for (size_t k = 0; k < n; k++) {
        const json_t *text = one ? value : json_array_get(value, k);
        if (!json_is_string(text)) return complain_value(in, key, "texts only");
        const char *wrong =
            generate_add_stop(in->r, json_string_value(text), json_string_length(text));
        if (wrong)
            return complain_at(in, column_of(in, place_of(in, key, true)), "\"%s\": %s", key,
                               wrong);
    }
    return true;
}

static bool take_stop_ids(line_reader *in, const char *key, json_t *value)
{
    if (!json_is_array(value)) return complain_value(in, key, "a list of token ids");
    in->r->n_stop_ids = 0;
    in->r->stop_ids_column = column_of(in, place_of(in, key, true));
    for (size_t k = 0; k < json_array_size(value); k++) {
        const json_t *id = json_array_get(value, k);
        if (!json_is_integer(id)) return complain_value(in, key, "token ids only");
        const char *wrong = generate_add_stop_id(in->r, json_integer_value(id));
        if (wrong) return complain_at(in, in->r->stop_ids_column, "\"%s\": %s", key, wrong);
    }
    return true;
}

/* "403" -> 403; -1: no token id */
static int32_t id_of_key(const char *key)
{
    int64_t id = 0;
    if (*key == '\0' || strlen(key) > 10 || key[strspn(key, "0123456789")] != '\0') return -1;
    for (; *key; key++) id = id * 10 + (*key - '0');
    return id <= INT32_MAX ? (int32_t)id : -1;
}

static bool take_bias(line_reader *in, const char *key, json_t *value)
{
    generate_request *r = in->r;
    const size_t n = json_object_size(value);
    if (!json_is_object(value) || n > GENERATE_MAX_BIAS)
        return complain_value(in, key,
                              "an object of token ids and numbers, at most 1024: {\"403\": -5}");
    if (n == 0) return true;
    r->bias = malloc(n * sizeof(*r->bias));
    if (!r->bias) return generate_complain("out of memory");
    r->bias_column = column_of(in, place_of(in, key, true));
    const char *id, *const forbid = "-inf";
    json_t *bias;
    json_object_foreach(value, id, bias)
    {
        const bool never = json_is_string(bias) && strcmp(json_string_value(bias), forbid) == 0;
        const double x = json_number_value(bias);
        if (id_of_key(id) < 0) return complain_value(in, key, "token ids as keys: {\"403\": -5}");
        if (!never && (!json_is_number(bias) || x < -1e6 || x > 1e6))
            return complain_value(in, key,
                                  "numbers from -1e6 to 1e6, or \"-inf\" to forbid a token");
        r->bias[r->n_bias++] =
            (pkv_logit_bias){ id_of_key(id), never ? -__builtin_inff() : (float)x };
    }
    return true;
}

static bool take_field(line_reader *in, const generate_field *f, const char *key, json_t *value)
{
    char range[96];
    bool ok;
    if (f->kind == GENERATE_FLAG) {
        ok = json_is_boolean(value);
        if (ok) generate_field_set_flag(f, in->r, json_is_true(value));
    } else if (f->kind == GENERATE_WHOLE) {
        ok =
            json_is_integer(value) && generate_field_set_whole(f, in->r, json_integer_value(value));
    } else {
        ok = json_is_number(value) && generate_field_set_real(f, in->r, json_number_value(value));
    }
    if (ok) return true;
    generate_field_range(f, range, sizeof(range));
    return complain_value(in, key, range);
}

/* ---------------------------------------------------------------- keys */

static const struct special {
    const char *names[4];
    bool (*take)(line_reader *in, const char *key, json_t *value);
} specials[] = {
    { { "id", "custom_id" }, take_id },
    { { "prompt" }, take_prompt },
    { { "ids", "prompt_token_ids", "input_ids" }, take_ids },
    { { "stop" }, take_stop },
    { { "stop_ids", "stop_token_ids" }, take_stop_ids },
    { { "logit_bias" }, take_bias },
};
#define N_SPECIALS ((int)(sizeof(specials) / sizeof(specials[0])))

static const struct special *find_special(const char *key)
{
    for (int k = 0; k < N_SPECIALS; k++)
        for (int a = 0; a < 4 && specials[k].names[a]; a++)
            if (strcmp(specials[k].names[a], key) == 0) return &specials[k];
    return NULL;
}

static const char *key_name(int k)
{
    for (int s = 0; s < N_SPECIALS; s++)
        for (int a = 0; a < 4 && specials[s].names[a]; a++)
            if (k-- == 0) return specials[s].names[a];
    return generate_field_name(k);
}

static bool unknown_key(const line_reader *in, const char *key)
{
    const int32_t column = column_of(in, place_of(in, key, false));
    const char *near = generate_nearest(key, key_name);
    if (near)
        return complain_at(in, column, "unknown key \"%.64s\"; did you mean \"%s\"?", key, near);
    return complain_at(in, column, "unknown key \"%.64s\"; see pkv-generate --help requests", key);
}

/* One thing under two of its names. */
static const char *same_thing(const line_reader *in, const char *key)
{
    const char *other;
    json_t *value;
    json_object_foreach(in->object, other, value)
    {
        if (strcmp(other, key) == 0) return NULL; /* the first one is not the second */
        const struct special *s = find_special(key);
        if (s ? s == find_special(other) : generate_field_find(key) == generate_field_find(other))
            return other;
    }
    return NULL;
}

static bool take_keys(line_reader *in)
{
    const char *key;
    json_t *value;
    json_object_foreach(in->object, key, value)
    {
        const struct special *s = find_special(key);
        const generate_field *f = s ? NULL : generate_field_find(key);
        if (!s && !f) return unknown_key(in, key);
        const char *twin = same_thing(in, key);
        if (twin)
            return complain_at(in, column_of(in, place_of(in, key, false)),
                               "\"%s\" and \"%s\" are the same", key, twin);
        if (json_is_null(value)) continue; /* as if it were not there */
        if (s ? !s->take(in, key, value) : !take_field(in, f, key, value)) return false;
        if (in->r->text && in->r->ids)
            return complain_at(in, column_of(in, place_of(in, key, false)),
                               "a text and token ids: give one of them");
    }
    if (!in->r->text && !in->r->ids)
        return complain_at(in, 1, "no prompt: give \"prompt\" or \"ids\"");
    const char *wrong = generate_request_check(in->r);
    return !wrong || complain_at(in, 1, "%s", wrong);
}

static bool take_line(line_reader *in)
{
    json_error_t error;
    in->object = json_loadb(in->line, in->n, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &error);
    if (!in->object)
        return complain_at(in, error.column > 0 ? error.column : 1, "not JSON: %.160s", error.text);
    bool ok = json_is_object(in->object);
    if (ok) ok = take_keys(in);
    else complain_at(in, 1, "not an object: {\"prompt\": \"Once upon a time\"}");
    json_decref(in->object);
    return ok;
}

/* ---------------------------------------------------------------- files */

static generate_request *add_request(generate_requests *rs)
{
    if (rs->n == rs->cap) {
        const int32_t cap = rs->cap == 0 ? 16 : rs->cap > INT32_MAX / 2 ? 0 : 2 * rs->cap;
        generate_request *list = cap ? realloc(rs->list, (size_t)cap * sizeof(*list)) : NULL;
        if (!list) return NULL;
        rs->list = list;
        rs->cap = cap;
    }
    return &rs->list[rs->n];
}

static int read_lines(const generate_options *o, const char *text, size_t n, generate_requests *out)
{
    line_reader in = { .name = strcmp(o->requests, "-") == 0 ? "stdin" : o->requests };
    size_t at = n >= 3 && memcmp(text, "\xEF\xBB\xBF", 3) == 0 ? 3 : 0; /* a mark of the encoding */
    for (; at < n; at += in.n + 1) {
        const char *end = memchr(text + at, '\n', n - at);
        in.line = text + at;
        in.n = end ? (size_t)(end - in.line) : n - at;
        in.number++;
        if (skip_blanks(in.line, in.n, 0) == in.n) continue;
        in.r = add_request(out);
        if (!in.r || !generate_request_copy(&o->base, in.r)) {
            generate_complain("out of memory");
            return GENERATE_IO;
        }
        out->n++;
        in.r->line = in.number;
        if (!take_line(&in)) return GENERATE_USAGE;
    }
    if (out->n > 0) return GENERATE_OK;
    generate_complain("%s: no requests", in.name);
    return GENERATE_USAGE;
}

int generate_lines_read(const generate_options *o, generate_requests *out)
{
    size_t n;
    char *text = generate_read_file(o->requests, &n);
    if (!text) return GENERATE_IO;
    const int code = read_lines(o, text, n, out);
    free(text);
    return code;
}

char *generate_read_file(const char *path, size_t *n)
{
    const bool standard = strcmp(path, "-") == 0;
    FILE *file = standard ? stdin : fopen(path, "rb");
    char *text = NULL;
    size_t cap = 0;
    *n = 0;
    while (file && !feof(file) && !ferror(file)) {
        if (*n == cap) {
            char *more = cap > SIZE_MAX / 4 ? NULL : realloc(text, cap + cap / 2 + 65536);
            if (!more) break;
            text = more;
            cap += cap / 2 + 65536;
        }
        *n += fread(text + *n, 1, cap - *n, file);
    }
    const bool whole = file && !ferror(file) && feof(file);
    const int why = !file || ferror(file) ? errno : ENOMEM;
    if (file && !standard) fclose(file);
    if (whole) return text;
    free(text);
    generate_complain("%s: cannot be read: %s", standard ? "stdin" : path, strerror(why));
    return NULL;
}
