/* Splitting text into words before byte-level BPE: what the expressions of GPT-2, Llama 3 and Qwen
 * 2 match, written out by hand. Letters, numbers and white space are those of utf8proc's Unicode
 * version; a byte that is no character is like a symbol.
 *
 *   gpt2    's 't 're 've 'm 'll 'd |  ?L+ |  ?N+ |  ?other+ | spaces
 *   llama3  the same in either case | one that is no L, N or line end, then L+, or L+ |
 *           N, up to 3 | ?other+ and line ends | spaces up to the last line end | spaces
 *   qwen2   as llama3, numbers one by one
 * Spaces before something else leave the last one to it. */
#include "model/tok_internal.h"

#include <utf8proc.h>

size_t pkv__utf8_next(const uint8_t *text, size_t n, int32_t *cp)
{
    if (text[0] < 0x80) {
        *cp = text[0];
        return 1;
    }
    const utf8proc_ssize_t step =
        utf8proc_iterate(text, n < 4 ? (utf8proc_ssize_t)n : 4, (utf8proc_int32_t *)cp);
    if (step > 0) return (size_t)step;
    *cp = -1;
    return 1;
}

bool pkv__is_space(int32_t cp)
{
    if (cp < 0x80) return cp == ' ' || (cp >= 9 && cp <= 13);
    return cp == 0x85 || cp == 0xA0 || cp == 0x1680 || (cp >= 0x2000 && cp <= 0x200A) ||
           cp == 0x2028 || cp == 0x2029 || cp == 0x202F || cp == 0x205F || cp == 0x3000;
}

bool pkv__is_letter(int32_t cp)
{
    if (cp < 0x80) return (cp >= 'a' && cp <= 'z') || (cp >= 'A' && cp <= 'Z');
    const utf8proc_category_t c = utf8proc_category(cp);
    return c >= UTF8PROC_CATEGORY_LU && c <= UTF8PROC_CATEGORY_LO;
}

bool pkv__is_number(int32_t cp)
{
    if (cp < 0x80) return cp >= '0' && cp <= '9';
    const utf8proc_category_t c = utf8proc_category(cp);
    return c >= UTF8PROC_CATEGORY_ND && c <= UTF8PROC_CATEGORY_NO;
}

static bool is_other(int32_t cp)
{
    return !pkv__is_space(cp) && !pkv__is_letter(cp) && !pkv__is_number(cp);
}

static bool is_line_end(int32_t cp)
{
    return cp == '\r' || cp == '\n';
}

/* ---------------------------------------------------------------- names */

static const char *const names[] = {
    [PKV__SPLIT_UNSET] = "unset",   [PKV__SPLIT_NONE] = "none",   [PKV__SPLIT_GPT2] = "gpt2",
    [PKV__SPLIT_LLAMA3] = "llama3", [PKV__SPLIT_QWEN2] = "qwen2", [PKV__SPLIT_PATTERN] = "pattern",
};

pkv__splitter pkv__splitter_from_name(const char *name)
{
    for (int s = PKV__SPLIT_NONE; s <= PKV__SPLIT_QWEN2; s++)
        if (strcmp(name, names[s]) == 0) return (pkv__splitter)s;
    return PKV__SPLIT_UNSET;
}

const char *pkv__splitter_name(pkv__splitter s)
{
    return names[s];
}

/* ---------------------------------------------------------------- runs */

/* End of the run of characters of a class from `at` on, at most `most` of them. */
static size_t run(const uint8_t *text, size_t n, size_t at, bool (*class_of)(int32_t), size_t most)
{
    for (size_t k = 0; at < n && k < most; k++) {
        int32_t cp;
        const size_t step = pkv__utf8_next(text + at, n - at, &cp);
        if (!class_of(cp)) break;
        at += step;
    }
    return at;
}

/* An apostrophe and s, t, re, ve, m, ll or d; 0: none. In either case U+017F is an s too. */
static size_t contraction(const uint8_t *text, size_t n, size_t at, bool any_case)
{
    static const char *const tails[] = { "s", "t", "re", "ve", "m", "ll", "d" };
    if (text[at] != '\'') return 0;
    for (size_t k = 0; k < PKV_ARRAY_LEN(tails); k++) {
        const size_t bytes = strlen(tails[k]);
        size_t same = 0;
        if (bytes > n - at - 1) continue;
        for (; same < bytes; same++) {
            const uint8_t c = text[at + 1 + same];
            const uint8_t low = any_case && c >= 'A' && c <= 'Z' ? (uint8_t)(c + 32) : c;
            if (low != (uint8_t)tails[k][same]) break;
        }
        if (same == bytes) return at + 1 + bytes;
    }
    if (any_case && n - at >= 3 && text[at + 1] == 0xC5 && text[at + 2] == 0xBF) return at + 3;
    return 0;
}

/* White space that nothing else took. */
static size_t spaces(const uint8_t *text, size_t n, size_t at)
{
    size_t end = at, last = at;
    while (end < n) {
        int32_t cp;
        const size_t step = pkv__utf8_next(text + end, n - end, &cp);
        if (!pkv__is_space(cp)) break;
        last = end;
        end += step;
    }
    return end == n || last == at ? end : last;
}

/* White space up to the last line end in it; 0: there is none. */
static size_t lines(const uint8_t *text, size_t n, size_t at)
{
    size_t end = 0;
    while (at < n) {
        int32_t cp;
        at += pkv__utf8_next(text + at, n - at, &cp);
        if (!pkv__is_space(cp)) break;
        if (is_line_end(cp)) end = at;
    }
    return end;
}

/* ---------------------------------------------------------------- splitters */

static size_t next_gpt2(const uint8_t *text, size_t n, size_t at)
{
    size_t end = contraction(text, n, at, false);
    if (end > 0) return end;
    const size_t from = at + (text[at] == ' ');
    end = run(text, n, from, pkv__is_letter, SIZE_MAX);
    if (end == from) end = run(text, n, from, pkv__is_number, SIZE_MAX);
    if (end == from) end = run(text, n, from, is_other, SIZE_MAX);
    return end > from ? end : spaces(text, n, at);
}

static size_t next_newer(const uint8_t *text, size_t n, size_t at, size_t most_numbers)
{
    int32_t cp;
    size_t end = contraction(text, n, at, true);
    if (end > 0) return end;
    const size_t step = pkv__utf8_next(text + at, n - at, &cp);
    const bool joins = !is_line_end(cp) && !pkv__is_letter(cp) && !pkv__is_number(cp);
    const size_t letters = joins ? at + step : at;
    end = run(text, n, letters, pkv__is_letter, SIZE_MAX);
    if (end > letters) return end;
    end = run(text, n, at, pkv__is_number, most_numbers);
    if (end > at) return end;
    const size_t from = at + (cp == ' ');
    end = run(text, n, from, is_other, SIZE_MAX);
    if (end > from) return run(text, n, end, is_line_end, SIZE_MAX);
    end = lines(text, n, at);
    return end > 0 ? end : spaces(text, n, at);
}

size_t pkv__split_next(pkv__splitter s, const uint8_t *text, size_t n, size_t at)
{
    switch (s) {
    case PKV__SPLIT_GPT2:
        return next_gpt2(text, n, at);
    case PKV__SPLIT_LLAMA3:
        return next_newer(text, n, at, 3);
    case PKV__SPLIT_QWEN2:
        return next_newer(text, n, at, 1);
    default:
        return n;
    }
}
