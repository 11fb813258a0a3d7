/* pkv-info kv-size: one question, and the rows of its answer. */
#ifndef PKV_INFO_KV_H
#define PKV_INFO_KV_H

#include "pkv_info.h"

#include "pagedkv/kv_size.h"

typedef struct info_kv {
    const char *path;  /* NULL: from options alone */
    pkv_kv_source src; /* of the file, changed by options */
    pkv_kv_budget budget;
    bool has_memory, has_dtype;
    pkv_dtype dtype;          /* of K and V, with has_dtype */
    int64_t bandwidth;        /* bytes per second and rank; 0: not given */
    const char *weights_from; /* "--weights", "--params", "files", "dimensions"; NULL: unknown */
    pkv_dtype weight_dtype;   /* of parameters that are not in files */
    bool as_dtype;            /* weights are parameters times this type */
    info_log log;
} info_kv;

/* The model with other heads, or with a latent, and one type of K and V. */
typedef struct info_kv_row {
    char name[24]; /* "MHA", "GQA 4:1", "MQA", "MLA" */
    bool own;      /* the heads of the model */
    pkv_kv_geometry geometry;
    pkv_kv_size size;
    bool fits;        /* at least one sequence */
    double ms_alone;  /* a token of one sequence; 0 without bandwidth */
    double ms_all;    /* a step of all that fit, paged */
    double per_s_all; /* tokens per second of all */
} info_kv_row;

#define INFO_KV_ROWS (4 * PKV_DTYPE_COUNT)
/* Fill rows, the model's own first. False: it cannot be computed; the log says why. */
bool info_kv_rows(info_kv *kv, info_kv_row rows[INFO_KV_ROWS], int *n);

int info_kv_print(const info_kv *kv, const info_kv_row *rows, int n);
int info_kv_json(const info_kv *kv, const info_kv_row *rows, int n);

#endif
