/* JSON as RFC 8259 has it, one object at a time and in one pass: the members of the object come out
 * as texts, what is nested in them is checked and passed over. Strings are decoded where they
 * stand, so that escapes make no difference. A key twice in one object, text that is not UTF-8 and
 * more than MAX_DEPTH levels are errors. */
#include "sim/trace.h"

#define MAX_DEPTH 64

static bool fail(pkv__json *js, const char *expected)
{
    if (!js->expected) {
        js->expected = expected;
        js->error_byte = js->at - js->begin + 1;
    }
    return false;
}

static void skip_blanks(pkv__json *js)
{
    while (js->at < js->end &&
           (*js->at == ' ' || *js->at == '\t' || *js->at == '\r' || *js->at == '\n'))
        js->at++;
}

static bool take(pkv__json *js, char c)
{
    if (js->at == js->end || *js->at != c) return false;
    js->at++;
    return true;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* ---------------------------------------------------------------- strings */

/* Bytes of the UTF-8 character at `at`, which has bit 7 set; 0: it is none. */
static int utf8_length(const char *at, const char *end)
{
    const unsigned char *s = (const unsigned char *)at;
    const int n = s[0] >= 0xf0 ? 4 : s[0] >= 0xe0 ? 3 : 2;
    if (s[0] < 0xc2 || s[0] > 0xf4 || end - at < n) return 0;
    for (int k = 1; k < n; k++)
        if ((s[k] & 0xc0) != 0x80) return 0;
    if ((s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xf0 && s[1] < 0x90)) return 0; /* too long */
    if ((s[0] == 0xed && s[1] > 0x9f) || (s[0] == 0xf4 && s[1] > 0x8f)) return 0; /* no character */
    return n;
}

static char *put_utf8(char *to, uint32_t c)
{
    if (c < 0x80) {
        *to++ = (char)c;
        return to;
    }
    const int n = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    static const unsigned char lead[] = { 0, 0, 0xc0, 0xe0, 0xf0 };
    *to++ = (char)(lead[n] | c >> 6 * (n - 1));
    for (int k = n - 2; k >= 0; k--) *to++ = (char)(0x80 | ((c >> 6 * k) & 0x3f));
    return to;
}

static bool take_hex4(pkv__json *js, uint32_t *out)
{
    uint32_t value = 0;
    for (int k = 0; k < 4; k++) {
        const char c = js->at < js->end ? *js->at : ' ';
        uint32_t digit;
        if (is_digit(c)) digit = (uint32_t)(c - '0');
        else if (c >= 'a' && c <= 'f') digit = (uint32_t)(c - 'a' + 10);
        else if (c >= 'A' && c <= 'F') digit = (uint32_t)(c - 'A' + 10);
        else return fail(js, "four hexadecimal digits");
        value = 16 * value + digit;
        js->at++;
    }
    *out = value;
    return true;
}

/* What stands behind a backslash, decoded to *to. */
static bool decode_escape(pkv__json *js, char **to)
{
    static const char letters[] = "\"\\/bfnrt", meanings[] = "\"\\/\b\f\n\r\t";
    const char c = js->at < js->end ? *js->at : '\0';
    const char *letter = c ? strchr(letters, c) : NULL;
    if (letter) {
        js->at++;
        *(*to)++ = meanings[letter - letters];
        return true;
    }
    uint32_t code, low;
    if (c != 'u') return fail(js, "an escape");
    js->at++;
    if (!take_hex4(js, &code)) return false;
    if (code >= 0xdc00 && code <= 0xdfff) return fail(js, "the first half of a surrogate pair");
    if (code >= 0xd800 && code <= 0xdbff) {
        if (!take(js, '\\') || !take(js, 'u') || !take_hex4(js, &low) || low < 0xdc00 ||
            low > 0xdfff)
            return fail(js, "the second half of a surrogate pair");
        code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
    }
    *to = put_utf8(*to, code);
    return true;
}

/* A string from its opening quote on; what it says is shorter than how it is written. */
static bool read_string(pkv__json *js, pkv__text *out)
{
    if (!take(js, '"')) return fail(js, "a string");
    char *const start = js->at;
    while (js->at < js->end && *js->at >= 0x20 && *js->at != '"' && *js->at != '\\') js->at++;
    char *to = js->at;
    while (js->at < js->end && *js->at != '"') {
        const unsigned char c = (unsigned char)*js->at;
        if (c == '\\') {
            js->at++;
            if (!decode_escape(js, &to)) return false;
            continue;
        }
        const int n = c < 0x20 ? 0 : c < 0x80 ? 1 : utf8_length(js->at, js->end);
        if (n == 0) return fail(js, c < 0x20 ? "an escape for the control character" : "UTF-8");
        for (int k = 0; k < n; k++) *to++ = *js->at++;
    }
    *out = (pkv__text){ start, (size_t)(to - start) };
    return take(js, '"') || fail(js, "a closing quote");
}

/* ---------------------------------------------------------------- keys */

/* FNV-1a. */
static uint32_t hash_of(pkv__text text)
{
    uint32_t h = UINT32_C(2166136261);
    for (size_t k = 0; k < text.len; k++) h = (h ^ (unsigned char)text.at[k]) * UINT32_C(16777619);
    return h;
}

/* The key of a member and the colon; the object's keys are keys[first .. n_keys). */
static bool read_key(pkv__json *js, int first, pkv__text *out)
{
    skip_blanks(js);
    if (!read_string(js, out)) return false;
    const uint32_t hash = hash_of(*out);
    for (int k = first; k < js->n_keys; k++) {
        const pkv__json_key *old = &js->keys[k];
        if (old->hash == hash && old->name.len == out->len &&
            memcmp(old->name.at, out->at, out->len) == 0)
            return fail(js, "a key that the object does not have yet");
    }
    if (js->n_keys == PKV__MAX_COLUMNS) return fail(js, "at most 256 keys");
    js->keys[js->n_keys++] = (pkv__json_key){ *out, hash };
    skip_blanks(js);
    return take(js, ':') || fail(js, "a colon");
}

/* ---------------------------------------------------------------- values */

static bool skip_digits(pkv__json *js)
{
    const char *start = js->at;
    while (js->at < js->end && is_digit(*js->at)) js->at++;
    return js->at > start || fail(js, "a digit");
}

static bool skip_number(pkv__json *js)
{
    take(js, '-');
    if (!take(js, '0') && !skip_digits(js)) return false;
    if (take(js, '.') && !skip_digits(js)) return false;
    if (!take(js, 'e') && !take(js, 'E')) return true;
    if (!take(js, '+')) take(js, '-');
    return skip_digits(js);
}

static bool skip_word(pkv__json *js, const char *word)
{
    const size_t n = strlen(word);
    if ((size_t)(js->end - js->at) < n || memcmp(js->at, word, n) != 0)
        return fail(js, "true, false or null");
    js->at += n;
    return true;
}

static bool skip_value(pkv__json *js);

static bool skip_list(pkv__json *js)
{
    js->at++;
    skip_blanks(js);
    if (take(js, ']')) return true;
    do {
        if (!skip_value(js)) return false;
        skip_blanks(js);
    } while (take(js, ','));
    return take(js, ']') || fail(js, "a comma or ]");
}

static bool skip_object(pkv__json *js)
{
    const int first = js->n_keys;
    js->at++;
    skip_blanks(js);
    if (take(js, '}')) return true;
    do {
        pkv__text key;
        if (!read_key(js, first, &key) || !skip_value(js)) return false;
        skip_blanks(js);
    } while (take(js, ','));
    js->n_keys = first;
    return take(js, '}') || fail(js, "a comma or }");
}

static bool skip_nested(pkv__json *js)
{
    if (js->depth == MAX_DEPTH) return fail(js, "at most 64 levels");
    js->depth++;
    const bool ok = *js->at == '[' ? skip_list(js) : skip_object(js);
    js->depth--;
    return ok;
}

static bool skip_value(pkv__json *js)
{
    pkv__text text;
    skip_blanks(js);
    switch (js->at < js->end ? *js->at : '\0') {
    case '{':
    case '[':
        return skip_nested(js);
    case '"':
        return read_string(js, &text);
    case 't':
        return skip_word(js, "true");
    case 'f':
        return skip_word(js, "false");
    case 'n':
        return skip_word(js, "null");
    case '-':
        return skip_number(js);
    default:
        if (js->at < js->end && is_digit(*js->at)) return skip_number(js);
        return fail(js, "a value");
    }
}

/* ---------------------------------------------------------------- content ids */

/* A whole number of -2^63 .. 2^64 - 1; false: it is not, or not only. */
static bool take_id(pkv__json *js, pkv__id *out)
{
    const bool negative = take(js, '-');
    const char *start = js->at;
    uint64_t value = 0;
    for (; js->at < js->end && is_digit(*js->at); js->at++) {
        const uint64_t digit = (uint64_t)(*js->at - '0');
        if (value > (UINT64_MAX - digit) / 10) return false;
        value = 10 * value + digit;
    }
    if (js->at == start || (*start == '0' && js->at - start > 1)) return false;
    if (negative && value > UINT64_C(1) << 63) return false;
    *out = (pkv__id){ value, negative && value > 0 };
    return true;
}

static bool append_ids(pkv__json *js, const pkv__id *ids, int n)
{
    js->status = pkv__ids_append(js->ids, ids, n);
    js->n_ids += n;
    return js->status == PKV_OK;
}

/* A list of ids from its [ on; false: it holds something else, or status is not PKV_OK. */
static bool take_ids(pkv__json *js)
{
    pkv__id ids[PKV__IDS_AT_ONCE];
    int n = 0;
    if (!take(js, '[')) return false;
    skip_blanks(js);
    if (take(js, ']')) return true;
    for (;;) {
        skip_blanks(js);
        if (n == PKV__IDS_AT_ONCE) {
            if (!append_ids(js, ids, n)) return false;
            n = 0;
        }
        if (!take_id(js, &ids[n++])) return false;
        skip_blanks(js);
        if (take(js, ']')) return append_ids(js, ids, n);
        if (!take(js, ',')) return false;
    }
}

/* The value of ids_key; false: not JSON, or status is not PKV_OK. */
static bool read_ids(pkv__json *js)
{
    char *const start = js->at;
    js->n_ids = 0;
    if (take_ids(js)) return true;
    if (js->status != PKV_OK) return false;
    js->at = start;
    js->ids_bad = true;
    return skip_value(js);
}

void pkv__json_read_ids(pkv__json *js, pkv__trace_value value)
{
    if (value.kind == PKV__VALUE_NONE) return;
    js->at = js->begin + (value.text.at - js->begin);
    js->end = js->at + value.text.len;
    js->n_ids = 0;
    js->ids_bad = value.kind != PKV__VALUE_OTHER || !take_ids(js);
}

/* ---------------------------------------------------------------- the object */

static bool read_value(pkv__json *js, bool is_ids, pkv__trace_value *out)
{
    skip_blanks(js);
    char *const start = js->at;
    const char c = start < js->end ? *start : '\0';
    if (c == '"') {
        out->kind = PKV__VALUE_STRING;
        js->ids_bad |= is_ids;
        return read_string(js, &out->text);
    }
    if (is_ids && c != 'n' ? !read_ids(js) : !skip_value(js)) return false;
    out->text = (pkv__text){ start, (size_t)(js->at - start) };
    out->kind = c == '-' || is_digit(c) ? PKV__VALUE_PLAIN
                : c == 'n'              ? PKV__VALUE_NONE
                                        : PKV__VALUE_OTHER;
    return true;
}

static bool read_members(pkv__json *js)
{
    skip_blanks(js);
    if (take(js, '}')) return true;
    do {
        pkv__text *name = &js->names[js->n];
        if (!read_key(js, 0, name)) return false;
        const bool is_ids = js->ids_key && pkv__text_is(*name, js->ids_key);
        if (!read_value(js, is_ids, &js->values[js->n])) return false;
        js->n++;
        skip_blanks(js);
    } while (take(js, ','));
    return take(js, '}') || fail(js, "a comma or }");
}

bool pkv__json_read(pkv__json *js, char *at, size_t len)
{
    js->begin = js->at = at;
    js->end = at + len;
    js->n = js->n_keys = js->depth = 0;
    js->n_ids = -1;
    js->ids_bad = false;
    js->status = PKV_OK;
    js->expected = NULL;
    skip_blanks(js);
    if (!take(js, '{')) return fail(js, "an object");
    if (!read_members(js)) return false;
    skip_blanks(js);
    return js->at == js->end || fail(js, "nothing behind the object");
}
