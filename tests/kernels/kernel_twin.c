/* Read, load, copy and multiply-add loops. */
#include "kernel_twin.h"
#include "pagedkv/backend.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_THREADS = 256, LINE = 64, PEAK_CHAINS = 10 };

/* ------------------------------------------------------------------ threads */

struct share {
    void (*fn)(const void *ctx, int64_t lo, int64_t hi);
    const void *ctx;
    int64_t lo, hi;
};

static void *run_share(void *arg)
{
    const struct share *s = arg;
    s->fn(s->ctx, s->lo, s->hi);
    return NULL;
}

/* [0, n) in equal parts; the caller takes the first. */
static void spread(int32_t threads, int64_t n, void (*fn)(const void *ctx, int64_t lo, int64_t hi),
                   const void *ctx)
{
    pthread_t ids[MAX_THREADS];
    struct share shares[MAX_THREADS];
    if (threads > MAX_THREADS) threads = MAX_THREADS;
    for (int32_t i = 0; i < threads; i++) {
        shares[i] = (struct share){ fn, ctx, n * i / threads, n * (i + 1) / threads };
        if (i > 0 && pthread_create(&ids[i], NULL, run_share, &shares[i]) != 0) {
            fprintf(stderr, "bench: no thread\n");
            exit(2);
        }
    }
    run_share(&shares[0]);
    for (int32_t i = 1; i < threads; i++) pthread_join(ids[i], NULL);
}

/* ------------------------------------------------------------------ loads that nobody can leave
 * out
 */

#ifdef __x86_64__
static inline void load_line_512(const unsigned char *p)
{
    __asm__ volatile("vmovups (%0), %%zmm0" : : "r"(p) : "xmm0", "memory");
}

static inline void load_line_256(const unsigned char *p)
{
    __asm__ volatile("vmovups (%0), %%ymm0\n\tvmovups 32(%0), %%ymm1"
                     :
                     : "r"(p)
                     : "xmm0", "xmm1", "memory");
}

static inline void end_of_loads(void)
{
    __asm__ volatile("vzeroupper");
}

static int width(void)
{
    if (pkv_isa_check(PKV_ISA_AVX512, NULL) == PKV_OK) return 512;
    return pkv_isa_check(PKV_ISA_AVX2, NULL) == PKV_OK ? 256 : 64;
}
#else
#define load_line_512 load_line
#define load_line_256 load_line
static inline void end_of_loads(void) {}
static int width(void)
{
    return 64;
}
#endif

static inline void load_line(const unsigned char *p)
{
    const volatile uint64_t *words = (const volatile uint64_t *)(const void *)p;
    for (int i = 0; i < LINE / 8; i++) (void)words[i];
}

/* One loop per width, so that none of them asks for it line by line. */
#define READ_LOOP(line)                                                                            \
    static void read_##line(const unsigned char *p, size_t bytes)                                  \
    {                                                                                              \
        for (size_t i = 0; i + 8 * LINE <= bytes; i += 8 * LINE)                                   \
            for (size_t k = 0; k < 8; k++) line(p + i + k * LINE);                                 \
    }                                                                                              \
    static void pieces_##line(const struct twin_piece *piece, int64_t n, int32_t ahead)            \
    {                                                                                              \
        for (int64_t i = 0; i < n; i++) {                                                          \
            const struct twin_piece *next = &piece[i + ahead < n ? i + ahead : n - 1];             \
            for (uint32_t at = 0; at < piece[i].bytes; at += LINE) {                               \
                if (at < next->bytes) __builtin_prefetch(next->at + at);                           \
                line(piece[i].at + at);                                                            \
            }                                                                                      \
        }                                                                                          \
    }
READ_LOOP(load_line)
#ifdef __x86_64__
READ_LOOP(load_line_256)
READ_LOOP(load_line_512)
#else
#define read_load_line_256 read_load_line
#define read_load_line_512 read_load_line
#define pieces_load_line_256 pieces_load_line
#define pieces_load_line_512 pieces_load_line
#endif

static void read_part(const void *ctx, int64_t lo, int64_t hi)
{
    const struct twin_read *r = ctx;
    const unsigned char *p = r->data + lo * 8 * LINE;
    const size_t bytes = (size_t)(hi - lo) * 8 * LINE;
    if (width() == 512) read_load_line_512(p, bytes);
    else if (width() == 256) read_load_line_256(p, bytes);
    else read_load_line(p, bytes);
    end_of_loads();
}

void twin_read(void *read)
{
    const struct twin_read *r = read;
    spread(r->threads, (int64_t)(r->bytes / (8 * LINE)), read_part, r);
}

static void load_part(const void *ctx, int64_t lo, int64_t hi)
{
    const struct twin_load *l = ctx;
    if (width() == 512) pieces_load_line_512(l->pieces + lo, hi - lo, l->ahead);
    else if (width() == 256) pieces_load_line_256(l->pieces + lo, hi - lo, l->ahead);
    else pieces_load_line(l->pieces + lo, hi - lo, l->ahead);
    end_of_loads();
}

void twin_load(void *load)
{
    const struct twin_load *l = load;
    spread(l->threads, l->n_pieces, load_part, l);
}

static void copy_part(const void *ctx, int64_t lo, int64_t hi)
{
    const struct twin_copy *c = ctx;
    memcpy(c->to + lo * LINE, c->from + lo * LINE, (size_t)(hi - lo) * LINE);
}

void twin_copy(void *copy)
{
    const struct twin_copy *c = copy;
    spread(c->threads, (int64_t)(c->bytes / LINE), copy_part, c);
}

/* ------------------------------------------------------------------ multiply-adds */

int32_t twin_lanes(void)
{
    return width() == 64 ? 4 : width() / 32;
}

double twin_peak_flops(const struct twin_peak *p)
{
    return (double)p->n * PEAK_CHAINS * 2 * p->lanes;
}

#ifdef __x86_64__
/* Ten chains of four cycles each keep two units busy. */
#define CHAIN(r, i) "vfmadd231ps %%" r "15, %%" r "15, %%" r #i "\n\t"
#define FIVE(r, a, b, c, d, e) CHAIN(r, a) CHAIN(r, b) CHAIN(r, c) CHAIN(r, d) CHAIN(r, e)
#define CHAINS(r) FIVE(r, 0, 1, 2, 3, 4) FIVE(r, 5, 6, 7, 8, 9)
#define PEAK_CLOBBERS                                                                              \
    "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm15"

static void peak_part(const void *ctx, int64_t lo, int64_t hi)
{
    const struct twin_peak *p = ctx;
    if (p->lanes == 4) return; /* no fused multiply-add */
    __asm__ volatile("vpxor %%xmm15, %%xmm15, %%xmm15" : : : "xmm15");
    if (p->lanes == 16)
        for (int64_t i = lo; i < hi; i++) __asm__ volatile(CHAINS("zmm") : : : PEAK_CLOBBERS);
    else
        for (int64_t i = lo; i < hi; i++) __asm__ volatile(CHAINS("ymm") : : : PEAK_CLOBBERS);
    end_of_loads();
}
#else
static void peak_part(const void *ctx, int64_t lo, int64_t hi)
{
    (void)ctx, (void)lo, (void)hi;
}
#endif

void twin_peak(void *peak)
{
    const struct twin_peak *p = peak;
    spread(p->threads, p->n, peak_part, p);
}
