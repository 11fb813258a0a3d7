/* Fuzz target: the batch grammar of the benchmark. A refused text names a character inside it; an
 * accepted one prints, and what it prints is parsed to the same batch; its lengths can be drawn. */
#include "fuzz.h"

#include "batch_spec.h"

#include <string.h>

static void check_groups(const struct batch_spec *spec)
{
    int32_t n = 0;
    FUZZ_REQUIRE(spec->n_groups >= 1 && spec->n_groups <= BATCH_MAX_GROUPS);
    for (int32_t i = 0; i < spec->n_groups; i++) {
        const struct batch_group *g = &spec->groups[i];
        FUZZ_REQUIRE(g->count >= 1 && g->q_len >= 1 && g->q_len <= BATCH_MAX_LEN);
        if (g->kind == BATCH_KV_FIXED || g->kind == BATCH_KV_RANGE)
            FUZZ_REQUIRE(g->q_len <= g->kv_lo && g->kv_lo <= g->kv_hi && g->kv_hi <= BATCH_MAX_LEN);
        n += g->count;
    }
    FUZZ_REQUIRE(n == spec->n_seqs && n <= BATCH_MAX_SEQS);
}

static void check_draw(const struct batch_spec *spec)
{
    static int32_t q_len[BATCH_MAX_SEQS], kv_len[BATCH_MAX_SEQS];
    if (spec->n_seqs > 64) return; /* drawing is slow beside parsing */
    batch_spec_draw(spec, 1, q_len, kv_len);
    for (int32_t b = 0; b < spec->n_seqs; b++) FUZZ_REQUIRE(q_len[b] >= 1 && kv_len[b] >= q_len[b]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char text[512], printed[1024], again[1024];
    struct batch_spec spec, second;
    struct batch_spec_error err;
    if (size >= sizeof(text)) return 0;
    memcpy(text, data, size);
    text[size] = '\0';
    if (!batch_spec_parse(text, &spec, &err)) {
        FUZZ_REQUIRE(err.at >= 0 && (size_t)err.at <= strlen(text));
        FUZZ_REQUIRE(err.text[0] != '\0');
        return 0;
    }
    check_groups(&spec);
    check_draw(&spec);
    FUZZ_REQUIRE(batch_spec_format(&spec, printed, sizeof(printed)));
    FUZZ_REQUIRE(batch_spec_parse(printed, &second, &err));
    FUZZ_REQUIRE(batch_spec_format(&second, again, sizeof(again)));
    FUZZ_REQUIRE(strcmp(printed, again) == 0 && second.n_seqs == spec.n_seqs);
    return 0;
}

const fuzz_seed fuzz_seeds[] = {
    FUZZ_SEED("8q1s1k"),
    FUZZ_SEED("4q512s4k"),
    FUZZ_SEED("2q2k_32q1s1k"),
    FUZZ_SEED("32q1s1k-4k_q7"),
    FUZZ_SEED("32q1s@sharegpt_2q3s@alpaca"),
    FUZZ_SEED("65536q16384ks16384k"),
};
const size_t fuzz_n_seeds = sizeof(fuzz_seeds) / sizeof(fuzz_seeds[0]);
const char *const fuzz_words[] = { "q",  "s", "k",     "_",         "-",       "@",         "0",
                                   "1k", "7", "_1q1s", "@sharegpt", "@alpaca", "2147483648" };
const size_t fuzz_n_words = sizeof(fuzz_words) / sizeof(fuzz_words[0]);
