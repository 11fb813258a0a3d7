/* pkv-info kv-size: the answer as a table or as JSON. */
#include "pkv_info_kv.h"

#include <string.h>

/* ---------------------------------------------------------------- text */

static void print_model(const info_kv *kv)
{
    char large[INFO_TEXT_BYTES];
    const pkv_kv_source *s = &kv->src;
    const pkv_kv_geometry *g = &s->geometry;
    printf("model         ");
    if (kv->path) printf("%s (%s): ", s->architecture[0] ? s->architecture : "?", s->format);
    printf("%d layers", g->n_layers);
    if (s->n_heads > 0) printf(", %d heads", s->n_heads);
    if (g->latent_dim > 0)
        printf(", a latent of %d and %d rotary dimensions", g->latent_dim, g->rope_dim);
    else printf(", %d of K and V, %d dimensions each", g->n_kv_heads, g->head_dim);
    if (g->n_window_layers > 0)
        printf(", %d layers see %s tokens", g->n_window_layers,
               info_count_text(g->window_tokens, large));
    if (s->context > 0) printf(", context %s", info_count_text(s->context, large));
    fputc('\n', stdout);
}

static void print_weights(const info_kv *kv)
{
    char bytes[INFO_TEXT_BYTES], large[INFO_TEXT_BYTES];
    if (!kv->weights_from) {
        printf("weights       unknown, counted as 0: give --weights or --params\n");
        return;
    }
    printf("weights       %s", info_bytes_text((double)kv->budget.weight_bytes, bytes));
    if (kv->src.n_parameters > 0)
        printf(", %s parameters", info_large_text((double)kv->src.n_parameters, large));
    if (kv->as_dtype) printf(" as %s", pkv_dtype_name(kv->weight_dtype));
    else if (kv->src.weight_type[0]) printf(", most of them %s", kv->src.weight_type);
    printf(" (from %s)\n", kv->weights_from);
}

static void print_budget(const info_kv *kv, const info_kv_row *rows)
{
    char a[INFO_TEXT_BYTES], b[INFO_TEXT_BYTES], c[INFO_TEXT_BYTES], d[INFO_TEXT_BYTES],
        e[INFO_TEXT_BYTES];
    const pkv_kv_budget *u = &kv->budget;
    if (kv->has_memory)
        printf("memory        %s - %s weights - %s activations - %s reserve = %s for KV\n",
               info_bytes_text((double)u->memory_bytes, a),
               info_bytes_text((double)u->weight_bytes / u->tp, b),
               info_bytes_text((double)u->activation_bytes, c),
               info_bytes_text((double)u->reserve_bytes, d),
               info_bytes_text((double)rows[0].size.kv_bytes, e));
    if (u->tp > 1) printf("ranks         %d, all figures are of one\n", u->tp);
    printf("sequence      %s tokens when it ends, at most %s; blocks of %d\n",
           info_count_text(u->tokens, a), info_count_text(u->max_tokens, b), u->block_tokens);
    if (kv->bandwidth > 0)
        printf("bandwidth     %sB/s%s\n", info_large_text((double)kv->bandwidth, a),
               kv->src.n_experts > 0 ? "; all experts are counted as read" : "");
}

static void add_cells(const info_kv *kv, const info_kv_row *r, bool first, info_table *t)
{
    char token[INFO_TEXT_BYTES], seq[INFO_TEXT_BYTES], reserved[INFO_TEXT_BYTES],
        paged[INFO_TEXT_BYTES], contiguous[INFO_TEXT_BYTES], tokens[INFO_TEXT_BYTES],
        rate[INFO_TEXT_BYTES];
    char fit[128] = "", times[96] = "";
    const pkv_kv_size *s = &r->size;
    if (kv->has_memory) {
        char ratio[24] = "-";
        if (s->max_seqs_reserved > 0)
            snprintf(ratio, sizeof(ratio), "%.2f",
                     (double)s->max_seqs / (double)s->max_seqs_reserved);
        snprintf(fit, sizeof(fit), "\t%s\t%s\t%s\t%s", info_count_text(s->usable_tokens, tokens),
                 info_count_text(s->max_seqs, paged),
                 info_count_text(s->max_seqs_reserved, contiguous), ratio);
    }
    if (kv->bandwidth > 0) snprintf(times, sizeof(times), "\t%.3g", r->ms_alone);
    if (kv->bandwidth > 0 && kv->has_memory)
        snprintf(times, sizeof(times), "\t%.3g\t%.3g\t%s", r->ms_alone, r->ms_all,
                 info_count_text((int64_t)(r->per_s_all + 0.5), rate));
    info_table_add(t, "%s\t%s\t%s\t%s\t%s%s%s", first ? r->name : "",
                   pkv_dtype_name(r->geometry.dtype), info_bytes_text(s->bytes_per_token, token),
                   info_bytes_text((double)s->seq_bytes, seq),
                   info_bytes_text((double)s->reserved_bytes, reserved), fit, times);
}

static bool print_table(const info_kv *kv, const info_kv_row *rows, int n)
{
    info_table t = { .align = "llrrrrrrrrrr" };
    info_table_add(&t, "\t\tper\ta sequence\t%s%s", kv->has_memory ? "\ttokens\tsequences\t\t" : "",
                   kv->bandwidth == 0 ? ""
                   : kv->has_memory   ? "\tms alone\tms all"
                                      : "\tms alone");
    info_table_add(&t, "heads\ttype\ttoken\tpaged\treserved%s%s",
                   kv->has_memory ? "\tthat fit\tpaged\treserved\tratio" : "",
                   kv->bandwidth == 0 ? ""
                   : kv->has_memory   ? "\t\t\ttokens/s"
                                      : "\t");
    for (int k = 0; k < n; k++)
        add_cells(kv, &rows[k], k == 0 || strcmp(rows[k].name, rows[k - 1].name) != 0, &t);
    fputc('\n', stdout);
    return info_table_print(&t, stdout);
}

int info_kv_print(const info_kv *kv, const info_kv_row *rows, int n)
{
    print_model(kv);
    print_weights(kv);
    print_budget(kv, rows);
    info_print_notes(&kv->log);
    if (!print_table(kv, rows, n)) return INFO_IO;
    printf("\nThe first rows are the model as it is. Reserved: contiguous, max tokens each.\n");
    return info_finish_output();
}

/* ---------------------------------------------------------------- JSON */

static json_t *int_or_null(int64_t n)
{
    return n > 0 ? json_integer(n) : json_null();
}

static json_t *text_or_null(const char *text)
{
    return text && *text ? json_string(text) : json_null();
}

static json_t *model_json(const info_kv *kv)
{
    const pkv_kv_source *s = &kv->src;
    const pkv_kv_geometry *g = &s->geometry;
    return json_pack(
        "{s:o, s:o, s:o, s:o, s:i, s:o, s:i, s:i, s:i, s:i, s:i, s:i, s:o, s:o, s:o}", "path",
        text_or_null(kv->path), "format", text_or_null(s->format), "architecture",
        text_or_null(s->architecture), "license", text_or_null(s->license), "layers", g->n_layers,
        "heads", int_or_null(s->n_heads), "kv_heads", g->n_kv_heads, "head_dim", g->head_dim,
        "latent_dim", g->latent_dim, "rope_dim", g->rope_dim, "window_layers", g->n_window_layers,
        "window_tokens", g->window_tokens, "context", int_or_null(s->context), "experts",
        int_or_null(s->n_experts), "parameters", int_or_null(s->n_parameters));
}

static json_t *budget_json(const info_kv *kv, const info_kv_row *first)
{
    const pkv_kv_budget *b = &kv->budget;
    return json_pack(
        "{s:o, s:I, s:o, s:I, s:I, s:i, s:i, s:i, s:i, s:o, s:o}", "memory_bytes",
        kv->has_memory ? json_integer((json_int_t)b->memory_bytes) : json_null(), "weight_bytes",
        (json_int_t)b->weight_bytes, "weights_from", text_or_null(kv->weights_from),
        "activation_bytes", (json_int_t)b->activation_bytes, "reserve_bytes",
        (json_int_t)b->reserve_bytes, "tp", b->tp, "block_tokens", b->block_tokens, "tokens",
        b->tokens, "max_tokens", b->max_tokens, "bandwidth_bytes_per_s", int_or_null(kv->bandwidth),
        "kv_bytes", kv->has_memory ? json_integer((json_int_t)first->size.kv_bytes) : json_null());
}

static json_t *real_or_null(double v)
{
    return v > 0 ? json_real(v) : json_null();
}

static json_t *row_json(const info_kv *kv, const info_kv_row *r)
{
    const pkv_kv_size *s = &r->size;
    json_t *row = json_pack(
        "{s:s, s:b, s:s, s:i, s:i, s:i, s:i, s:f, s:I, s:I, s:I, s:I, s:o}", "variant", r->name,
        "own", r->own, "kv_dtype", pkv_dtype_name(r->geometry.dtype), "kv_heads",
        r->geometry.n_kv_heads, "head_dim", r->geometry.head_dim, "latent_dim",
        r->geometry.latent_dim, "rope_dim", r->geometry.rope_dim, "bytes_per_token",
        s->bytes_per_token, "block_bytes", (json_int_t)s->block_bytes, "blocks_per_seq",
        (json_int_t)s->blocks_per_seq, "seq_bytes", (json_int_t)s->seq_bytes, "reserved_bytes",
        (json_int_t)s->reserved_bytes, "ms_alone", real_or_null(r->ms_alone));
    if (!row || !kv->has_memory) return row;
    json_object_set_new(row, "blocks", json_integer(s->n_blocks));
    json_object_set_new(row, "usable_tokens", json_integer(s->usable_tokens));
    json_object_set_new(row, "max_seqs", json_integer(s->max_seqs));
    json_object_set_new(row, "max_seqs_reserved", json_integer(s->max_seqs_reserved));
    json_object_set_new(row, "ms_all", real_or_null(r->ms_all));
    json_object_set_new(row, "tokens_per_s_all", real_or_null(r->per_s_all));
    return row;
}

int info_kv_json(const info_kv *kv, const info_kv_row *rows, int n)
{
    json_t *root = json_object(), *list = json_array();
    for (int k = 0; k < n; k++) json_array_append_new(list, row_json(kv, &rows[k]));
    json_object_set_new(root, "model", model_json(kv));
    json_object_set_new(root, "budget", budget_json(kv, &rows[0]));
    json_object_set_new(root, "rows", list);
    json_object_set_new(root, "notes", info_notes_json(&kv->log));
    return info_print_json(root);
}
