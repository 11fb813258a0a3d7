/* Embedding PagedKV: two requests whose prompts begin alike are decoded side by side. The second
 * finds the common blocks in the cache and computes only its own. The "model" makes its numbers up;
 * the rest is what an engine does. Build: cc embed.c $(pkg-config --cflags --libs pagedkv) */
#include <pagedkv/pagedkv.h>
#include <stdio.h>
#include <stdlib.h>

enum { LAYERS = 2, Q_HEADS = 4, KV_HEADS = 2, DIM = 64, BLOCK_TOKENS = 16, N_BLOCKS = 32 };
enum { N_SEQS = 2, N_PROMPT = 37, N_COMMON = 32, N_NEW = 12 };
#define TRY(call) try_call(call, #call)
static void try_call(pkv_status status, const char *call)
{ /* an engine would preempt and retry on PKV_E_NO_BLOCKS */
    if (status != PKV_OK) fprintf(stderr, "%s: %s\n", pkv_status_name(status), call), exit(1);
}

struct engine {
    pkv_backend *be;   /* runs kernels on this CPU */
    pkv_store *store;  /* the bytes of all blocks */
    pkv_blockmgr *mgr; /* who owns which block */
};

/* Stands for embedding, norms and projections: fill [n][heads][DIM] with something. */
static pkv_tensor3 project(float *data, int heads, int layer, int first, const int32_t *ids, int n)
{
    for (int i = 0, row = heads * DIM; i < n * row; i++)
        data[i] = 0.01f * (float)((31 * i + 7 * layer + first + i / row + ids[i / row]) % 101);
    return (pkv_tensor3){ data, PKV_F32, heads, DIM, n, heads * DIM, DIM };
}

/* What match and reserve want done before the next KV write; to zero only under a zero_policy. */
static void run_work(const struct engine *e, const pkv_block_work *w)
{
    pkv_store_info_t at = PKV_STORE_INFO_INIT;
    TRY(pkv_store_info(e->store, &at));
    TRY(pkv_blocks_copy(e->be, at.base, at.block_bytes, N_BLOCKS, w->copy, w->n_copy, NULL, 0,
                        NULL));
}

/* Compute tokens [first, first + n) of a sequence with room for them; returns the next token. In
 * every layer: write the new K and V where the manager says, then attend to everything so far. */
static int32_t forward(const struct engine *e, pkv_seq seq, int first, const int32_t *ids, int n)
{
    static _Alignas(64) float q[N_PROMPT * Q_HEADS * DIM], out[N_PROMPT * Q_HEADS * DIM];
    static _Alignas(64) float k[N_PROMPT * KV_HEADS * DIM], v[N_PROMPT * KV_HEADS * DIM];
    static _Alignas(64) char workspace[1 << 20]; /* pkv_attn_workspace says how much is needed */
    const int32_t *row, kv_len = first + n, q_indptr[2] = { 0, n };
    int32_t row_len;
    pkv_kv_view k_view, v_view;
    int64_t slots[N_PROMPT];
    TRY(pkv_seq_slots(e->mgr, seq, 0, first, n, slots));
    TRY(pkv_seq_row(e->mgr, seq, 0, &row, &row_len));
    for (int layer = 0; layer < LAYERS; layer++) {
        const pkv_tensor3 tq = project(q, Q_HEADS, layer, first, ids, n);
        const pkv_tensor3 tk = project(k, KV_HEADS, layer + 10, first, ids, n);
        const pkv_tensor3 tv = project(v, KV_HEADS, layer + 20, first, ids, n);
        pkv_tensor3 to = { out, PKV_F32, Q_HEADS, DIM, n, Q_HEADS * DIM, DIM };
        TRY(pkv_store_views(e->store, layer, &k_view, &v_view));
        pkv_kv_write_args w = { sizeof w, &tk, &tv, slots, &k_view, &v_view, .bad = NULL };
        TRY(pkv_kv_write(e->be, &w, NULL));
        pkv_attn_batch b = { sizeof b, 1, row, row_len, NULL, &kv_len, .q_indptr = q_indptr };
        TRY(pkv_attn_run(e->be, &tq, &k_view, &v_view, &b, &(pkv_attn_opts)PKV_ATTN_OPTS_INIT,
                         workspace, sizeof workspace, NULL, &to, NULL)); /* takes a whole batch */
    }
    TRY(pkv_seq_commit(e->mgr, seq, &(pkv_tokens){ ids, n, NULL, 0 }, PKV_STEP_NONE));
    return (int32_t)(1000.f * out[(n - 1) * Q_HEADS * DIM]);
}

int main(void)
{
    struct engine e = { 0 };
    pkv_seq seq[N_SEQS];
    int32_t prompt[N_PROMPT], next[N_SEQS];
    pkv_block_copy copies[N_SEQS];
    pkv_block_work work = { sizeof work, NULL, 0, 0, copies, N_SEQS, 0 };
    pkv_store_config store = PKV_STORE_CONFIG_INIT;
    pkv_blockmgr_config cfg = PKV_BLOCKMGR_CONFIG_INIT;
    store.shape = (pkv_kv_shape){ LAYERS, KV_HEADS, DIM, BLOCK_TOKENS, PKV_F16 };
    store.n_blocks = cfg.n_blocks = N_BLOCKS;
    cfg.block_tokens = BLOCK_TOKENS, cfg.max_seqs = N_SEQS, cfg.max_seq_tokens = 128;
    TRY(pkv_backend_create_cpu(&(pkv_cpu_config)PKV_CPU_CONFIG_INIT, &e.be));
    TRY(pkv_store_create(&store, &e.store));
    TRY(pkv_blockmgr_create(&cfg, NULL, &e.mgr));
    for (int s = 0; s < N_SEQS; s++) { /* prefill: claim what is cached, compute the rest */
        pkv_match hit = PKV_MATCH_INIT;
        for (int i = 0; i < N_PROMPT; i++) prompt[i] = i < N_COMMON ? i : 1000 * (s + 1) + i;
        TRY(pkv_seq_open(e.mgr, (pkv_ns){ 0 }, &seq[s]));
        TRY(pkv_seq_match(e.mgr, seq[s], &(pkv_tokens){ prompt, N_PROMPT, NULL, 0 }, N_PROMPT - 1,
                          N_PROMPT, &work, &hit));
        run_work(&e, &work);
        printf("sequence %d: %d of %d prompt tokens were cached\n", s, hit.claimed, N_PROMPT);
        next[s] = forward(&e, seq[s], hit.claimed, prompt + hit.claimed, N_PROMPT - hit.claimed);
    }
    for (int t = 0; t < N_NEW; t++) { /* decode: room for one token each, both or none */
        TRY(pkv_seq_reserve(e.mgr, (pkv_reserve_req[]){ { seq[0], 1 }, { seq[1], 1 } }, 2, &work));
        run_work(&e, &work);
        for (int s = 0; s < N_SEQS; s++) next[s] = forward(&e, seq[s], N_PROMPT + t, &next[s], 1);
    }
    for (int s = 0; s < N_SEQS; s++) TRY(pkv_seq_close(e.mgr, seq[s])); /* blocks stay as cache */
    printf("%d tokens each, the last one is %d and %d\n", N_PROMPT + N_NEW, next[0], next[1]);
    pkv_blockmgr_destroy(e.mgr), pkv_store_destroy(e.store), pkv_backend_destroy(e.be);
}
