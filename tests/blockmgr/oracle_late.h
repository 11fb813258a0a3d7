/* What the oracle keeps beside sequences and content: holds, swaps, raw references, the table that
 * a device would have. Included by oracle.h; written from blockmgr_holds.h, _raw.h and _tables.h.
 */
#ifndef PKV_TESTS_ORACLE_LATE_H
#define PKV_TESTS_ORACLE_LATE_H

enum {
    OR_HOLDS = 4, /* most holds at a time */
    OR_HOST = 9   /* largest host pool, null block included */
};

/* What happened inside; see OR_COVER_LIST. */
#define OR_LATE_COVER_LIST(X)                                                                      \
    X(HOLD_EXPIRED)                                                                                \
    X(QUARANTINE_LEFT)                                                                             \
    X(SUSPEND_DONE)                                                                                \
    X(SUSPEND_FAILED)                                                                              \
    X(SUSPEND_EXPIRED)                                                                             \
    X(SWAP_STAYED)                                                                                 \
    X(RESUME_DONE)                                                                                 \
    X(RESUME_FAILED)                                                                               \
    X(RESUME_EXPIRED)                                                                              \
    X(RAW_PUBLISHED) X(RAW_SPARE) X(RAW_FROM_CACHED) X(RAW_FROM_LIMBO) X(RAW_LAST_REF)

typedef enum or_hold_kind { OR_PIN, OR_SUSPEND, OR_RESUME } or_hold_kind;
/* `covers`: no sequence writes slots below it. `host`: the other end of a swap. `seen`: what the
 * block held; its slots from `begins` up to `kept` still do. */
typedef struct or_held {
    int block, group, covers, begins, kept, host;
    uint64_t seen[OR_T];
} or_held;
typedef struct or_hold {
    bool open, expired, posted, good; /* good: posted with PKV_OK */
    or_hold_kind kind;
    uint32_t gen;
    uint64_t deadline;
    bool seq[OR_SEQS]; /* of a swap */
    int n;
    or_held e[OR_BLOCKS]; /* a pin: group by group; a swap: as the list of copies */
} or_hold;

typedef struct or_late {
    or_hold hold[OR_HOLDS];
    int hold_free[OR_HOLDS], n_hold_free;
    uint64_t now, late_posts;
    int raw[OR_BLOCKS]; /* raw references */
    int host_free[OR_HOST], n_host_free;
    uint64_t host_bytes[OR_HOST][OR_T];
    /* Host block of an entry of a suspended sequence's row; 0: none, it stayed on the device. */
    int host[OR_SEQS][OR_G][OR_TOKENS];
    int table[OR_G][OR_SEQS][OR_TOKENS]; /* what the consumer of the delta has */
} or_late;

struct oracle;
pkv_status or_hold_open(struct oracle *o, pkv_seq seq, int32_t n_tokens, uint64_t deadline,
                        pkv_hold *out);
pkv_status or_hold_blocks(struct oracle *o, pkv_hold hold, int32_t g, int32_t *ids, int32_t cap,
                          int32_t *n);
void or_hold_post(struct oracle *o, pkv_hold hold, pkv_status result);
pkv_status or_poll(struct oracle *o, uint64_t now, pkv_hold_result *done, int32_t cap, int32_t *n);
pkv_status or_hold_reclaim(struct oracle *o, pkv_hold hold);
pkv_status or_suspend(struct oracle *o, const pkv_seq *seqs, int32_t n, uint64_t deadline,
                      pkv_swap_copy *copies, int32_t cap, int32_t *n_copies, pkv_hold *hold);
pkv_status or_resume(struct oracle *o, const pkv_seq *seqs, int32_t n, uint64_t deadline,
                     pkv_swap_copy *copies, int32_t cap, int32_t *n_copies, pkv_hold *hold);

pkv_status or_blocks_take(struct oracle *o, int32_t n, int32_t *ids, pkv_block_work *w);
pkv_status or_blocks_ref(struct oracle *o, const int32_t *ids, int32_t n);
pkv_status or_blocks_unref(struct oracle *o, const int32_t *ids, int32_t n);
pkv_status or_block_publish(struct oracle *o, pkv_ns ns, int32_t parent, const pkv_tokens *unit,
                            int32_t block);
pkv_status or_blocks_lookup(struct oracle *o, pkv_ns ns, const pkv_tokens *prompt, int32_t *ids,
                            int32_t cap, int32_t *n);
/* Content is on the block, indexed or prepared. */
bool or_has_content(struct oracle *o, int32_t block);
/* Units up to the content of the block; 0: none, or a partial one. */
int or_depth(struct oracle *o, int32_t block);

pkv_status or_seqs_common(struct oracle *o, const pkv_seq *seqs, int32_t n, int32_t g,
                          int32_t *n_blocks);
pkv_status or_view_slots(struct oracle *o, pkv_seq seq, int32_t g, const pkv_kernel_view *v,
                         int32_t first, int32_t n, int64_t *slots);
pkv_status or_view_row(struct oracle *o, pkv_seq seq, int32_t g, const pkv_kernel_view *v,
                       int32_t *ids, int32_t cap, int32_t *n, int32_t *n_local);

#endif
