/* pkv-info model: what is known of one model. */
#ifndef PKV_INFO_MODEL_H
#define PKV_INFO_MODEL_H

#include "pkv_info.h"

#include "pagedkv/kv_size.h"
#include "pagedkv/model.h"
#include "pagedkv/tokenizer.h"

typedef struct info_model_facts {
    const char *path;
    pkv_model *model;
    pkv_model_info info;
    uint8_t digest[32];
    char license[128];
    pkv_dtype kv_dtype;
    double kv_token_bytes; /* K and V of one token in one layer */
    pkv_tokenizer *tok;    /* NULL: none */
    pkv_tokenizer_info tok_info;
    char tok_missing[256];       /* why there is none */
    bool tensors;                /* list them */
    int32_t test_ids;            /* ids of the self-test; 0: none was made */
    int32_t test_equal;          /* how many came out equal before the first other one */
    int32_t test_got, test_want; /* that one; -1: none */
    info_log log;
} info_model_facts;

/* One row of the table of costs: the embedding, a layer, the last norm, the head. */
typedef struct info_part {
    char name[24];
    int64_t parameters, bytes; /* bytes as they are kept */
    int64_t flop, flop_per_key;
    double kv_bytes;
} info_part;
/* Part k of the n_layers + 3. */
info_part info_model_part(const info_model_facts *m, int32_t k);
int32_t info_model_parts(const info_model_facts *m);
info_part info_model_total(const info_model_facts *m);

/* Fill the figures of the self-test; the exit status if it cannot be made. */
int info_model_selftest(info_model_facts *m);
int info_model_print(const info_model_facts *m);
int info_model_json(const info_model_facts *m);

#endif
