/* Random models whose results another program computed (scripts/make_goldens.py): what it found,
 * the same weights, and files that hold them. Weights are in no file: each tensor is drawn from
 * Philox, keyed by its name, and has values that bfloat16 holds. */
#ifndef PKV_TESTS_GOLDEN_FILE_H
#define PKV_TESTS_GOLDEN_FILE_H

#include "model_test.h"

#include <jansson.h>

#define GOLDEN_MAX_TENSORS 64
#define GOLDEN_MAX_IDS 64

typedef struct golden_tensor {
    char name[64];
    int32_t rows, cols; /* cols 0: a vector */
    float *values;
} golden_tensor;

typedef struct golden {
    char name[32];
    json_t *root; /* of the file; see the script */
    int32_t vocab, hidden, heads, kv_heads, head_dim, ffn, layers;
    bool tied;
    golden_tensor tensors[GOLDEN_MAX_TENSORS]; /* in order of name */
    int32_t n_tensors;
    int32_t ids[GOLDEN_MAX_IDS], positions[GOLDEN_MAX_IDS]; /* the probe; positions have gaps */
    int32_t n_ids;
    int32_t rows[GOLDEN_MAX_IDS]; /* tokens of the probe whose results are known */
    int32_t n_rows;
    double *logits; /* [n_rows][vocab] */
    double *states; /* [layers + 1][n_rows][hidden], after the embedding and after each layer */
} golden;

/* Names of all of them, NULL at the end. */
extern const char *const golden_names[];

golden golden_open(const char *name);
void golden_close(golden *g);
/* A list of whole numbers: their number. */
int32_t golden_ints(const json_t *list, int32_t *out, int32_t cap);
void golden_sha256(const golden *g, char hex[65]);

typedef enum golden_layout {
    GOLDEN_F32,          /* model.safetensors */
    GOLDEN_BF16,         /* the same in bfloat16 */
    GOLDEN_SHARDS,       /* three files and an index */
    GOLDEN_ODD,          /* data begin at an odd byte */
    GOLDEN_GGUF_F32,     /* model.gguf: q/k rows in the order of interleaved pairs */
    GOLDEN_GGUF_F16,     /* matrices in F16, exact but for the smallest numbers */
    GOLDEN_GGUF_Q8_0,    /* matrices in Q8_0 */
    GOLDEN_GGUF_ROUNDED, /* matrices in F32, with the values that Q8_0 has */
    GOLDEN_GGUF_WRONG,   /* q/k rows as in safetensors, which is not how GGUF has them */
    GOLDEN_N_LAYOUTS
} golden_layout;
extern const char *const golden_layout_names[GOLDEN_N_LAYOUTS];

/* Write the model into a fresh folder; scratch_remove deletes it. */
void golden_write(const golden *g, golden_layout layout, char *folder, size_t cap);
/* Whether the layout can say it: some rotary variants have no GGUF keys, Q8_0 wants rows of 32. */
bool golden_can_write(const golden *g, golden_layout layout);

#endif
