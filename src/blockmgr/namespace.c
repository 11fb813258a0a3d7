/* Namespaces: identities of content. Each is the root of a tree of nodes; the root is part of every
 * comparison, so content of different namespaces never compares equal and a foreign hit does the
 * same work as a miss. */
#include "blockmgr_internal.h"

#include "common/sha256.h"

enum { MAX_FIELD_BYTES = 65535 };

/* One field of an identity: its kind, its length, its bytes. Kinds are fixed for ever. */
static void add_field(struct pkv__sha256 *h, uint8_t kind, const void *data, size_t bytes)
{
    const uint8_t head[3] = { kind, (uint8_t)(bytes & 0xff), (uint8_t)(bytes >> 8) };
    pkv__sha256_update(h, head, sizeof head);
    if (bytes > 0) pkv__sha256_update(h, data, bytes);
}

static void make_identity(const pkv_ns_params *p, uint8_t identity[32])
{
    static const char tag[] = "pkv1 namespace";
    struct pkv__sha256 h;
    pkv__sha256_init(&h);
    pkv__sha256_update(&h, tag, sizeof tag);
    add_field(&h, 1, p->model_digest, sizeof p->model_digest);
    add_field(&h, 2, p->kv_format, p->kv_format_bytes);
    add_field(&h, 3, p->adapter, p->adapter_bytes);
    add_field(&h, 4, p->salt, p->salt_bytes);
    pkv__sha256_end(&h, identity);
}

static bool field_valid(const char *data, size_t bytes)
{
    return bytes <= MAX_FIELD_BYTES && (bytes == 0 || data);
}

/* Start the namespace in slot `idx`. */
static void start(pkv_blockmgr *m, int32_t idx, const uint8_t identity[32])
{
    struct ns_rec *ns = &namespaces_of(m)[idx];
    memcpy(ns->identity, identity, sizeof ns->identity);
    ns->root_hash = pkv__siphash_bytes(m->hash_k0, m->hash_k1, 1, 3, identity, 32);
    ns->first_child = NONE;
    ns->n_seqs = ns->n_closing = 0;
    ns->n_opens = 1;
    m->n_namespaces++;
}

void pkv__ns_init_default(pkv_blockmgr *m)
{
    const pkv_ns_params empty = PKV_NS_PARAMS_INIT;
    uint8_t identity[32];
    make_identity(&empty, identity);
    start(m, 0, identity);
}

pkv_ns pkv__ns_handle(const pkv_blockmgr *m, int32_t idx)
{
    const uint64_t generation = namespaces_of(m)[idx].generation;
    return (pkv_ns){ idx == 0 ? 0 : generation << 32 | (uint32_t)idx };
}

int32_t pkv__ns_find(const pkv_blockmgr *m, pkv_ns ns)
{
    const uint32_t idx = (uint32_t)ns.v;
    if (idx >= (uint32_t)m->max_namespaces) return NONE;
    if (namespaces_of(m)[idx].n_opens == 0 || pkv__ns_handle(m, (int32_t)idx).v != ns.v)
        return NONE;
    return (int32_t)idx;
}

pkv_status pkv_ns_open(pkv_blockmgr *mgr, const pkv_ns_params *params, pkv_ns *out)
{
    uint8_t identity[32];
    int32_t vacant = NONE;
    if (!mgr || !params || !out) return PKV_E_INVALID_ARG;
    if (params->struct_size != sizeof *params) return PKV_E_ABI;
    if (!field_valid(params->kv_format, params->kv_format_bytes) ||
        !field_valid(params->adapter, params->adapter_bytes) ||
        !field_valid(params->salt, params->salt_bytes))
        return pkv__refuse(&mgr->log, PKV_E_INVALID_ARG,
                           "namespace: a null or over-long field (at most %d bytes)",
                           MAX_FIELD_BYTES);
    make_identity(params, identity);
    for (int32_t i = 0; i < mgr->max_namespaces; i++) {
        struct ns_rec *ns = &namespaces_of(mgr)[i];
        if (ns->n_opens == 0) {
            if (vacant == NONE) vacant = i;
        } else if (memcmp(ns->identity, identity, sizeof identity) == 0) {
            if (ns->n_opens == INT32_MAX) return PKV_E_LIMIT;
            if (i > 0) ns->n_opens++;
            *out = pkv__ns_handle(mgr, i);
            return PKV_OK;
        }
    }
    if (vacant == NONE)
        return pkv__refuse(&mgr->log, PKV_E_LIMIT, "namespace: all %d are open",
                           mgr->max_namespaces);
    struct ns_rec *ns = &namespaces_of(mgr)[vacant];
    if (++ns->generation == 0) ns->generation = 1;
    start(mgr, vacant, identity);
    *out = pkv__ns_handle(mgr, vacant);
    PKV_SELF_CHECK(mgr);
    return PKV_OK;
}

/* The blocks of a node hold nothing any more: cached ones become free. */
static void forget_blocks(pkv_blockmgr *m, int32_t id, void *ctx)
{
    (void)ctx;
    struct block_rec *blocks = blocks_of(m);
    for (int32_t k = 0; k < m->n_slots; k++) {
        struct node_slot *at = &node_at(m, id)->at[k];
        while (at->oldest_spare != NONE) pkv__node_detach(m, at->oldest_spare);
        const int32_t block = at->block;
        if (block == NONE) continue;
        const bool cached = blocks[block].state == BLOCK_CACHED;
        if (cached) pkv__evict_remove(m, block);
        blocks[block].node = NONE;
        at->block = NONE;
        if (cached) pkv__block_free(m, block);
    }
}

pkv_status pkv_ns_close(pkv_blockmgr *mgr, pkv_ns ns)
{
    if (!mgr || ns.v == 0) return PKV_E_INVALID_ARG;
    const int32_t idx = pkv__ns_find(mgr, ns);
    if (idx == NONE) return PKV_E_STALE;
    struct ns_rec *rec = &namespaces_of(mgr)[idx];
    if (rec->n_opens == 1 && rec->n_seqs > 0)
        return pkv__refuse(&mgr->log, PKV_E_STATE, "namespace: %d sequences are open in it",
                           rec->n_seqs);
    if (rec->n_opens == 1 && rec->n_closing > 0) return PKV_E_AGAIN;
    if (--rec->n_opens == 0) {
        pkv__tree_each(mgr, root_of(idx), forget_blocks, NULL);
        memset(rec->identity, 0, sizeof rec->identity);
        mgr->n_namespaces--;
    }
    PKV_SELF_CHECK(mgr);
    return PKV_OK;
}
