/* tokenizer.json: what its two files share. */
#ifndef PKV_MODEL_TOK_JSON_H
#define PKV_MODEL_TOK_JSON_H

#include "model/tok_internal.h"

#include <jansson.h>

/* "tokenizer.json: byte 0: key: why" */
pkv_status pkv__json_refuse(const pkv_tokenizer *t, pkv_status status, const char *key,
                            const char *why);
/* Normalisers and pre-tokenizers: sets is_spm, splitter, normaliser and space_prefix. What is not
 * known is PKV_E_UNSUPPORTED with its name. */
PKV_NODISCARD pkv_status pkv__json_read_steps(pkv_tokenizer *t, const json_t *root);
/* Post-processors: sets bos, eos, adds_bos and adds_eos. */
PKV_NODISCARD pkv_status pkv__json_read_template(pkv_tokenizer *t, const json_t *root);

#endif
