/* The figures of the paper, and what is accepted of ours.
 *
 * The widths come from an independent model over 9 to 11 seeds and several shapes of the length
 * laws; the reference values, where the paper prints none, come from that model too. Segments of
 * Pow2 and Oracle other than token states, and the batches of Alpaca, were read off figures. */
#include "fragsim_paper.h"

/* ---------------------------------------------------------------- simulations */

enum {
    MAX,
    POW2,
    ORACLE,
    PAGED,
    BLOCK_1,
    BLOCK_8,
    BLOCK_32,
    BLOCK_64,
    BLOCK_128,
    BLOCK_256,
    WATERMARK_0,
    WATERMARK_5,
    ALPACA_MAX,
    ALPACA_POW2,
    ALPACA_ORACLE,
    FORK_2,
    FORK_4,
    FORK_6,
    ALPACA_FORK_2,
    ALPACA_FORK_4,
    ALPACA_FORK_6,
    BEAM_2,
    BEAM_4,
    BEAM_6,
    ALPACA_BEAM_2,
    ALPACA_BEAM_4,
    ALPACA_BEAM_6,
    STATIC,
    REAL,
    FIRST_FIT,
    BEST_FIT,
    IDEAL,
    VATTN
};

const paper_source fragsim_paper_sources[PAPER_SAMPLES] = {
    [PAPER_SHAREGPT] = { "sharegpt-like", 8000000, 3000, 22000000, 300000, 400 },
    [PAPER_ALPACA] = { "alpaca-like", 30000000, 8000, 22000000, 400000, 0 },
    [PAPER_SHAREGPT_BEAMS] = { "sharegpt-like", 8000000, 500, 22000000, 300000, 400 },
    [PAPER_ALPACA_BEAMS] = { "alpaca-like", 30000000, 1300, 22000000, 400000, 0 },
};

#define PERCENT 10000 /* in millionths */
/* Between the first admission and the last arrival somebody always waits. What is saved by sharing
 * is a matter of lengths and not of load: it is taken over the whole run. */
#define LOADED PKV_SIM_WINDOW_ARRIVALS
#define WHOLE PKV_SIM_WINDOW_ALL
const paper_run fragsim_paper_runs[] = {
    [MAX] = { "max", PAPER_SHAREGPT, PERCENT, LOADED, false },
    [POW2] = { "pow2", PAPER_SHAREGPT, PERCENT, LOADED, false },
    [ORACLE] = { "oracle", PAPER_SHAREGPT, PERCENT, LOADED, false },
    [PAGED] = { "paged:block=16", PAPER_SHAREGPT, PERCENT, LOADED, false },
    [BLOCK_1] = { "paged:block=1", PAPER_SHAREGPT, PERCENT, LOADED, false },
    [BLOCK_8] = { "paged:block=8", PAPER_SHAREGPT, PERCENT, LOADED, false },
    [BLOCK_32] = { "paged:block=32", PAPER_SHAREGPT, PERCENT, LOADED, false },
    [BLOCK_64] = { "paged:block=64", PAPER_SHAREGPT, PERCENT, LOADED, false },
    [BLOCK_128] = { "paged:block=128", PAPER_SHAREGPT, PERCENT, LOADED, false },
    [BLOCK_256] = { "paged:block=256", PAPER_SHAREGPT, PERCENT, LOADED, false },
    [WATERMARK_0] = { "paged:block=16", PAPER_SHAREGPT, 0, LOADED, false },
    [WATERMARK_5] = { "paged:block=16", PAPER_SHAREGPT, 5 * PERCENT, LOADED, false },
    [ALPACA_MAX] = { "max", PAPER_ALPACA, PERCENT, LOADED, false },
    [ALPACA_POW2] = { "pow2", PAPER_ALPACA, PERCENT, LOADED, false },
    [ALPACA_ORACLE] = { "oracle", PAPER_ALPACA, PERCENT, LOADED, false },
    [FORK_2] = { "paged+fork:block=16,n=2", PAPER_SHAREGPT, PERCENT, WHOLE, false },
    [FORK_4] = { "paged+fork:block=16,n=4", PAPER_SHAREGPT, PERCENT, WHOLE, false },
    [FORK_6] = { "paged+fork:block=16,n=6", PAPER_SHAREGPT, PERCENT, WHOLE, false },
    [ALPACA_FORK_2] = { "paged+fork:block=16,n=2", PAPER_ALPACA, PERCENT, WHOLE, false },
    [ALPACA_FORK_4] = { "paged+fork:block=16,n=4", PAPER_ALPACA, PERCENT, WHOLE, false },
    [ALPACA_FORK_6] = { "paged+fork:block=16,n=6", PAPER_ALPACA, PERCENT, WHOLE, false },
    [BEAM_2] = { "paged+beam:block=16,width=2", PAPER_SHAREGPT_BEAMS, PERCENT, WHOLE, false },
    [BEAM_4] = { "paged+beam:block=16,width=4", PAPER_SHAREGPT_BEAMS, PERCENT, WHOLE, false },
    [BEAM_6] = { "paged+beam:block=16,width=6", PAPER_SHAREGPT_BEAMS, PERCENT, WHOLE, false },
    [ALPACA_BEAM_2] = { "paged+beam:block=16,width=2", PAPER_ALPACA_BEAMS, PERCENT, WHOLE, false },
    [ALPACA_BEAM_4] = { "paged+beam:block=16,width=4", PAPER_ALPACA_BEAMS, PERCENT, WHOLE, false },
    [ALPACA_BEAM_6] = { "paged+beam:block=16,width=6", PAPER_ALPACA_BEAMS, PERCENT, WHOLE, false },
    /* FasterTransformer: a batch runs until its longest request is done */
    [STATIC] = { "static-batch", PAPER_SHAREGPT, PERCENT, LOADED, true },
    /* the published Orca: a counter of slots, max_model_len for each request */
    [REAL] = { "orca-real", PAPER_SHAREGPT, PERCENT, LOADED, true },
    [FIRST_FIT] = { "oracle:alloc=first-fit", PAPER_SHAREGPT, PERCENT, LOADED, true },
    [BEST_FIT] = { "oracle:alloc=best-fit", PAPER_SHAREGPT, PERCENT, LOADED, true },
    [IDEAL] = { "oracle:alloc=ideal", PAPER_SHAREGPT, PERCENT, LOADED, true },
    [VATTN] = { "vattn:page=64K", PAPER_SHAREGPT, PERCENT, LOADED, true },
    { NULL, PAPER_SHAREGPT, 0, LOADED, false },
};

/* ---------------------------------------------------------------- cells */

#define GATED(low, high) PAPER_RANGE, low, high
#define ABOUT(value, tolerance) GATED((value) - (tolerance), (value) + (tolerance))
#define SHOWN PAPER_NO_GATE, 0, 0
#define ONE(value) value, value
#define RANGE(low, high) low, high
#define NOT_PUBLISHED ONE(-1)
#define NO_FORM PAPER_NO_FORM, 0, 0
/* Form and simulation of max agree within a point. */
#define FORM_OF_MAX PAPER_FORM, 1, 0
/* (B + 1) / 2 slots of each running request, the one of the step in progress included; within a
 * tenth. */
#define FORM_OF_BLOCK PAPER_FORM, 0, 0.1

#define FIG2 "Fig. 2, where the slots are, % of the pool"
#define FIG13A "Fig. 13a, requests running, ShareGPT"
#define FIG13B "Fig. 13b, requests running, Alpaca"
#define BLOCKS "Block sizes, % of the pool (Sec. 7.2: 16 is small enough)"
#define PREEMPT "Preemptions, by what admission keeps free"

#define BLOCK_ROWS(B, RUN, token)                                                                  \
    { BLOCKS, B ", token states", PAPER_TOKEN, RUN, PAPER_NO_RUN, NOT_PUBLISHED,                   \
      false,  ABOUT(token, 1.5),  NO_FORM },                                                       \
    {                                                                                              \
        BLOCKS, B ", internal", PAPER_INTERNAL, RUN, PAPER_NO_RUN, NOT_PUBLISHED, false, SHOWN,    \
            FORM_OF_BLOCK                                                                          \
    }

#define FORKS "Sec. 6.3, parallel sampling, % of the blocks saved (paper: 2 to 6 samples)"
#define BEAMS "Sec. 6.3, beam search, % of the blocks saved (one beam in ten switches)"
#define SHARING_ROW(GROUP, name, RUN, PAPER, GATE, FORM)                                           \
    {                                                                                              \
        GROUP, name, PAPER_SAVING, RUN, PAPER_NO_RUN, PAPER, false, GATE, FORM, 0, 0               \
    }

const paper_cell fragsim_paper_cells[] = {
    { FIG2, "Orca (Max), token states", PAPER_TOKEN, MAX, PAPER_NO_RUN, ONE(20.4), false,
      ABOUT(20.4, 2), FORM_OF_MAX },
    { FIG2, "Orca (Max), reservation", PAPER_RESERVATION, MAX, PAPER_NO_RUN, ONE(13.3), false,
      ABOUT(13.3, 1.5), FORM_OF_MAX },
    { FIG2, "Orca (Max), internal", PAPER_INTERNAL, MAX, PAPER_NO_RUN, ONE(57.3), false,
      ABOUT(57.3, 3), FORM_OF_MAX },
    { FIG2, "Orca (Max), external", PAPER_EXTERNAL, MAX, PAPER_NO_RUN, ONE(8.9), false,
      ABOUT(8.85, 0.3), FORM_OF_MAX },
    { FIG2, "Orca (Pow2), token states", PAPER_TOKEN, POW2, PAPER_NO_RUN, ONE(26.8), false,
      ABOUT(26.8, 3), NO_FORM },
    { FIG2, "Orca (Pow2), reservation", PAPER_RESERVATION, POW2, PAPER_NO_RUN, ONE(17.9), true,
      ABOUT(17.9, 2), NO_FORM },
    { FIG2, "Orca (Pow2), internal", PAPER_INTERNAL, POW2, PAPER_NO_RUN, ONE(13.6), true,
      ABOUT(13.6, 3.5), NO_FORM },
    { FIG2, "Orca (Pow2), external", PAPER_EXTERNAL, POW2, PAPER_NO_RUN, ONE(41.6), true,
      ABOUT(41.6, 5.5), NO_FORM },
    { FIG2, "Orca (Oracle), token states", PAPER_TOKEN, ORACLE, PAPER_NO_RUN, ONE(38.2), false,
      ABOUT(38.2, 3), NO_FORM },
    { FIG2, "Orca (Oracle), reservation", PAPER_RESERVATION, ORACLE, PAPER_NO_RUN, ONE(25.2), true,
      ABOUT(25.2, 2), NO_FORM },
    { FIG2, "Orca (Oracle), internal", PAPER_INTERNAL, ORACLE, PAPER_NO_RUN, ONE(0), true,
      GATED(0, 0), NO_FORM },
    { FIG2, "Orca (Oracle), external", PAPER_EXTERNAL, ORACLE, PAPER_NO_RUN, ONE(36.6), true,
      ABOUT(36.6, 4), NO_FORM },
    { FIG2, "vLLM (paged 16), token states", PAPER_TOKEN, PAGED, PAPER_NO_RUN, ONE(96.3), false,
      GATED(94.5, 97.5), NO_FORM },
    { FIG13A, "Orca (Max)", PAPER_BATCH, MAX, PAPER_NO_RUN, ONE(7), false, ABOUT(7, 0.05),
      PAPER_FORM, 0, 0 },
    { FIG13A, "Orca (Pow2)", PAPER_BATCH, POW2, PAPER_NO_RUN, ONE(9.81), false, ABOUT(9.81, 0.5),
      NO_FORM },
    { FIG13A, "Orca (Oracle)", PAPER_BATCH, ORACLE, PAPER_NO_RUN, ONE(13.62), false,
      ABOUT(13.62, 1), PAPER_BOUND, 0, 0 },
    { FIG13A, "vLLM (paged 16)", PAPER_BATCH, PAGED, PAPER_NO_RUN, ONE(30.42), false, GATED(28, 37),
      PAPER_ESTIMATE, 0, 0 },
    { FIG13A, "vLLM over Orca (Oracle)", PAPER_RATIO, PAGED, ORACLE, ONE(2.2), false,
      GATED(2.0, 2.8), NO_FORM },
    { FIG13A, "vLLM over Orca (Max)", PAPER_RATIO, PAGED, MAX, ONE(4.3), false, GATED(4.0, 5.2),
      NO_FORM },
    { FIG13B, "Orca (Max)", PAPER_BATCH, ALPACA_MAX, PAPER_NO_RUN, ONE(7), false, ABOUT(7, 0.05),
      PAPER_FORM, 0, 0 },
    { FIG13B, "Orca (Pow2)", PAPER_BATCH, ALPACA_POW2, PAPER_NO_RUN, ONE(43.24), true,
      ABOUT(43.24, 3), NO_FORM },
    { FIG13B, "Orca (Oracle)", PAPER_BATCH, ALPACA_ORACLE, PAPER_NO_RUN, ONE(72.75), true,
      ABOUT(72.75, 6), NO_FORM },
    BLOCK_ROWS("1 token", BLOCK_1, 97.2),
    BLOCK_ROWS("8 tokens", BLOCK_8, 96.5),
    BLOCK_ROWS("16 tokens", PAGED, 95.6),
    BLOCK_ROWS("32 tokens", BLOCK_32, 93.9),
    BLOCK_ROWS("64 tokens", BLOCK_64, 90.7),
    BLOCK_ROWS("128 tokens", BLOCK_128, 84.7),
    BLOCK_ROWS("256 tokens", BLOCK_256, 75.5),
    { PREEMPT, "nothing", PAPER_PREEMPTIONS, WATERMARK_0, PAPER_NO_RUN, NOT_PUBLISHED, false, SHOWN,
      NO_FORM },
    { PREEMPT, "1 % of the blocks", PAPER_PREEMPTIONS, PAGED, WATERMARK_0, NOT_PUBLISHED, false,
      PAPER_FALLING, 0, 0, NO_FORM },
    { PREEMPT, "5 % of the blocks", PAPER_PREEMPTIONS, WATERMARK_5, PAGED, NOT_PUBLISHED, false,
      PAPER_FALLING, 0, 0, NO_FORM },
    SHARING_ROW(FORKS, "ShareGPT, 2 samples", FORK_2, RANGE(16.2, 30.5), ABOUT(16.7, 3),
                PAPER_FORM),
    SHARING_ROW(FORKS, "ShareGPT, 4 samples", FORK_4, RANGE(16.2, 30.5), ABOUT(25.1, 3),
                PAPER_FORM),
    SHARING_ROW(FORKS, "ShareGPT, 6 samples", FORK_6, RANGE(16.2, 30.5), ABOUT(27.9, 3),
                PAPER_FORM),
    SHARING_ROW(FORKS, "Alpaca, 2 samples", ALPACA_FORK_2, RANGE(6.1, 9.8), ABOUT(6.5, 1.5),
                PAPER_FORM),
    SHARING_ROW(FORKS, "Alpaca, 4 samples", ALPACA_FORK_4, RANGE(6.1, 9.8), ABOUT(9.7, 1.5),
                PAPER_FORM),
    SHARING_ROW(FORKS, "Alpaca, 6 samples", ALPACA_FORK_6, RANGE(6.1, 9.8), ABOUT(10.8, 1.5),
                PAPER_FORM),
    SHARING_ROW(BEAMS, "ShareGPT, 2 beams", BEAM_2, RANGE(44.3, 66.3), SHOWN, PAPER_NO_FORM),
    SHARING_ROW(BEAMS, "ShareGPT, 4 beams", BEAM_4, RANGE(44.3, 66.3), SHOWN, PAPER_NO_FORM),
    SHARING_ROW(BEAMS, "ShareGPT, 6 beams", BEAM_6, RANGE(44.3, 66.3), SHOWN, PAPER_NO_FORM),
    SHARING_ROW(BEAMS, "Alpaca, 2 beams", ALPACA_BEAM_2, RANGE(37.6, 55.2), SHOWN, PAPER_NO_FORM),
    SHARING_ROW(BEAMS, "Alpaca, 4 beams", ALPACA_BEAM_4, RANGE(37.6, 55.2), SHOWN, PAPER_NO_FORM),
    SHARING_ROW(BEAMS, "Alpaca, 6 beams", ALPACA_BEAM_6, RANGE(37.6, 55.2), SHOWN, PAPER_NO_FORM),
    { NULL, NULL, PAPER_TOKEN, PAPER_NO_RUN, PAPER_NO_RUN, NOT_PUBLISHED, false, SHOWN, NO_FORM },
};
