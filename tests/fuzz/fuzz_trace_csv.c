/* Fuzz target: the CSV reader of traces. Beyond not crashing: the identity of rows holds, requests
 * are sorted and have lengths, and the size of the pieces the bytes come in changes nothing. */
#include "fuzz.h"

#include "pagedkv/sim.h"

#include <stdlib.h>
#include <string.h>

typedef struct source {
    const uint8_t *at;
    size_t len, chunk;
} source;

static int64_t hand_out(void *ctx, void *buf, size_t cap)
{
    source *s = ctx;
    size_t n = s->chunk < cap ? s->chunk : cap;
    if (n > s->len) n = s->len;
    if (n > 0) memcpy(buf, s->at, n);
    s->at += n;
    s->len -= n;
    return (int64_t)n;
}

static void check(const pkv_sim_trace *t)
{
    int64_t rows = t->n_reqs;
    for (int k = 0; k < PKV_SIM_DROP_COUNT; k++) rows += t->dropped[k];
    FUZZ_REQUIRE(rows == t->rows_read);
    FUZZ_REQUIRE(t->n_reqs > 0 && t->reqs[0].arrival_ns == 0);
    for (int64_t r = 0; r < t->n_reqs; r++) {
        FUZZ_REQUIRE(t->reqs[r].prompt_tokens > 0 && t->reqs[r].output_tokens > 0);
        FUZZ_REQUIRE(r == 0 || t->reqs[r].arrival_ns >= t->reqs[r - 1].arrival_ns);
    }
}

static pkv_status read_in_pieces(const uint8_t *data, size_t size, size_t chunk, bool strict,
                                 pkv_sim_trace *out)
{
    source s = { data, size, chunk };
    pkv_sim_trace_config cfg = PKV_SIM_TRACE_CONFIG_INIT;
    cfg.strict = strict;
    *out = (pkv_sim_trace)PKV_SIM_TRACE_INIT;
    return pkv_sim_trace_read(hand_out, &s, &cfg, out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    pkv_sim_trace whole, pieces, strict;
    const pkv_status a = read_in_pieces(data, size, 1 << 16, false, &whole);
    const pkv_status b = read_in_pieces(data, size, 1 + size % 7, false, &pieces);
    const pkv_status c = read_in_pieces(data, size, 4096, true, &strict);
    FUZZ_REQUIRE(a == b);
    FUZZ_REQUIRE(a == PKV_OK || a == PKV_E_FORMAT);
    FUZZ_REQUIRE(c == PKV_E_FORMAT || (c == PKV_OK && a == PKV_OK));
    if (a == PKV_OK) {
        check(&whole);
        FUZZ_REQUIRE(whole.n_reqs == pieces.n_reqs && whole.rows_read == pieces.rows_read);
        FUZZ_REQUIRE(memcmp(whole.reqs, pieces.reqs, (size_t)whole.n_reqs * sizeof(*whole.reqs)) ==
                     0);
    }
    if (c == PKV_OK) {
        check(&strict);
        FUZZ_REQUIRE(strict.n_reqs == strict.rows_read && strict.n_backwards == 0);
    }
    pkv_sim_trace_free(&whole);
    pkv_sim_trace_free(&pieces);
    pkv_sim_trace_free(&strict);
    return 0;
}

#define AZURE "TIMESTAMP,ContextTokens,GeneratedTokens\n"
#define ROW "2023-11-16 18:15:46.6805900,374,44\n"

const fuzz_seed fuzz_seeds[] = {
    FUZZ_SEED(""),
    FUZZ_SEED("\n"),
    FUZZ_SEED("\""),
    FUZZ_SEED("\xef\xbb\xbf"),
    FUZZ_SEED("\xef\xbb\xbf\r\n\r\n" AZURE ROW ROW),
    FUZZ_SEED("TIMESTAMP,ContextTokens,GeneratedTokens\r\n2023-11-16 18:15:46.6805900,374,44"),
    FUZZ_SEED(AZURE "2023-11-16T18:15:46Z,7.0,1e3\n2023-11-16T18:15:45+01:30,1,1\n" AZURE ",,\n"),
    FUZZ_SEED(AZURE
              "\"2023-11-16 18:15:46\",\"37\"\"4\",44\n\"\"\"\"\"\",\"\",\n\"unclosed,1,1\n" ROW),
    FUZZ_SEED(AZURE "2023-11-16 18:15:46,99999999999999999999,1e-5\n1,2,3,4,5\n\0\n,\n" ROW),
    FUZZ_SEED("arrived_at,num_prefill_tokens,num_decode_tokens\n5,1,1\n7,2,1\n1e9,3,1\n-4,5,1\n"),
    FUZZ_SEED("num_prefill_tokens,num_decode_tokens\n7564.0,12.5\n1,1\n"),
    FUZZ_SEED("Timestamp,Request tokens,Response tokens\n19440110.0,472,18\n1e27,1,1\nnan,1,1\n"),
    FUZZ_SEED("arrival_timestamp,prompt_size,token_size\n0.1,1,1\n0.1,1,1\n,1,1\n"),
    FUZZ_SEED("{\"timestamp\": 1}\n"),
    FUZZ_SEED("TIMESTAMP;ContextTokens;GeneratedTokens\n"),
    FUZZ_SEED(",,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,\n"),
};
const size_t fuzz_n_seeds = sizeof(fuzz_seeds) / sizeof(fuzz_seeds[0]);

const char *const fuzz_words[] = {
    ",",   "\"",  "\r\n", "\n", "0",   "1e9", ".5",   "-",     "Z",          "+01:00",
    "e-3", "nan", " ",    ROW,  AZURE, "\t",  "\"\"", "2199-", "2147483648", "arrived_at",
};
const size_t fuzz_n_words = sizeof(fuzz_words) / sizeof(fuzz_words[0]);
