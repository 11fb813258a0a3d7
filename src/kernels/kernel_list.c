/* What a backend would run: its table, operation by operation, in words. */
#include "kernels/kernels_internal.h"

#include <stdio.h>

/* Counts down to the entry that is asked for. */
struct listing {
    int32_t left;
    pkv_kernel_desc *out;
};

/* Is it this one? Then its name is filled in, a dtype of -1 leaving that part out. */
static bool entry(struct listing *l, pkv_op op, pkv_isa isa, const char *stem, int dtype,
                  const char *covers)
{
    pkv_kernel_desc *out = l->out;
    if (l->left-- > 0) return false;
    const bool typed = dtype >= 0;
    out->op = op;
    out->isa = isa;
    out->dtype = typed ? (pkv_dtype)dtype : PKV_I8; /* bytes */
    snprintf(out->name, sizeof(out->name), "%s%s%s_%s", stem, typed ? "_" : "",
             typed ? pkv_dtype_name(out->dtype) : "", pkv_isa_name(isa));
    snprintf(out->covers, sizeof(out->covers), "%s", covers);
    return true;
}

static bool list_attention(struct listing *l, const struct pkv__cpu_kernels *k)
{
    const struct pkv__attn_kernel *int8_qk = &k->attn_short_int8_qk;
    for (int t = 0; t < PKV_DTYPE_COUNT; t++)
        if (entry(l, PKV_OP_ATTENTION, k->attn_short[t].isa, "attention_short", t,
                  "one row, or few: q_len * group up to 32; any dims, all options"))
            return true;
    if (int8_qk->fn[PKV__PAGED] &&
        entry(l, PKV_OP_ATTENTION, int8_qk->isa, "attention_short_int8qk", -1,
              "one row, or few, with int8_qk and keys of int8; any dims, all options"))
        return true;
    for (int t = 0; t < PKV_DTYPE_COUNT; t++)
        if (entry(l, PKV_OP_ATTENTION, k->attn_rows[t].isa, "attention_rows", t,
                  "any number of rows, any dims, all options"))
            return true;
    return false;
}

/* The level of rows of this type on their way into a store, or out of it. */
static pkv_isa row_level(const struct pkv__cpu_kernels *k, int dtype)
{
    return dtype > PKV_BF16 ? k->quantize_isa : k->row_isa;
}

static bool list_moves(struct listing *l, const struct pkv__cpu_kernels *k)
{
    for (int t = 0; t < PKV_DTYPE_COUNT; t++)
        if (entry(l, PKV_OP_KV_WRITE, row_level(k, t), "kv_write", t,
                  "rows of f32, f16 or bf16 into this type; norm, rotation"))
            return true;
    return entry(l, PKV_OP_BLOCKS_COPY, k->copy_isa, "blocks_copy", -1,
                 "whole blocks or their first tokens; gather and scatter");
}

static bool list_rest(struct listing *l, const struct pkv__cpu_kernels *k)
{
    for (int t = PKV_F32; t <= PKV_BF16; t++)
        if (entry(l, PKV_OP_STATES_MERGE, k->row_isa, "states_merge", t,
                  "any number of states of this type"))
            return true;
    if (entry(l, PKV_OP_ATTENTION_MLA, k->mla_isa, "attention_mla", -1,
              "latents up to 512 and rope up to 128 elements of any type; all options"))
        return true;
    for (int t = 0; t < PKV_DTYPE_COUNT; t++)
        if (entry(l, PKV_OP_KV_GATHER, row_level(k, t), "kv_gather", t,
                  "rows of this type out to f32, f16 or bf16"))
            return true;
    return false;
}

pkv_status pkv_kernel_info(const pkv_backend *be, int32_t idx, pkv_kernel_desc *out)
{
    if (!be || idx < 0 || !out) return PKV_E_INVALID_ARG;
    if (out->struct_size != sizeof(*out)) return PKV_E_ABI;
    out->min_sm = out->registers = out->shared_bytes = out->blocks_per_sm = 0;
    if (be->device) return be->device->kernel_info(be, idx, out);
    struct listing l = { idx, out };
    const bool found = list_attention(&l, &be->kernels) || list_moves(&l, &be->kernels) ||
                       list_rest(&l, &be->kernels);
    return found ? PKV_OK : PKV_E_LIMIT;
}
