/* tiktoken files: lines "base64 rank". The rank is the id, and merges are found by it. */
#include "model/tok_internal.h"

static int32_t digit_of(uint8_t c)
{
    if (c >= 'A' && c <= 'Z') return c - 'A';
    if (c >= 'a' && c <= 'z') return c - 'a' + 26;
    if (c >= '0' && c <= '9') return c - '0' + 52;
    if (c == '+') return 62;
    return c == '/' ? 63 : -1;
}

/* In place over `to`, which has room for 3/4 of the text. False: no base64. */
static bool from_base64(const uint8_t *text, size_t n, uint8_t *to, size_t *n_out)
{
    if (n == 0 || n % 4 != 0) return false;
    const size_t pad = text[n - 1] != '=' ? 0 : text[n - 2] == '=' ? 2 : 1;
    size_t m = 0;
    for (size_t k = 0; k < n; k += 4) {
        uint32_t bits = 0;
        for (size_t j = 0; j < 4; j++) {
            const int32_t d = k + j >= n - pad ? 0 : digit_of(text[k + j]);
            if (d < 0) return false;
            bits = bits << 6 | (uint32_t)d;
        }
        to[m++] = (uint8_t)(bits >> 16);
        to[m++] = (uint8_t)(bits >> 8);
        to[m++] = (uint8_t)bits;
    }
    *n_out = m - pad;
    return true;
}

static bool read_rank(const uint8_t *text, size_t n, int64_t *rank)
{
    *rank = 0;
    if (n == 0 || n > 9) return false;
    for (size_t k = 0; k < n; k++) {
        if (text[k] < '0' || text[k] > '9') return false;
        *rank = 10 * *rank + (text[k] - '0');
    }
    return true;
}

static pkv_status read_line(pkv_tokenizer *t, const uint8_t *text, size_t n, int64_t line,
                            int64_t n_lines, uint8_t *piece)
{
    size_t n_piece;
    int64_t rank;
    const uint8_t *space = memchr(text, ' ', n);
    if (!space) return pkv__tok_refuse_line(t, line, "expected \"base64 rank\"");
    const size_t at = (size_t)(space - text);
    if (!from_base64(text, at, piece, &n_piece)) return pkv__tok_refuse_line(t, line, "no base64");
    if (!read_rank(space + 1, n - at - 1, &rank)) return pkv__tok_refuse_line(t, line, "no rank");
    if (rank >= 2 * n_lines + 256)
        return pkv__tok_refuse_line(t, line, "rank %lld in a file of %lld lines", (long long)rank,
                                    (long long)n_lines);
    const pkv_status status = pkv__tok_set(t, (int32_t)rank, piece, n_piece, 0, PKV__PIECE_NORMAL);
    if (status == PKV_E_FORMAT)
        return pkv__tok_refuse_line(t, line, "rank %lld comes twice", (long long)rank);
    return status;
}

static pkv_status read_lines(pkv_tokenizer *t, const uint8_t *data, size_t n, uint8_t *piece)
{
    int64_t n_lines = 1, line = 1;
    for (size_t k = 0; k < n; k++) n_lines += data[k] == '\n';
    for (size_t at = 0; at < n; line++) {
        const uint8_t *feed = memchr(data + at, '\n', n - at);
        size_t end = feed ? (size_t)(feed - data) : n;
        const size_t next = feed ? end + 1 : n;
        if (end > at && data[end - 1] == '\r') end--;
        if (end > at) {
            const pkv_status status = read_line(t, data + at, end - at, line, n_lines, piece);
            if (status != PKV_OK) return status;
        }
        at = next;
    }
    return PKV_OK;
}

pkv_status pkv__tok_read_tiktoken(pkv_tokenizer *t, const uint8_t *data, size_t n)
{
    t->source = "tiktoken";
    t->rule = PKV__RULE_RANKS;
    if (t->splitter == PKV__SPLIT_UNSET)
        return pkv__refuse(
            &t->log, PKV_E_UNSUPPORTED,
            "%.64s: tiktoken files name no splitter: say gpt2, llama3, qwen2 or none", t->name);
    uint8_t *piece = pkv__alloc(&t->alloc, n + 4, 1);
    if (!piece) return PKV_E_NO_MEMORY;
    const pkv_status status = read_lines(t, data, n, piece);
    pkv__free(&t->alloc, piece, n + 4);
    return status == PKV_OK ? pkv__tok_index(t) : status;
}
