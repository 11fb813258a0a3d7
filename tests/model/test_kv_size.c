/* The calculator: what a request takes, by hand. */
#include "model_test.h"
#include "pagedkv/kv_size.h"

/* Blocks of a request, worked out by hand: shared full blocks of the prompt once, the rest n
 * times. The last token is never written. */
static void request_blocks(void **state)
{
    (void)state;
    static const struct {
        int32_t n_prompt, max_new, n, block_tokens;
        int64_t want;
    } cases[] = {
        { 1, 1, 1, 16, 1 },        /* one slot */
        { 16, 1, 1, 16, 1 },       /* the new token is not written */
        { 16, 2, 1, 16, 2 },       /* the first of two is */
        { 17, 15, 1, 16, 2 },      /* 31 tokens */
        { 17, 16, 1, 16, 2 },      /* 32 */
        { 17, 17, 1, 16, 3 },      /* 33 */
        { 20, 13, 4, 16, 5 },      /* one shared, one of each */
        { 32, 1, 4, 16, 2 },       /* all shared */
        { 32, 2, 4, 16, 6 },       /* two shared, one of each */
        { 5, 5, 3, 1, 5 + 3 * 4 }, /* a block per token */
        { INT32_MAX, INT32_MAX, INT32_MAX, 1, INT32_MAX + (int64_t)INT32_MAX * (INT32_MAX - 1ll) },
        { 0, 1, 1, 16, 0 }, /* nothing to ask about */
        { 1, 0, 1, 16, 0 },
        { 1, 1, 0, 16, 0 },
        { 1, 1, 1, 0, 0 },
    };
    for (size_t k = 0; k < PKV_ARRAY_LEN(cases); k++) {
        const int64_t got = pkv_kv_request_blocks(cases[k].n_prompt, cases[k].max_new, cases[k].n,
                                                  cases[k].block_tokens);
        if (got != cases[k].want)
            fail_msg("case %zu: %lld blocks, expected %lld", k, (long long)got,
                     (long long)cases[k].want);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(request_blocks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
