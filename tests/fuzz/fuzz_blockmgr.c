/* Fuzz target: operations on the block manager with the oracle beside it. The first two bytes
 * choose the configuration and the documents, each 8 further bytes are one operation
 * (tests/blockmgr/op_driver.h). Beyond not crashing: every answer, row, work list, statistic and
 * digest is what the oracle says. */
#include "fuzz.h"

#include "../blockmgr/op_driver.h"

enum { OP_BYTES = 8, MOST_OPS = 200 };

/* One byte made wide, so that it reaches arguments that look at high bits too. */
static uint32_t widen(uint8_t byte)
{
    return (byte * 0x9e3779b1u) >> 4;
}

/* Kind 0 is the character '8', so that seeds can be read. */
static op decode(const uint8_t *at)
{
    op x = { .kind = (uint8_t)((uint8_t)(at[0] - '8') % OP_N_FN) };
    x.a[0] = (uint32_t)(at[1] | at[2] << 8);
    x.a[1] = (uint32_t)(at[3] | at[4] << 8);
    for (int i = 2; i < 5; i++) x.a[i] = widen(at[3 + i]);
    return x;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    op ops[MOST_OPS];
    int n = 0;
    if (size < 2) return 0;
    op_run run = { .seed = (uint64_t)(data[0] | data[1] << 8),
                   .secret = data[0],
                   .features = OP_ALL };
    for (size_t at = 2; at + OP_BYTES <= size && n < MOST_OPS; at += OP_BYTES)
        ops[n++] = decode(data + at);
    if (op_run_list(&run, ops, n)) return 0;
    const int failed_at = run.failed_at;
    run.trace = stderr;
    op_run_list(&run, ops, n);
    fprintf(stderr, "operation %d: %s\n", failed_at, run.why);
    abort();
}

/* Kinds are characters from '8' on: 8 ns_open, 9 ns_close, : open, ; match, < reserve, = commit,
 * > fork, ? truncate, @ close, A row, B slots, C info, D probe, E need, F step_begin, G
 * step_retire, H step_abort, I retain, J decay, K evict, L new_epoch, M snapshot, N hold_open, O
 * hold_post, P poll, Q hold_reclaim, R hold_blocks, S suspend, T resume, U blocks_take, V
 * blocks_ref, W blocks_unref, X block_publish, Y blocks_lookup, Z table_delta, [ table_resync,
 * backslash seqs_common, ] view_slots, ^ view_row. */
#define PREFILL                                                                                    \
    ":@0aaaa1"                                                                                     \
    ";@1cdefg"                                                                                     \
    "=A2aaaa3"                                                                                     \
    "<A0baaa4"                                                                                     \
    "=A1dcba5"
#define STEP                                                                                       \
    "F@0aaaa1"                                                                                     \
    "<A0baaa4"                                                                                     \
    "=A1dcba5"                                                                                     \
    "G@0aaaa1"
const fuzz_seed fuzz_seeds[] = {
    FUZZ_SEED("01" PREFILL "@A0aaaa1" PREFILL "@A0aaaa2" PREFILL "?A0baaa1"
              "<A1aaaa2"
              "@A2abcd1"),
    FUZZ_SEED("7x"
              "8aaaaaaa"
              ":aaaaaaa" PREFILL ">A1abcda"
              "<D0aaaaa"
              "=A0aaaaa"
              "=a0aaaaa"
              "@A0aaaaa"),
    FUZZ_SEED("zQ" PREFILL PREFILL PREFILL PREFILL "E@0aaaaa"
              "<@0aaaaa"
              "D@0abcde"
              "@a0aaaaa" PREFILL),
    FUZZ_SEED("3k" PREFILL STEP STEP ">A1abcda" STEP "F@0aaaa1"
              "=A0aaaaa"
              "@A0aaaa1"
              "H@0aaaaa"
              "Z@0aaaaa" STEP "M@1aaaaa"
              "I@0aaaaa"
              "L@1aaaaa"
              "K@1aaaaa"
              "J@1aaaaa" PREFILL),
    FUZZ_SEED("9d" PREFILL "N@1aaaaa"
              "O@1aaaaa"
              "P@1aaaaa"
              "S@1aaaaa"
              "O@1aaaaa"
              "P@1aaaaa"
              "T@1aaaaa"
              "P@1cdaaa"
              "Q@1aaaaa" PREFILL),
    FUZZ_SEED("4b"
              "U@1aaaaa"
              "X@1abcde"
              "Y@1aaaaa"
              "V@1aaaaa"
              "W@1aaaaa" PREFILL "Z@1aaaaa"
              "]@1aaaaa"
              "^@1aaaaa"),
};
const size_t fuzz_n_seeds = sizeof(fuzz_seeds) / sizeof(fuzz_seeds[0]);
const char *const fuzz_words[] = {
    ":@0aaaa1", ";@1cdefg", "=A2aaaa3", "<A0baaa4", "=A1dcba5", "@A0aaaa1", "?A0baaa1",
    ">A1abcda", "E@0aaaaa", "D@0abcde", "8abcdefg", "9abcdefg", PREFILL,    PREFILL "@A0aaaa1",
};
const size_t fuzz_n_words = sizeof(fuzz_words) / sizeof(fuzz_words[0]);
