/* The harness of check_kernels: cases, seeds, reports.
 *
 * A case is one named function; a seed makes one run of it. Everything a run draws comes from the
 * pair (name, seed), so that `check_kernels --case NAME --seed S` repeats it on any level. */
#ifndef PKV_CHECK_KERNELS_H
#define PKV_CHECK_KERNELS_H

#include "case_random.h"
#include "pagedkv/attention.h"

struct check;

/* One case per dtype of K and V (attention), of the store, of the states: which of them. */
enum check_types {
    UNTYPED,
    TYPED_FLOATS, /* f32, f16, bf16 */
    TYPED_STORES, /* and e4m3, e5m2, int8, int4 */
    TYPED_CODES   /* e4m3, e5m2, int8, int4 */
};

struct check_case {
    const char *op, *family;
    void (*run)(struct check *c);
    int n_seeds, n_quick;
    enum check_types typed;
};

struct check {
    const char *program;
    pkv_isa isa;
    pkv_backend *be;
    const struct check_case *current;
    pkv_dtype dtype;
    int64_t seed;
    struct rng rng;
    struct rng device_rng; /* see check_device.h */
    char log[256];         /* what the library said last in this run */
    char shape[320];       /* of the run in words */
    char skip[160];        /* why the run proved nothing; empty: it did */
    bool failed, verbose;
    /* Largest observed / bound of the run, for float32 outputs and without their rounding: tells
     * whether the bound of the sums is tight enough to find anything. */
    double ratio;
    long n_level_units; /* sequences that went through kernels of the level asked for */
};

/* Report a failure of the current run; the first report of a run prints in full. */
void check_fail(struct check *c, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void check_skip(struct check *c, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* The run ends here, as skipped. */
_Noreturn void check_stop(struct check *c, const char *reason);
#define CHECK(c, cond, ...)                                                                        \
    do {                                                                                           \
        if (!(cond)) check_fail(c, __VA_ARGS__);                                                   \
    } while (0)

/* What a full run must have met of attention, see coverage.h. */
void attn_cover_expect(void);
/* .. and of the kernels of a device, which may refuse a shape, but not every shape of a type. */
void attn_cover_device(const struct check *c);

/* The cases, one list per file, ended by an empty entry. */
extern const struct check_case attn_shape_cases[], attn_exact_cases[], attn_bits_cases[],
    attn_table_cases[], attn_sparse_cases[], attn_scale_cases[], attn_code_cases[],
    attn_mask_cases[], attn_cascade_cases[], attn_mla_cases[], attn_thread_cases[],
    attn_verdict_cases[], kv_write_cases[], rope_fill_cases[], kv_gather_cases[], move_cases[],
    copy_shape_cases[], merge_cases[];

/* `check_kernels --accuracy`: 0 or an exit status. `dump_path` may be NULL. */
int kernel_accuracy(pkv_isa isa, const char *dump_path);

#endif
