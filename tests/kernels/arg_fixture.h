/* One valid call of everything; each test breaks one thing and sees it refused without a trace. */
#ifndef PKV_ARG_FIXTURE_H
#define PKV_ARG_FIXTURE_H

#include "pagedkv/attention.h"
#include "pagedkv/moves.h"

enum { DIM = 16, HEADS = 4, KV_HEADS = 2, BLOCKS = 3, BT = 4, ROWS = 2 };

struct args {
    pkv_backend *be;
    pkv_tensor3 q, out;
    pkv_kv_view k, v;
    pkv_attn_batch batch;
    pkv_attn_opts opts;
    pkv_lse lse;
    pkv_kv_write_args write;
    pkv_tensor3 new_k, new_v;
    size_t workspace_bytes;
    int32_t table[ROWS], kv_len[ROWS], q_indptr[ROWS + 1];
    int64_t slots[ROWS];
    char log[256];
    int n_logs;
    _Alignas(64) char workspace[1 << 21];
    _Alignas(64) float q_data[ROWS * HEADS * DIM], new_data[2][ROWS * KV_HEADS * DIM];
    _Alignas(64) float store[2][BLOCKS * BT * KV_HEADS * DIM];
    struct { /* must not change */
        _Alignas(64) float out[ROWS * HEADS * DIM], lse[ROWS * HEADS];
    } result;
};

/* Everything valid again, the log empty, outputs 0x5a and stores 0x11. */
void args_reset(struct args *a);
int args_setup(void **state);
int args_teardown(void **state);
bool all_bytes(const void *data, size_t n, int value);

#endif
