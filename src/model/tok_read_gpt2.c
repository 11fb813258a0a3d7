/* GPT-2's own files: encoder.json, an object "piece": id, and vocab.bpe, a comment and one merge a
 * line. Pieces are in the printable alphabet. */
#include "model/tok_internal.h"

#include <jansson.h>

#define ENCODER "encoder.json"
#define END_OF_TEXT "<|endoftext|>"

static pkv_status refuse_piece(const pkv_tokenizer *t, size_t k, const char *why)
{
    return pkv__refuse(&t->log, PKV_E_FORMAT, ENCODER ": line 1: entry %zu %s", k, why);
}

static pkv_status read_entries(pkv_tokenizer *t, json_t *object)
{
    const size_t n = json_object_size(object);
    const char *text;
    json_t *value;
    size_t k = 0, bytes;
    json_object_keylen_foreach(object, text, bytes, value)
    {
        const json_int_t id = json_integer_value(value);
        if (!json_is_integer(value) || id < 0 || (uint64_t)id >= 2 * n + 256)
            return refuse_piece(t, k, "has no id, or one far beyond the number of entries");
        const bool is_end = bytes == strlen(END_OF_TEXT) && memcmp(text, END_OF_TEXT, bytes) == 0;
        const pkv_status status = pkv__tok_set_printable(
            t, (int32_t)id, text, bytes, is_end ? PKV__PIECE_CONTROL : PKV__PIECE_NORMAL);
        if (status == PKV_E_FORMAT) return refuse_piece(t, k, "has the id of another");
        if (status != PKV_OK) return status;
        if (is_end) t->bos = t->eos = t->unk = (int32_t)id;
        k++;
    }
    return PKV_OK;
}

static pkv_status read_encoder(pkv_tokenizer *t, const uint8_t *data, size_t n)
{
    json_error_t error;
    json_t *object =
        json_loadb((const char *)data, n, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &error);
    if (!object && json_error_code(&error) == json_error_out_of_memory) return PKV_E_NO_MEMORY;
    pkv_status status;
    if (!json_is_object(object))
        status = pkv__refuse(&t->log, PKV_E_FORMAT, ENCODER ": byte %d: no JSON object",
                             object ? 0 : error.position);
    else status = read_entries(t, object);
    json_decref(object);
    return status;
}

static pkv_status read_merges(pkv_tokenizer *t, const uint8_t *data, size_t n)
{
    int64_t line = 1;
    for (size_t at = 0; at < n; line++) {
        const uint8_t *feed = memchr(data + at, '\n', n - at);
        size_t end = feed ? (size_t)(feed - data) : n;
        const size_t next = feed ? end + 1 : n;
        if (end > at && data[end - 1] == '\r') end--;
        const bool comment = line == 1 && end - at >= 8 && memcmp(data + at, "#version", 8) == 0;
        if (end > at && !comment) {
            const pkv_status status = pkv__tok_add_printable_merge(t, data + at, end - at);
            if (status == PKV_E_FORMAT)
                return pkv__tok_refuse_line(t, line, "no new pair of pieces that make one");
            if (status != PKV_OK) return status;
        }
        at = next;
    }
    return PKV_OK;
}

pkv_status pkv__tok_read_gpt2(pkv_tokenizer *t, const uint8_t *merges, size_t n,
                              const uint8_t *json, size_t n_json)
{
    t->source = "vocab.bpe";
    t->rule = PKV__RULE_PAIRS;
    if (t->splitter == PKV__SPLIT_UNSET) t->splitter = PKV__SPLIT_GPT2;
    pkv_status status = read_encoder(t, json, n_json);
    if (status == PKV_OK) status = pkv__tok_index(t);
    return status == PKV_OK ? read_merges(t, merges, n) : status;
}
