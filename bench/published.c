/* Figures for orientation with their sources: published ones, then measurements of this project
 * that cannot be repeated from here. */
#include "published.h"

#include <stddef.h>

#define OTHER_XEON "Xeon of the same class, 2 cores, Python"
#define OWN_MEASUREMENT                                                                            \
    "not published: own measurement, other machine, not repeatable from here; version not "        \
    "recorded"

static const struct published_figure figures[] = {
    { "attention kernel through a block table", "1.20-1.26x the time of FasterTransformer's",
      "A100", "PagedAttention paper, arXiv 2309.06180, Fig. 18a" },
    { "paged prefill against contiguous, worst case", "FlashAttention-2 1.37x, FlashInfer 1.42x",
      "A100", "vAttention, arXiv 2405.04437" },
    { "vLLM decode kernel against FlashAttention-2", "up to 2.8x, worse at blocks of 64 and 128",
      "A100", "vAttention, arXiv 2405.04437" },
    { "FlashAttention-4 decode by block size", "4.0 / 1.35 / 0.87 TB/s at blocks of 128 / 32 / 1",
      "B200", "flash-attention issue 1999" },
    { "block size by trace", "ShareGPT best at 16-128; Alpaca at 16 and 32, larger much worse",
      "A100", "PagedAttention paper, arXiv 2309.06180, Fig. 18b" },
    { "KV allocation per engine step", "about 87 us a step", "CPU-only engine loop, Python",
      "simllm issue 204" },
    { "hashing of blocks, per token", "60-120 ns", "server CPU, Python",
      "vLLM issues 15297 and 29261" },
    { "look-up of 38k tokens, 297 blocks of 128", "0.9 ms, 97 % of it hashing", "server CPU",
      "TensorRT-LLM issue 16168" },
    { "SGLang evict call", "7, later 0.5 ms", "server CPU", "sglang issue 14339" },
    { "concurrent requests, OPT-13B, ShareGPT", "Orca Max 7.00, Oracle 13.62, vLLM 30.42",
      "A100 40 GB", "PagedAttention paper, arXiv 2309.06180, Fig. 13a" },
    { "vLLM BlockPool get + free, per block", "251 ns in batches of 128, 1,104 ns single",
      OTHER_XEON, OWN_MEASUREMENT },
    { "nano-vllm get + free, per block", "583 ns", OTHER_XEON, OWN_MEASUREMENT },
    { "vLLM allocate_slots(1), per sequence", "7.3 us", OTHER_XEON, OWN_MEASUREMENT },
};

const struct published_figure *published_figure(int idx)
{
    const int n = (int)(sizeof(figures) / sizeof(figures[0]));
    return idx >= 0 && idx < n ? &figures[idx] : NULL;
}
