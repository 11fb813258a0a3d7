/* Fuzz target: the reader of traces with content ids. A refusal names a place and leaves nothing;
 * an accepted trace is a set of chains: ids are numbered without gaps, and each has one predecessor
 * and one length. What the bound counts, a pool without evictions finds. */
#include "fuzz.h"

#include "share_replay.h"

#include "pagedkv/blockmgr.h"

#include <string.h>

#define BLOCK 4
#define MOST_IDS 512 /* of what is replayed: the manager costs more than the parser */

static void check_chains(const struct hash_trace *t)
{
    int32_t *before = calloc((size_t)t->n_ids, sizeof(*before)); /* id before + 2; 0: not seen */
    int64_t tokens = 0;
    int32_t n_seen = 0;
    FUZZ_REQUIRE(before && t->first[0] == 0 && t->first[t->n_requests] == t->n_refs);
    for (int32_t i = 0; i < t->n_requests; i++) {
        const int32_t n = t->first[i + 1] - t->first[i];
        FUZZ_REQUIRE(n >= 1 && n <= t->longest && n == (t->tokens[i] + BLOCK - 1) / BLOCK);
        tokens += t->tokens[i];
        for (int32_t k = 0; k < n; k++) {
            const int32_t *id = &t->ids[t->first[i] + k];
            const int32_t mark = (k ? id[-1] : -1) + 2;
            FUZZ_REQUIRE(*id >= 0 && *id < t->n_ids);
            FUZZ_REQUIRE(before[*id] == 0 || before[*id] == mark);
            n_seen += before[*id] == 0;
            before[*id] = mark;
        }
    }
    FUZZ_REQUIRE(tokens == t->n_tokens && n_seen == t->n_ids);
    free(before);
}

static void check_replay(const struct hash_trace *t)
{
    struct bench_error err;
    struct share_hits bound, found;
    bool *seen = calloc((size_t)t->n_ids, sizeof(*seen));
    FUZZ_REQUIRE(seen);
    share_bound(t, seen, &bound);
    FUZZ_REQUIRE(bound.blocks == t->n_refs - t->n_ids);
    FUZZ_REQUIRE(share_replay(t, share_endless_pool(t), PKV_MGR_PREFIX_CACHE, &found, &err));
    FUZZ_REQUIRE(found.ok && found.blocks == bound.blocks && found.tokens == bound.tokens);
    free(seen);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct hash_trace t;
    struct bench_error err = { BENCH_OK, "" };
    char *copy = malloc(size + 1); /* fmemopen wants at least a byte, and one that it may write */
    FUZZ_REQUIRE(copy);
    memcpy(copy, data, size);
    copy[size] = '\n';
    FILE *in = fmemopen(copy, size + 1, "r");
    FUZZ_REQUIRE(in);
    if (hash_trace_parse(in, "input", BLOCK, &t, &err)) {
        check_chains(&t);
        if (t.n_refs <= MOST_IDS) check_replay(&t);
    } else {
        FUZZ_REQUIRE(err.code == BENCH_USAGE && strncmp(err.text, "input: ", 7) == 0);
        FUZZ_REQUIRE(t.n_requests == 0 && !t.ids && !t.first && !t.tokens);
        for (const char *c = err.text; *c; c++) FUZZ_REQUIRE(*c >= ' ' && *c <= '~');
    }
    hash_trace_free(&t);
    fclose(in);
    free(copy);
    return 0;
}

#define LINE(input, ids)                                                                           \
    "{\"timestamp\": 0, \"input_length\": " input ", \"output_length\": 1, \"hash_ids\": [" ids    \
    "]}\n"

const fuzz_seed fuzz_seeds[] = {
    FUZZ_SEED(""),
    FUZZ_SEED("\n"),
    FUZZ_SEED("{}"),
    FUZZ_SEED("[[[[[["),
    FUZZ_SEED("\x1b[31m"),
    FUZZ_SEED(LINE("12", "1, 2, 3") LINE("10", "1, 2, 4") LINE("3", "5") LINE("12", "1, 2, 3")),
    FUZZ_SEED(LINE("8", "1, 2") LINE("8", "2, 1")),
    FUZZ_SEED(LINE("4", "1") LINE("3", "1")),
    FUZZ_SEED(LINE("8", "9223372036854775807, -9223372036854775808")),
};
const size_t fuzz_n_seeds = sizeof(fuzz_seeds) / sizeof(fuzz_seeds[0]);
const char *const fuzz_words[] = { "{",
                                   "}",
                                   "[",
                                   "]",
                                   "1",
                                   "2",
                                   "4",
                                   ":",
                                   ", ",
                                   "\n",
                                   "1e9",
                                   "-1",
                                   "null",
                                   "\"timestamp\"",
                                   "\"input_length\": 4",
                                   "\"hash_ids\": [1]" };
const size_t fuzz_n_words = sizeof(fuzz_words) / sizeof(fuzz_words[0]);
