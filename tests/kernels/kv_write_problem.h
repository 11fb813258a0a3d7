/* A problem of kv_write: stores, rows, slots, positions and options at random, and the image of all
 * that the call may write, made by the definition. Norm and rotation are judged on their own, in
 * float32 and within their bounds; what follows (rounding, scales, codes) is exact arithmetic. */
#ifndef PKV_KV_WRITE_PROBLEM_H
#define PKV_KV_WRITE_PROBLEM_H

#include "kv_fixture.h"
#include "pagedkv/moves.h"

enum { K = 0, V = 1, Q = 2 };

struct write_problem {
    struct kv_stores stores;
    struct kv_rows rows[3]; /* K, V, Q as they came */
    struct twin q_out_mem;
    pkv_tensor3 q_in, q_out; /* in place: q_in is q_out, and rows[Q] a copy */
    struct hostile slot_mem, pos_mem, norm_mem[3], rope_mem;
    pkv_kv_write_args args; /* complete but for `bad` */
    int32_t n_tokens, n_valid, n_valid_arg;
    bool with_q, in_place, moderate;
    float *after[3]; /* rows as they go to the store, [n_tokens][heads][dim]; NULL: as they came */
    uint32_t want_bad[4];
    bool *offends; /* [n_tokens] tokens that `bad` may name; of the image */
};

/* Not to be moved: args point into it. `large`: see kv_draw_stores; every slot is written. */
void write_draw(struct check *c, struct write_problem *p, bool large);
void write_destroy(struct write_problem *p);
/* The rows after norm and rotation in float32, judged; to be called before the image is made. */
void write_after(struct check *c, struct write_problem *p);
/* What the call should have left behind, and want_bad. Called after the call: what the definition
 * leaves open (bits of a NaN) is taken over from there. */
void write_image(struct check *c, struct write_problem *p);
void write_compare(struct check *c, struct write_problem *p);
/* `bad`, clear before the call, is what the definition says: of a device any offender. */
void write_judge_report(struct check *c, const struct write_problem *p, const uint32_t *bad,
                        const char *what);

/* The parts of an image, for other cases: does slot or position of token t fit? */
bool write_slot_exists(const struct write_problem *p, int32_t t);
bool write_position_fits(const struct write_problem *p, int32_t t);

#endif
