/* Which function takes a unit. Only this file and backend.c ask which levels this build contains.
 */
#include "kernels/kernels_internal.h"

#include <stdio.h>
#include <string.h>

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

static void describe(pkv_kernel_desc *out, pkv_op op, pkv_isa isa, pkv_dtype dtype,
                     const char *name, const char *covers)
{
    out->op = op;
    out->isa = isa;
    out->dtype = dtype;
    snprintf(out->name, sizeof(out->name), "%s", name);
    snprintf(out->covers, sizeof(out->covers), "%s", covers);
}

/* Entry `idx` of the attention kernels; false past the end, *idx then reduced. */
static bool attention_info(const struct pkv__cpu_kernels *k, int32_t *idx, pkv_kernel_desc *out)
{
    for (int is_short = 1; is_short >= 0; is_short--)
        for (int t = PKV_F32; t < PKV_DTYPE_COUNT; t++) {
            const struct pkv__attn_kernel *kernel = is_short ? &k->attn_short[t] : &k->attn_rows[t];
            if (!kernel->fn[PKV__PAGED] || (*idx)-- > 0) continue;
            describe(out, PKV_OP_ATTENTION, kernel->isa, (pkv_dtype)t,
                     pkv__attn_name((pkv_dtype)t, kernel->isa, is_short, false),
                     is_short ? "one row, or few; all options" : "any number of rows; all options");
            return true;
        }
    return false;
}

static bool typed_info(pkv_op op, const char *stem, const char *covers, int32_t *idx,
                       pkv_kernel_desc *out)
{
    for (int t = PKV_F32; t <= PKV_BF16; t++) {
        char name[sizeof(out->name)];
        if ((*idx)-- > 0) continue;
        snprintf(name, sizeof(name), "%s_%s_scalar", stem, pkv_dtype_name((pkv_dtype)t));
        describe(out, op, PKV_ISA_SCALAR, (pkv_dtype)t, name, covers);
        return true;
    }
    return false;
}

pkv_status pkv_kernel_info(const pkv_backend *be, int32_t idx, pkv_kernel_desc *out)
{
    if (!be || idx < 0 || !out) return PKV_E_INVALID_ARG;
    if (out->struct_size != sizeof(*out)) return PKV_E_ABI;
    if (attention_info(&be->kernels, &idx, out) ||
        typed_info(PKV_OP_KV_WRITE, "kv_write", "rows of f32, f16 or bf16 into this dtype", &idx,
                   out))
        return PKV_OK;
    if (idx-- == 0) {
        describe(out, PKV_OP_BLOCKS_COPY, PKV_ISA_SCALAR, PKV_I8, "blocks_copy_scalar",
                 "whole blocks of any size");
        return PKV_OK;
    }
    if (typed_info(PKV_OP_STATES_MERGE, "states_merge", "any number of states of this dtype", &idx,
                   out))
        return PKV_OK;
    return PKV_E_LIMIT;
}
