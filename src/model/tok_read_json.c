/* Hugging Face's tokenizer.json: known by name, not read. */
#include "model/tok_internal.h"

pkv_status pkv__tok_read_json(pkv_tokenizer *t, const uint8_t *data, size_t n)
{
    (void)data;
    (void)n;
    return pkv__refuse(&t->log, PKV_E_UNSUPPORTED,
                       "%.64s: tokenizer.json is not read by this version: give tokenizer.model, "
                       "a .gguf, a .tiktoken or vocab.bpe",
                       t->name);
}
