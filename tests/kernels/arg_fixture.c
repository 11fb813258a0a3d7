#include "arg_fixture.h"

#include <stdlib.h>
#include <string.h>

static void log_line(void *ctx, pkv_log_level level, const char *text)
{
    struct args *a = ctx;
    (void)level;
    strncpy(a->log, text, sizeof(a->log) - 1);
    a->n_logs++;
}

static pkv_kv_view view_of(float *data)
{
    return (pkv_kv_view){ data,
                          PKV_F32,
                          BLOCKS,
                          BT,
                          KV_HEADS,
                          DIM,
                          BT * KV_HEADS * DIM,
                          KV_HEADS * DIM,
                          DIM,
                          { NULL, 0, 0, 0 },
                          { NULL, 0, 0, 0 } };
}

void args_reset(struct args *a)
{
    pkv_backend *be = a->be;
    memset(a, 0, sizeof(*a));
    a->be = be;
    a->q = (pkv_tensor3){ a->q_data, PKV_F32, HEADS, DIM, ROWS, HEADS * DIM, DIM };
    a->out = a->q;
    a->out.data = a->result.out;
    a->k = view_of(a->store[0]);
    a->v = view_of(a->store[1]);
    a->lse = (pkv_lse){ a->result.lse, HEADS, 1, 0 };
    a->batch = (pkv_attn_batch)PKV_ATTN_BATCH_INIT;
    a->opts = (pkv_attn_opts)PKV_ATTN_OPTS_INIT;
    a->batch.n_seqs = ROWS;
    a->batch.table = a->table;
    a->batch.table_stride = 1;
    a->batch.kv_len = a->kv_len;
    a->batch.q_indptr = a->q_indptr;
    for (int i = 0; i < ROWS; i++) {
        a->table[i] = 1 + i;
        a->kv_len[i] = 3;
        a->q_indptr[i + 1] = 1 + i;
        a->slots[i] = BT + i;
    }
    a->workspace_bytes = sizeof(a->workspace);
    a->new_k = (pkv_tensor3){ a->new_data[0], PKV_F32, KV_HEADS, DIM, ROWS, KV_HEADS * DIM, DIM };
    a->new_v = a->new_k;
    a->new_v.data = a->new_data[1];
    a->write = (pkv_kv_write_args)PKV_KV_WRITE_ARGS_INIT;
    a->write.k = &a->new_k;
    a->write.v = &a->new_v;
    a->write.slots = a->slots;
    a->write.k_view = &a->k;
    a->write.v_view = &a->v;
    memset(&a->result, 0x5a, sizeof(a->result));
    memset(a->store, 0x11, sizeof(a->store));
}

int args_setup(void **state)
{
    struct args *a = aligned_alloc(64, (sizeof(*a) + 63) / 64 * 64);
    pkv_cpu_config cfg = PKV_CPU_CONFIG_INIT;
    if (!a) return -1;
    cfg.log.fn = log_line;
    cfg.log.ctx = a;
    if (pkv_backend_create_cpu(&cfg, &a->be) != PKV_OK) return -1;
    args_reset(a);
    *state = a;
    return 0;
}

int args_teardown(void **state)
{
    struct args *a = *state;
    pkv_backend_destroy(a->be);
    free(a);
    return 0;
}

bool all_bytes(const void *data, size_t n, int value)
{
    const unsigned char *p = data;
    for (size_t i = 0; i < n; i++)
        if (p[i] != value) return false;
    return true;
}
