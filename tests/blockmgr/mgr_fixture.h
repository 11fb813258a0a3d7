/* A manager for unit tests, with short names for the calls that are expected to work. Every test
 * ends with fx_end, which runs the invariant checker at level 3. */
#ifndef PKV_TESTS_MGR_FIXTURE_H
#define PKV_TESTS_MGR_FIXTURE_H

#include "pagedkv/blockmgr.h"
#include "pagedkv/blockmgr_steps.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { FX_CAP = 4096 };

typedef struct fx {
    pkv_blockmgr_config cfg;
    pkv_blockmgr *m;
    int32_t zero[FX_CAP];
    pkv_block_copy copy[FX_CAP];
    pkv_block_work work; /* of the last call */
    pkv_match match;     /* of the last fx_match */
    char said[256];      /* the last reason that the manager gave */
} fx;

/* Blocks in all (null block included), tokens per block; 8 sequences of 64 blocks. */
fx *fx_new(int32_t n_blocks, int32_t block_tokens, uint32_t flags);
fx *fx_from(const pkv_blockmgr_config *cfg);
pkv_blockmgr_config fx_config(int32_t n_blocks, int32_t block_tokens, uint32_t flags);
void fx_check(fx *f); /* the invariants hold; if not, the reason is printed */
void fx_end(fx *f);

pkv_seq fx_open(fx *f);
/* A sequence with these tokens committed. */
pkv_seq fx_with(fx *f, const char *text);
void fx_reserve(fx *f, pkv_seq s, int32_t n);
pkv_status fx_try_reserve(fx *f, pkv_seq s, int32_t n);
/* Tokens are the characters of a text; reserves what is missing. */
void fx_commit(fx *f, pkv_seq s, const char *text);
pkv_seq fx_fork(fx *f, pkv_seq s);
void fx_truncate(fx *f, pkv_seq s, int32_t n);
void fx_close(fx *f, pkv_seq s);
/* Claimed tokens of a match in a fresh sequence, which stays open in *out, or is closed if NULL. */
int32_t fx_match(fx *f, const char *text, int32_t upto, pkv_seq *out);
int32_t fx_probe(fx *f, const char *text);

/* Steps. fx_commit_in reserves what is missing, fx_put commits into what is reserved. */
pkv_step fx_begin(fx *f);
void fx_retire(fx *f, pkv_step step);
void fx_abort(fx *f, pkv_step step);
void fx_commit_in(fx *f, pkv_seq s, const char *text, pkv_step step);
pkv_status fx_put(fx *f, pkv_seq s, const char *text, pkv_step step);
pkv_need fx_need(fx *f, pkv_seq s, int32_t n);

int32_t fx_block(fx *f, pkv_seq s, int32_t at); /* id in the row */
int32_t fx_group_block(fx *f, pkv_seq s, int32_t group, int32_t at);
int32_t fx_row_len(fx *f, pkv_seq s);
pkv_seq_info_t fx_info(fx *f, pkv_seq s);
pkv_blockmgr_stats_t fx_stats(fx *f);
/* Takes every free and cached block one by one, checks that they are different and not 0, gives
 * them back, and returns how many there were. Forgets all cached content. */
int32_t fx_drain(fx *f);

pkv_tokens fx_text(const char *text, int32_t *ids);

/* The call answers `status`, and the digest is as before. */
#define fx_refused(f, status, call)                                                                \
    do {                                                                                           \
        uint8_t before_[16], after_[16];                                                           \
        pkv_blockmgr_digest((f)->m, before_);                                                      \
        assert_string_equal(pkv_status_name(call), pkv_status_name(status));                       \
        pkv_blockmgr_digest((f)->m, after_);                                                       \
        assert_memory_equal(before_, after_, 16);                                                  \
    } while (0)
#define assert_ok(call) assert_string_equal(pkv_status_name(call), "PKV_OK")

/* The first `n` blocks of the eviction order go. */
static inline void fx_evict(fx *f, int32_t n)
{
    int32_t evicted = -1;
    assert_ok(pkv_blockmgr_evict(f->m, n, &evicted));
    assert_int_equal(evicted, n);
}

#endif
