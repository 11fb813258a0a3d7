/* The table and the JSON of the command capacity. */
#include "fragsim_capacity.h"
#include "fragsim_json_parts.h"
#include "fragsim_table.h"

#include <string.h>

#define MIB 1048576.0
#define NAME_COLUMNS 28

static void print_memory(FILE *out, const fragsim_capacity_report *rep)
{
    const pkv_sim_config *c = &rep->opts->sim;
    const fragsim_model *m = &rep->opts->model;
    const fragsim_block_cost *b = &rep->blocks[FRAGSIM_BLOCK_SIZES];
    fprintf(out, "model      %s: %d layers, %d KV heads of %d, %d bits, %d worker%s\n",
            m->name ? m->name : "given", m->layers, m->kv_heads, m->head_dim, m->dtype_bits,
            m->tensor_parallel, m->tensor_parallel == 1 ? "" : "s");
    fprintf(out, "bytes      %lld per token, %d of it in one tensor of a layer and worker\n",
            (long long)c->kv_bytes_per_token, c->tensor_token_bytes);
    fprintf(out, "           %lld per block of %d tokens\n",
            (long long)c->kv_bytes_per_token * b->block_tokens, b->block_tokens);
    const int64_t pool_bytes = c->kv_bytes_per_token * c->pool_tokens;
    fprintf(out, "pool       %d slots = %.2f GiB\n", c->pool_tokens,
            (double)pool_bytes / (1024 * MIB));
    fprintf(out, "           %lld blocks, and %lld slots that no block covers\n",
            (long long)b->usable, (long long)(c->pool_tokens - b->usable * b->block_tokens));
    if (rep->opts->kv_memory_bytes >= 0)
        fprintf(out, "           %lld bytes of --kv-memory are less than a slot\n",
                (long long)(rep->opts->kv_memory_bytes - pool_bytes));
}

static void print_packings(FILE *out, const fragsim_capacity_report *rep)
{
    fprintf(out, "\n%-*s%10s%8s%8s%10s%11s\n", NAME_COLUMNS, "requests at full length", "mean",
            "least", "most", "tokens %", "too long");
    for (int k = 0; k < rep->opts->n_policies; k++) {
        const fragsim_packing *p = &rep->packings[k];
        const bool is_long = strlen(p->name) >= NAME_COLUMNS; /* a line of its own */
        if (is_long) fprintf(out, "%s\n", p->name);
        fprintf(out, "%-*s%10.2f%8lld%8lld%10.1f%11lld%s\n", NAME_COLUMNS, is_long ? "" : p->name,
                p->mean, (long long)p->least, (long long)p->most, 100 * p->used,
                (long long)p->n_too_long, p->n_pools == 0 && p->n_packed > 0 ? " all" : "");
    }
}

static void print_blocks(FILE *out, const fragsim_capacity_report *rep)
{
    const pkv_sim_config *c = &rep->opts->sim;
    fprintf(out, "\n%-9s%9s%9s%12s%12s%12s%15s\n", "block of", "batch", "waste %", "table KiB",
            "padded KiB", "% of KV", "watermark");
    for (int k = 0; k <= FRAGSIM_BLOCK_SIZES; k++) {
        const fragsim_block_cost *b = &rep->blocks[k];
        bool again = false;
        for (int other = 0; k == FRAGSIM_BLOCK_SIZES && other < k; other++)
            again = again || rep->blocks[other].block_tokens == b->block_tokens;
        if (again) continue;
        if (b->usable == 0) fprintf(out, "%-9d no block fits the pool\n", b->block_tokens);
        else
            fprintf(out, "%-9d%9.2f%9.2f%12.1f%12.1f%12.5f%8lld =%5.2f\n", b->block_tokens,
                    b->batch, 100 * b->internal, (double)b->table_bytes / 1024,
                    (double)b->padded_bytes / 1024, 100 * b->table_share,
                    (long long)b->watermark_tokens, b->watermark_batch);
    }
    char text[400];
    snprintf(
        text, sizeof(text),
        "batch and waste: expected under load, from the lengths alone; tables: of the full pool "
        "with rows as long as needed, and of %d rows for %d tokens, 4 bytes an entry; watermark: "
        "slots kept free at %g %%, and the requests that they cost",
        c->max_num_seqs, c->max_model_len, (double)c->watermark_ppm / 1e4);
    tool_put_wrapped(out, text, 0, 0, 80);
}

void fragsim_capacity_print(FILE *out, const fragsim_capacity_report *rep)
{
    const pkv_sim_forms *f = &rep->forms;
    print_memory(out, rep);
    fragsim_print_input(out, rep->input, rep->opts);
    if (f->n > 0) fprintf(out, "           E[out^2]/E[out] %.1f\n", f->output_bias);
    print_packings(out, rep);
    if (f->n == 0) return;
    fragsim_print_forms(out, f, "under load, from the lengths alone", 80);
    print_blocks(out, rep);
}

/* ---------------------------------------------------------------- JSON */

static json_t *memory_json(const fragsim_capacity_report *rep)
{
    const pkv_sim_config *c = &rep->opts->sim;
    json_t *o = json_object();
    fragsim_json_put(o, "model", fragsim_json_model(rep->opts));
    fragsim_json_put(o, "kv_bytes_per_token", json_integer(c->kv_bytes_per_token));
    fragsim_json_put(o, "tensor_token_bytes", json_integer(c->tensor_token_bytes));
    fragsim_json_put(
        o, "kv_memory_bytes",
        fragsim_json_whole(rep->opts->kv_memory_bytes >= 0, rep->opts->kv_memory_bytes));
    fragsim_json_put(o, "kv_tokens", json_integer(c->pool_tokens));
    fragsim_json_put(o, "max_model_len", json_integer(c->max_model_len));
    fragsim_json_put(o, "max_num_seqs", json_integer(c->max_num_seqs));
    fragsim_json_put(o, "watermark", json_real((double)c->watermark_ppm / 1e6));
    fragsim_json_put(o, "block_tokens", json_integer(rep->block_tokens));
    return o;
}

static json_t *packing_json(const fragsim_packing *p)
{
    json_t *o = json_object();
    fragsim_json_put(o, "policy", json_string(p->name));
    fragsim_json_put(o, "mean_requests", json_real(p->mean));
    fragsim_json_put(o, "least", json_integer(p->least));
    fragsim_json_put(o, "most", json_integer(p->most));
    fragsim_json_put(o, "full_pools", json_integer(p->n_pools));
    fragsim_json_put(o, "token", json_real(p->used));
    fragsim_json_put(o, "too_long", json_integer(p->n_too_long));
    return o;
}

static json_t *block_json(const fragsim_block_cost *b, bool any)
{
    json_t *o = json_object();
    const bool fits = b->usable > 0;
    fragsim_json_put(o, "block_tokens", json_integer(b->block_tokens));
    fragsim_json_put(o, "blocks", json_integer(b->usable));
    fragsim_json_put(o, "paged_batch", fragsim_json_real(fits && any, b->batch));
    fragsim_json_put(o, "paged_internal", fragsim_json_real(fits && any, b->internal));
    fragsim_json_put(o, "table_bytes", fragsim_json_whole(fits, b->table_bytes));
    fragsim_json_put(o, "padded_table_bytes", fragsim_json_whole(fits, b->padded_bytes));
    fragsim_json_put(o, "table_share", fragsim_json_real(fits, b->table_share));
    fragsim_json_put(o, "watermark_tokens", fragsim_json_whole(fits, b->watermark_tokens));
    fragsim_json_put(o, "watermark_batch", fragsim_json_real(fits && any, b->watermark_batch));
    return o;
}

char *fragsim_capacity_json(const fragsim_capacity_report *rep, const fragsim_report *notes)
{
    json_t *o = fragsim_json_head("pkv-fragsim/capacity", rep->opts);
    json_t *packings = json_array(), *blocks = json_array();
    const bool any = rep->forms.n > 0;
    fragsim_json_put(o, "memory", memory_json(rep));
    fragsim_json_put(o, "input", fragsim_json_input(rep->opts, rep->input));
    fragsim_json_put(o, "requests", fragsim_json_requests(rep->input));
    fragsim_json_put(o, "closed_forms", fragsim_json_forms(&rep->forms));
    for (int k = 0; k < rep->opts->n_policies; k++)
        fragsim_json_append(packings, packing_json(&rep->packings[k]));
    fragsim_json_put(o, "full_length", packings);
    for (int k = 0; k < FRAGSIM_BLOCK_SIZES; k++)
        fragsim_json_append(blocks, block_json(&rep->blocks[k], any));
    fragsim_json_put(o, "block_sizes", blocks);
    fragsim_json_put(o, "block", block_json(&rep->blocks[FRAGSIM_BLOCK_SIZES], any));
    fragsim_json_put(o, "notes", fragsim_json_notes(notes));
    return fragsim_json_text(o);
}
