/* What the parts of the oracle need of each other. */
#ifndef PKV_TESTS_ORACLE_BLOCKS_H
#define PKV_TESTS_ORACLE_BLOCKS_H

#include "oracle.h"

#define MIN(a, b) ((a) < (b) ? (a) : (b))
#define MAX(a, b) ((a) > (b) ? (a) : (b))
#define BROKEN(o, text) ((o)->broken = (o)->broken ? (o)->broken : (text))

/* ---------------------------------------------------------------- blocks and lists */

uint64_t or_handle(uint32_t gen, int idx);
bool or_is_state(const oracle *o, int g);
/* A step is open that may read what is released now: releases wait in LIMBO. */
bool or_waits(const oracle *o);
int or_place_of(const oracle *o, uint64_t step); /* of an open step; -1: not open */
/* Entries of group `g` for `n` tokens. */
int or_entries(const oracle *o, int g, int64_t n);
int or_find_in(const int *a, int n, int v);
void or_insert(int *a, int *n, int at, int v);
int or_remove(int *a, int *n, int at);
int or_row_refs(const oracle *o, int b); /* rows only */
bool or_listed(const oracle *o, int b, int *c, int *at);
bool or_unlist(oracle *o, int b);
int or_n_cached(const oracle *o);
void or_make_free(oracle *o, int b);
/* The main block `b`, unreferenced, becomes evictable. */
void or_cache(oracle *o, int b);
/* Take block `b`, unreferenced and findable, off its list or out of LIMBO. */
void or_claim(oracle *o, int b);
/* A reference to `b` has just been dropped. */
void or_release(oracle *o, int b);
/* LIMBO blocks that no open step holds back leave. */
void or_drain(oracle *o);
/* Drop the entries beyond `n` tokens: group by group, tail first; `n` 0: state blocks too. What
 * was launched there is void. */
void or_shorten(oracle *o, or_seq *s, int n);
/* What does not fit: OK, AGAIN or NO_BLOCKS for `n` blocks. */
pkv_status or_verdict(const oracle *o, int n);
/* Take one block and note in `w` (NULL: nowhere) what has to be zeroed. */
int or_take(oracle *o, pkv_block_work *w);
/* Take the content from the first block of the eviction order; it stays unlisted. */
int or_victim(oracle *o);
/* Zero entries that taking `n` blocks will give, after `surplus` used ones were freed. */
int or_zeros_of(const oracle *o, int n, int surplus);

/* ---------------------------------------------------------------- content */

/* The indexed node that block `b` is main (*k -1) or spare (*k) of in group *g; or NULL. */
or_node *or_node_of(oracle *o, int b, int *g, int *k);
/* Slots that content on `b` covers: indexed, prepared, of a snapshot. */
int or_covered(const oracle *o, int b);
/* Child of the node (or root) with the largest `born` below `below`. */
or_node *or_newest_child(oracle *o, int ns, int parent, uint64_t below);
or_node *or_find(oracle *o, int ns, int parent, const or_unit *u);
/* Block `b` carries nothing findable any more. */
void or_unlink(oracle *o, int b);
/* Prepared nodes that nobody holds and indexed ones that nothing keeps go. */
void or_reap(oracle *o);
/* Block `b` joins a node that exists in group `g`. */
void or_join(oracle *o, or_node *nd, int g, int b);
/* Nodes, and extra entries of nodes and of the blocks that indexed sequences are filling. */
void or_count_content(const oracle *o, int *nodes, int *extras);
/* The sequence has come to fill unit `at` differently: without room for its extras, indexing ends.
 */
void or_keep_tail(oracle *o, or_seq *s, int at);
void or_end_indexing(or_seq *s, int at);
/* Make a prepared node of this key on these blocks; -1: none left. */
int or_prepare(oracle *o, const or_seq *s, const or_unit *u, const uint64_t *sum,
               const int *blocks);
/* Publish content, one block per group or 0. `prepared`: the node made for it, or -1. Returns the
 * node, or -1 without room. */
int or_publish(oracle *o, int ns, int parent, const or_unit *u, const uint64_t *sum,
               const int *blocks, int prepared);
/* The blocks that end with unit `at` of a sequence (of `partial` ones, that contain it). */
void or_unit_blocks(const oracle *o, const or_seq *s, int at, bool partial, int *blocks);
/* With PARTIAL_HITS: the settled rest behind the full units becomes findable. */
void or_publish_tail(oracle *o, or_seq *s);

/* ---------------------------------------------------------------- windows */

/* Lowest position below p that a query at p sees, without sinks. */
int or_first(const oracle *o, int g, int p);
/* A query at p needs the block of entry i. */
bool or_needed(const oracle *o, int g, int p, int i);
/* Entries that no query from settled - rollback on sees are released. */
void or_slide(oracle *o, or_seq *s);

/* ---------------------------------------------------------------- sequences */

/* Set every length to at most n, with all that hangs on it; windows permitting. */
void or_cut(oracle *o, or_seq *s, int n);
/* Index what has settled. */
void or_settle(oracle *o, or_seq *s);
void or_give_slot_back(oracle *o, or_seq *s);
int or_n_closing(const oracle *o);

/* ---------------------------------------------------------------- tokens and bytes */

/* Key of tokens [at, at + n); `ex` are relative to ids[0]. */
or_unit or_unit_at(const int32_t *ids, const pkv_extra *ex, int n_ex, int at, int n);
bool or_tokens_ok(const oracle *o, const pkv_tokens *t);
/* Append tokens to what the sequence is known to hold (not to its lengths). */
void or_append(oracle *o, or_seq *s, const pkv_tokens *t, int n);
void or_run_work(oracle *o, const pkv_block_work *w);
uint64_t or_slot_sum(int g, uint64_t sum);
uint64_t or_state_sum(int g, int k, uint64_t sum);
/* Tokens [from, to) of the sequence are written now (step 0) or were by an open step. */
void or_write(oracle *o, or_seq *s, int from, int to, uint64_t step);
/* A step begins: what it may write is marked. */
void or_launch(oracle *o, int place, uint32_t how);
/* It ends: what it wrote stays, or is rubbish. */
void or_land(oracle *o, uint64_t step, bool good);

/* ---------------------------------------------------------------- oracle_late.c */

void or_late_init(oracle *o);
int or_late_refs(const oracle *o, int b); /* holds and raw references */
bool or_quarantined(const oracle *o, int b);
/* B12c: a hold covers a slot at or after `off`. */
bool or_hold_covers(const oracle *o, int b, int off);
void or_late_close(oracle *o, or_seq *s);
void or_late_stats(const oracle *o, pkv_blockmgr_stats_t *out);
const char *or_late_check(const oracle *o);

#endif
