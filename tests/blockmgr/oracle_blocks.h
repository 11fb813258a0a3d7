/* What the oracle's calls (oracle.c) need of its records and bytes (oracle_blocks.c). */
#ifndef PKV_TESTS_ORACLE_BLOCKS_H
#define PKV_TESTS_ORACLE_BLOCKS_H

#include "oracle.h"

#define MIN(a, b) ((a) < (b) ? (a) : (b))
#define MAX(a, b) ((a) > (b) ? (a) : (b))
#define BROKEN(o, text) ((o)->broken = (o)->broken ? (o)->broken : (text))

int or_blocks_for(const oracle *o, int64_t n);
int or_find_in(const int *a, int n, int v);
or_node *or_node_of(oracle *o, int b, int *spare);
bool or_listed(const oracle *o, int b, int *c, int *at);
bool or_unlist(oracle *o, int b);
int or_n_cached(const oracle *o);
/* The main block of `nd` has lost its last reference, or is put back at the recent end. */
void or_cache(oracle *o, const or_node *nd);
void or_make_free(oracle *o, int b);
/* Child of the node (or root) with the largest `born` below `below`. */
or_node *or_newest_child(oracle *o, int ns, int parent, uint64_t below);
bool or_has_child(oracle *o, const or_node *nd);
/* Block `b` carries nothing any more; its node goes on with the oldest spare, or goes. */
void or_unlink_block(oracle *o, int b);
/* A row has just dropped block `b`. */
void or_release(oracle *o, int b);
void or_shorten_row(oracle *o, or_seq *s, int n);
/* Take one block and note what has to be zeroed. */
int or_take(oracle *o, pkv_block_work *w);
/* Zero entries that taking `n` blocks will give, after `surplus` used ones were freed. */
int or_zeros_of(const oracle *o, int n, int surplus);
void or_run_work(oracle *o, const pkv_block_work *w);
/* Key of tokens [at, at + n); `ex` are relative to ids[0]. */
or_unit or_unit_at(const int32_t *ids, const pkv_extra *ex, int n_ex, int at, int n);
or_node *or_find(oracle *o, int ns, int parent, const or_unit *u);
/* Nodes, and extra entries of nodes and of the blocks that indexed sequences are filling. */
void or_count_content(const oracle *o, int *nodes, int *extras);
/* The sequence has come to fill unit `at` differently: without room for its extras, indexing ends.
 */
void or_keep_tail(oracle *o, or_seq *s, int at);
/* Publish content on block `b`; false: no room for it. */
bool or_attach(oracle *o, int ns, int parent, const or_unit *u, const uint64_t *sum, int b);
/* Node index of the last of `n` units of a row; -1: root. */
int or_node_at(oracle *o, const or_seq *s, int n);
/* Append tokens to what the sequence is known to hold (not to its lengths). */
void or_append(oracle *o, or_seq *s, const pkv_tokens *t, int n);
bool or_tokens_ok(const oracle *o, const pkv_tokens *t);

#endif
