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
    (void)isa;
}

pkv__attn_fn pkv__attn_choose(const struct pkv__cpu_kernels *k, const struct pkv__attn_call *c,
                              int32_t q_len, pkv_isa *isa, bool *decode)
{
    const int place = c->batch->table ? PKV__PAGED : PKV__CONTIGUOUS;
    const pkv_dtype t = c->k->dtype;
    const bool covered =
        k->attn_decode_isa[t] > PKV_ISA_SCALAR && pkv__attn_decode_covers(c, q_len);
    if (isa) *isa = covered ? k->attn_decode_isa[t] : k->attn_rows_isa[t];
    if (decode) *decode = covered;
    return covered ? k->attn_decode[t][place] : k->attn_rows[t][place];
}

const char *pkv__attn_name(pkv_dtype dtype, pkv_isa isa, bool decode)
{
#define NAMES(kind, t)                                                                             \
    {                                                                                              \
        "attention_" kind "_" t "_scalar", "attention_" kind "_" t "_avx2",                        \
            "attention_" kind "_" t "_avx512"                                                      \
    }
    static const char *const names[2][PKV_BF16 + 1][3] = {
        { NAMES("rows", "f32"), NAMES("rows", "f16"), NAMES("rows", "bf16") },
        { NAMES("decode", "f32"), NAMES("decode", "f16"), NAMES("decode", "bf16") },
    };
#undef NAMES
    if ((unsigned)dtype > PKV_BF16 || isa < PKV_ISA_SCALAR || isa > PKV_ISA_AVX512) return NULL;
    return names[decode][dtype][isa - PKV_ISA_SCALAR];
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

/* Entry `idx` of the attention kernels, best first; false past the end, *idx then reduced. */
static bool attention_info(const struct pkv__cpu_kernels *k, int32_t *idx, pkv_kernel_desc *out)
{
    for (int t = PKV_F32; t <= PKV_BF16; t++) {
        const pkv_dtype dtype = (pkv_dtype)t;
        if (k->attn_decode_isa[t] > PKV_ISA_SCALAR && (*idx)-- == 0) {
            describe(out, PKV_OP_ATTENTION, k->attn_decode_isa[t], dtype,
                     pkv__attn_name(dtype, k->attn_decode_isa[t], true),
                     "q_len 1, no q_pos, dims of K and V equal and a multiple of 16; all options");
            return true;
        }
    }
    for (int t = PKV_F32; t <= PKV_BF16; t++) {
        const pkv_dtype dtype = (pkv_dtype)t;
        if ((*idx)-- == 0) {
            describe(out, PKV_OP_ATTENTION, k->attn_rows_isa[t], dtype,
                     pkv__attn_name(dtype, k->attn_rows_isa[t], false), "any shape, any option");
            return true;
        }
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
