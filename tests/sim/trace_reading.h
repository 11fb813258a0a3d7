/* What the tests of the trace readers share: traces from memory, what the reader said, memory that
 * runs out. */
#ifndef PKV_TESTS_TRACE_READING_H
#define PKV_TESTS_TRACE_READING_H

#include "sim/trace.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Bytes, handed out `chunk` at a time; then the end, or an error. */
typedef struct trace_source {
    const char *at;
    size_t len, chunk;
    bool fails;
} trace_source;
int64_t hand_out(void *ctx, void *buf, size_t cap);

/* A logger that remembers since it was made: the text that came last and how many of a level. */
pkv_logger listening(void);
const char *heard_text(void);
int n_heard(pkv_log_level level);

/* Read, and check what holds for every trace: each row is counted once, requests are sorted and
 * content ids in range. */
pkv_status read_bytes(const char *bytes, size_t len, pkv_sim_trace_config cfg, pkv_sim_trace *out);
pkv_status read_text(const char *text, pkv_sim_trace *out);
pkv_status read_with(const char *text, pkv_sim_trace_config cfg, pkv_sim_trace *out);

/* The text is refused as PKV_E_FORMAT, with one message that has these words. */
void expect_refusal(const char *text, const char *words);
void expect_refusal_with(const char *text, pkv_sim_trace_config cfg, pkv_status status,
                         const char *words);

/* Fail each allocation in turn: out of memory, and everything is given back; from the
 * `at_least`-th on it suffices. */
void expect_no_memory(const char *text, int at_least);

/* The file of $PKV_SHARED/traces; skips the test, with a message, where it is not there. */
void read_shared(const char *name, pkv_sim_trace_config cfg, pkv_status expected,
                 pkv_sim_trace *out);

/* Seeds of random tests: all from 1 on, or the one of PKV_SEED. */
uint64_t first_seed(void);
uint64_t n_seeds(uint64_t usual);

#endif
