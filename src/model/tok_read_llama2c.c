/* Vocabularies of llama2.c: u32 longest piece, then for each piece f32 score, u32 bytes, bytes, all
 * little-endian. The number of pieces is not in the file. Ids are those of the SentencePiece model
 * it was made from: 0 unknown, 1 and 2 begin and end, 3 to 258 bytes. */
#include "model/tok_internal.h"

#include <math.h>

#define N_FIXED 259

static uint32_t u32_at(const uint8_t *data)
{
    return (uint32_t)data[0] | (uint32_t)data[1] << 8 | (uint32_t)data[2] << 16 |
           (uint32_t)data[3] << 24;
}

static pkv__piece_type type_of(int32_t id)
{
    if (id == 0) return PKV__PIECE_UNKNOWN;
    if (id <= 2) return PKV__PIECE_CONTROL;
    return id < N_FIXED ? PKV__PIECE_BYTE : PKV__PIECE_NORMAL;
}

static pkv_status read_piece(pkv_tokenizer *t, const uint8_t *data, size_t n, int32_t id,
                             uint32_t longest, size_t *at)
{
    float score;
    if (n - *at < 8)
        return pkv__tok_refuse(t, *at, PKV_E_FORMAT,
                               "the file ends before piece %d: is vocab_size right?", id);
    const uint32_t bits = u32_at(data + *at);
    uint32_t bytes = u32_at(data + *at + 4);
    memcpy(&score, &bits, sizeof(score));
    if (isnan(score)) return pkv__tok_refuse(t, *at, PKV_E_FORMAT, "a score that is no number");
    if (bytes > n - *at - 8)
        return pkv__tok_refuse(t, *at + 4, PKV_E_FORMAT,
                               "piece %d of %u bytes ends behind the file", id, bytes);
    if (bytes > longest)
        return pkv__tok_refuse(t, *at + 4, PKV_E_FORMAT,
                               "piece %d has %u bytes, the longest is said to have %u", id, bytes,
                               longest);
    const uint8_t *text = data + *at + 8;
    const size_t next = *at + 8 + bytes;
    if (type_of(id) == PKV__PIECE_CONTROL && bytes > 2 && text[0] == '\n' &&
        text[bytes - 1] == '\n') {
        text++; /* "\n<s>\n": line ends that are no part of the name */
        bytes -= 2;
    }
    const pkv_status status = pkv__tok_set_spm(t, id, text, bytes, score, type_of(id));
    if (status == PKV_E_FORMAT)
        return pkv__tok_refuse(t, *at + 8, status, "piece %d is no new byte <0xNN>", id);
    *at = next;
    return status;
}

pkv_status pkv__tok_read_llama2c(pkv_tokenizer *t, const uint8_t *data, size_t n,
                                 int32_t vocab_size)
{
    size_t at = 4;
    pkv_status status = PKV_OK;
    t->source = "llama2.c";
    t->is_spm = true;
    t->rule = PKV__RULE_SCORES;
    t->space_prefix = t->adds_bos = t->fuse_unk = true;
    if (vocab_size <= 0)
        return pkv__refuse(&t->log, PKV_E_INVALID_ARG,
                           "%.64s: byte 0: llama2.c's vocabularies do not say how many pieces they "
                           "have: give vocab_size",
                           t->name);
    if (n < 4) return pkv__tok_refuse(t, 0, PKV_E_FORMAT, "a file of %zu bytes", n);
    if (vocab_size < N_FIXED)
        return pkv__tok_refuse(t, 0, PKV_E_FORMAT, "vocab_size %d is less than %d", vocab_size,
                               N_FIXED);
    for (int32_t id = 0; status == PKV_OK && id < vocab_size; id++)
        status = read_piece(t, data, n, id, u32_at(data), &at);
    if (status != PKV_OK) return status;
    if (at != n)
        return pkv__tok_refuse(t, at, PKV_E_FORMAT,
                               "%zu bytes are left after %d pieces: is vocab_size right?", n - at,
                               vocab_size);
    t->unk = 0;
    t->bos = 1;
    t->eos = 2;
    return pkv__tok_index(t);
}
