/* Which kernel takes a sequence, and what that exercises. */
#include "attn_instance.h"
#include "check_device.h"
#include "coverage.h"

#include <stdio.h>
#include <string.h>

/* The level whose kernels a call at level `isa` must get: its own where it has better ones than the
 * level below. */
static pkv_isa expected(pkv_isa isa, const struct attn_problem *p, bool is_short, bool int8_qk)
{
    if (isa == PKV_ISA_AMX && !is_short && p->kv_dtype == PKV_BF16) return isa;
    if (isa == PKV_ISA_AMX) isa = PKV_ISA_AVX512BF16;
    if (isa != PKV_ISA_AVX512BF16) return isa;
    const bool has_one = (!is_short && p->kv_dtype == PKV_BF16) || int8_qk;
    return has_one ? isa : PKV_ISA_AVX512;
}

/* attention_decode_f16_d64_cuda, attention_prefill_...: kernels for short rows and for long ones.
 */
static bool parse_device(const char *name, const struct attn_problem *p, struct attn_route *r)
{
    const size_t n = strlen(name);
    char type[16];
    *r = (struct attn_route){ PKV_ISA_CUDA, strstr(name, "_decode_") != NULL, false };
    snprintf(type, sizeof(type), "_%s_", pkv_dtype_name(p->kv_dtype));
    return n > 5 && strcmp(name + n - 5, "_cuda") == 0 && strstr(name, type) &&
           (r->is_short || strstr(name, "_prefill_"));
}

static bool parse(const char *name, const struct attn_problem *p, struct attn_route *r)
{
    char want[64];
    if (strstr(name, "_cuda")) return parse_device(name, p, r);
    const char *const isa = strrchr(name, '_');
    if (!isa || pkv_isa_from_name(isa + 1, &r->isa) != PKV_OK) return false;
    r->int8_qk = strncmp(name, "attention_short_int8qk_", 23) == 0;
    r->is_short = strncmp(name, "attention_short_", 16) == 0;
    snprintf(want, sizeof(want), "attention_%s_%s_%s", r->is_short ? "short" : "rows",
             r->int8_qk ? "int8qk" : pkv_dtype_name(p->kv_dtype), isa + 1);
    return strcmp(name, want) == 0;
}

/* Names of the features of a problem that are on. */
static void cover_sequence(const struct attn_instance *inst, int32_t b, const struct attn_route *r)
{
    const struct attn_problem *p = inst->problem;
    const pkv_attn_opts *o = &p->opts;
    const char *const what = p->is_mla     ? "attention mla"
                             : r->int8_qk  ? "attention int8_qk"
                             : r->is_short ? "attention short"
                                           : "attention rows";
    static const char *const scales[] = { "no-scale", "s-tensor", "s-head",
                                          "s-block",  "s-token",  "s-token-head" };
    static const char *const tables[] = { "dense", "csr", "contiguous" };
    const bool window = o->window_left >= 0 || o->window_right >= 0;
    const struct {
        const char *name;
        bool on;
    } features[] = {
        { "all", true },
        { "causal", o->causal != 0 },
        { "not-causal", !o->causal },
        { "window", window },
        { "softcap", o->softcap > 0 },
        { "alibi", o->alibi != NULL },
        { "sink", o->sink != NULL },
        { "mask", p->mask != NULL },
        { "q_pos", p->q_pos != NULL },
        { "detached", p->q_detached },
        { "lse", p->with_lse },
        { "chunks", p->kv_len[b] > 1024 },
        { "dims-differ", p->k_dim != p->v_dim && !p->is_mla },
        { "q-f16", p->q_dtype == PKV_F16 },
        { "q-bf16", p->q_dtype == PKV_BF16 },
        { "mixed", p->n_seqs > 1 },
        { tables[inst->layout.table], true },
        { scales[p->k_scale.per], attn_is_codes(p->kv_dtype) },
        { "zeros", p->k_zero.per != PER_NONE },
    };
    for (size_t i = 0; i < sizeof(features) / sizeof(features[0]); i++)
        if (features[i].on) cover(what, r->isa, p->kv_dtype, features[i].name);
}

static int32_t at_most(int32_t a, int32_t b)
{
    return a < b ? a : b;
}

/* Latent attention has one kernel per level, whatever the dtypes. */
static void mla_route(struct check *c, const struct attn_instance *inst, struct attn_route *r)
{
    static const char *const names[] = { "attention_mla_scalar", "attention_mla_avx2",
                                         "attention_mla_avx512" };
    pkv_kernel_desc d = { .struct_size = sizeof(d) };
    pkv_status status = PKV_OK;
    for (int32_t i = 0; status == PKV_OK; i++) {
        status = pkv_kernel_info(c->be, i, &d);
        if (status == PKV_OK && d.op == PKV_OP_ATTENTION_MLA) break;
    }
    if (status != PKV_OK && check_on_device(c)) check_stop(c, "no kernel of latent attention");
    const pkv_isa want = c->isa > PKV_ISA_AVX512 && c->isa <= PKV_ISA_AMX ? PKV_ISA_AVX512 : c->isa;
    if (status != PKV_OK) {
        cover_wrong(c->isa, "nothing that pkv_kernel_info lists for attention_mla", want);
        d.isa = want;
    }
    *r = (struct attn_route){ d.isa, false, false };
    if (d.isa != want && d.isa <= PKV_ISA_AVX512) cover_wrong(c->isa, names[d.isa - 1], want);
    for (int32_t b = 0; b < inst->problem->n_seqs; b++)
        if (inst->problem->q_len[b] > 0) cover_sequence(inst, b, r);
}

void attn_cover_expect(void)
{
    static const char *const kinds[] = { "attention short", "attention rows", "attention mla" };
    static const char *const features[] = {
        "all",    "causal", "not-causal", "window", "softcap",    "alibi",
        "sink",   "mask",   "q_pos",      "lse",    "detached",   "q-f16",
        "q-bf16", "mixed",  "dense",      "csr",    "contiguous",
    };
    static const char *const scales[] = { "no-scale", "s-tensor", "s-head",
                                          "s-block",  "s-token",  "s-token-head" };
    for (size_t k = 0; k < 3; k++) {
        for (size_t i = 0; i < sizeof(features) / sizeof(features[0]); i++)
            cover_expect(kinds[k], features[i], PKV_F32, PKV_U4);
        for (size_t i = 0; i < 6; i++) cover_expect(kinds[k], scales[i], PKV_E4M3, PKV_U4);
        cover_expect(kinds[k], "zeros", PKV_U4, PKV_U4);
        if (k == 2) continue; /* latent attention walks all keys at once, and has its own dims */
        cover_expect(kinds[k], "chunks", PKV_F32, PKV_U4);
        cover_expect(kinds[k], "dims-differ", PKV_F32, PKV_U4);
    }
}

void attn_cover_device(const struct check *c)
{
    pkv_kernel_desc d = { .struct_size = sizeof(d) };
    cover_absent("attention short", PKV_ISA_CUDA, PKV_BF16, "q-f16");
    cover_absent("attention rows", PKV_ISA_CUDA, PKV_BF16, "q-f16");
    cover_absent("attention mla", PKV_ISA_CUDA, PKV_BF16, "q-f16");
    cover_absent("attention mla", PKV_ISA_CUDA, PKV_U4, "zeros");
    cover_require("attention short", PKV_ISA_CUDA, PKV_F16, PKV_U4);
    cover_require("attention mla", PKV_ISA_CUDA, PKV_F16, PKV_U4);
    for (int32_t i = 0; pkv_kernel_info(c->be, i, &d) == PKV_OK; i++)
        if (strstr(d.name, "attention_prefill_"))
            cover_require("attention rows", PKV_ISA_CUDA, d.dtype, d.dtype);
}

void attn_routes(struct check *c, const struct attn_instance *inst, struct attn_route *routes)
{
    const struct attn_problem *p = inst->problem;
    if (p->is_mla) {
        mla_route(c, inst, &routes[0]);
        for (int32_t b = 1; b < p->n_seqs; b++) routes[b] = routes[0];
        return;
    }
    for (int32_t b = 0; b < p->n_seqs; b++) {
        struct attn_route *r = &routes[b];
        const char *name = pkv_attn_kernel_name(c->be, &inst->q, &inst->k, &inst->v, &inst->batch,
                                                &inst->opts, p->q_len[b]);
        *r = (struct attn_route){ PKV_ISA_SCALAR, true, false };
        if (!name && check_on_device(c)) check_stop(c, c->log[0] ? c->log : "no kernel");
        CHECK(c, name && parse(name, p, r), "sequence %d goes to '%s'", b, name ? name : "nobody");
        const pkv_isa want = expected(c->isa, p, r->is_short, r->int8_qk);
        const int32_t group = p->n_q_heads / p->n_kv_heads;
        /* A device's kernel for short rows takes all where there is no other. */
        const bool is_short = check_on_device(c) ? p->q_len[b] * at_most(group, 16) <= 16
                                                 : p->q_len[b] <= 1 || p->q_len[b] * group <= 32;
        CHECK(c, r->is_short == is_short || (check_on_device(c) && r->is_short),
              "sequence %d of %d rows goes to %s", b, p->q_len[b], name);
        if (name && r->isa != want) cover_wrong(c->isa, name, want);
        if (p->q_len[b] > 0) cover_sequence(inst, b, r);
        c->n_level_units += r->isa == c->isa;
    }
}
