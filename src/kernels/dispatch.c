/* Which function takes a unit. Only this file and backend.c ask which levels this build contains.
 */
#include "kernels/kernels_internal.h"

void pkv__cpu_kernels_init(struct pkv__cpu_kernels *k, pkv_isa isa)
{
    pkv__init_scalar(k); /* every slot is filled before any is replaced */
#if PKV_HAVE_AVX2
    if (isa < PKV_ISA_AVX2) return;
    pkv__init_avx2(k);
#endif
#if PKV_HAVE_AVX512
    if (isa < PKV_ISA_AVX512) return;
    pkv__init_avx512(k);
#endif
#if PKV_HAVE_AVX512BF16
    if (isa < PKV_ISA_AVX512BF16) return;
    pkv__init_avx512bf16(k);
#endif
#if PKV_HAVE_AMX
    if (isa < PKV_ISA_AMX) return;
    pkv__init_amx(k);
#endif
#if PKV_HAVE_NEON
    if (isa < PKV_ISA_NEON) return;
    pkv__init_neon(k);
#endif
    (void)isa;
}

const struct pkv__attn_kernel *pkv__attn_choose(const struct pkv__cpu_kernels *k,
                                                const struct pkv__attn_call *c, int32_t q_len,
                                                bool *is_short)
{
    const bool s = pkv__attn_is_short(q_len, c->group);
    if (is_short) *is_short = s;
    if (s && c->opts->int8_qk && c->k->dtype == PKV_I8 && k->attn_short_int8_qk.fn[PKV__PAGED])
        return &k->attn_short_int8_qk;
    return s ? &k->attn_short[c->k->dtype] : &k->attn_rows[c->k->dtype];
}

/* Every name that a kernel of attention can have: family, dtype or variant, level. */
#define ISA_NAMES(stem)                                                                            \
    {                                                                                              \
        stem "_scalar", stem "_avx2", stem "_avx512", stem "_avx512bf16", stem "_amx",             \
            stem "_neon"                                                                           \
    }
#define DTYPE_NAMES(family)                                                                        \
    {                                                                                              \
        ISA_NAMES(family "_f32"), ISA_NAMES(family "_f16"), ISA_NAMES(family "_bf16"),             \
            ISA_NAMES(family "_e4m3"), ISA_NAMES(family "_e5m2"), ISA_NAMES(family "_int8"),       \
            ISA_NAMES(family "_int4")                                                              \
    }
enum { N_LEVELS = 6 };

static int level_index(pkv_isa isa)
{
    if (isa == PKV_ISA_NEON) return N_LEVELS - 1;
    return isa >= PKV_ISA_SCALAR && isa <= PKV_ISA_AMX ? (int)isa - PKV_ISA_SCALAR : -1;
}

const char *pkv__attn_name(pkv_dtype dtype, pkv_isa isa, bool is_short, bool int8_qk)
{
    static const char *const names[2][PKV_DTYPE_COUNT][N_LEVELS] = {
        DTYPE_NAMES("attention_rows"), DTYPE_NAMES("attention_short")
    };
    static const char *const int8_names[N_LEVELS] = ISA_NAMES("attention_short_int8qk");
    const int level = level_index(isa);
    if ((unsigned)dtype >= PKV_DTYPE_COUNT || level < 0) return NULL;
    return int8_qk ? int8_names[level] : names[is_short][dtype][level];
}
