/* pkv-info model: text and JSON. */
#include "pkv_info_model.h"

#include <string.h>

static void digest_text(const info_model_facts *m, char out[65])
{
    for (size_t k = 0; k < sizeof(m->digest); k++) snprintf(out + 2 * k, 3, "%02x", m->digest[k]);
}

/* ---------------------------------------------------------------- text */

static void print_ids(const pkv_model_info *i)
{
    printf("ids           ");
    if (i->bos >= 0) printf("bos %d", i->bos);
    else printf("no bos");
    printf(i->n_eos > 0 ? ", eos" : ", no eos");
    for (int32_t k = 0; k < i->n_eos; k++) printf(" %d", i->eos[k]);
    fputc('\n', stdout);
}

static void print_dimensions(const info_model_facts *m)
{
    char vocab[INFO_TEXT_BYTES], context[INFO_TEXT_BYTES];
    const pkv_model_info *i = &m->info;
    const char *kind = i->n_kv_heads == i->n_heads ? "MHA" : i->n_kv_heads == 1 ? "MQA" : "GQA";
    printf("model         %s: %s, architecture %s\n", m->path, i->format, i->architecture);
    printf("dimensions    %d layers, hidden %d, ffn %d, vocabulary %s, context %s\n", i->n_layers,
           i->hidden, i->ffn, info_count_text(i->vocab, vocab),
           info_count_text(i->context, context));
    printf("heads         %d of %d, %d of K and V (%s, %d:1)\n", i->n_heads, i->head_dim,
           i->n_kv_heads, kind, i->n_heads / i->n_kv_heads);
    printf("arithmetic    RMSNorm with epsilon %g, SwiGLU, %s\n", i->norm_eps,
           i->tied_head ? "head tied to the embedding" : "a head of its own");
    printf("positions     RoPE %s, theta %g, factor %g, %d of %d dimensions\n", i->rope,
           i->rope_theta, i->rope_factor, i->rotary_dim, i->head_dim);
    print_ids(i);
}

static void print_sizes(const info_model_facts *m)
{
    char a[INFO_TEXT_BYTES], b[INFO_TEXT_BYTES], digest[65];
    const pkv_model_info *i = &m->info;
    digest_text(m, digest);
    printf("weights       %s parameters kept as %s; a pass over one token reads %s\n",
           info_count_text(i->n_parameters, a), pkv_dtype_name(i->weights_dtype),
           info_bytes_text((double)i->weight_bytes, b));
    printf("memory        %s beside %d tensors of the file\n",
           info_bytes_text((double)i->memory_bytes, a), i->n_tensors);
    printf("digest        %s\n", digest);
    printf("licence       %s\n", m->license[0] ? m->license : "not in the file");
}

static void print_tokenizer(const info_model_facts *m)
{
    const pkv_tokenizer_info *t = &m->tok_info;
    if (!m->tok) {
        printf("tokenizer     none: %s\n", m->tok_missing);
        return;
    }
    printf("tokenizer     %s from %s, %d ids, %d of them added, splitter %s, bos %d%s, eos %d%s\n",
           t->kind, t->source, t->n_ids, t->n_added, t->splitter, t->bos,
           t->adds_bos ? " (put in front)" : "", t->eos, t->adds_eos ? " (put behind)" : "");
}

static void add_part(info_table *t, const info_part *p)
{
    char a[INFO_TEXT_BYTES], b[INFO_TEXT_BYTES], c[INFO_TEXT_BYTES], d[INFO_TEXT_BYTES],
        e[INFO_TEXT_BYTES];
    info_table_add(t, "%s\t%s\t%s\t%s\t%s\t%s", p->name, info_count_text(p->parameters, a),
                   info_bytes_text((double)p->bytes, b),
                   p->flop > 0 ? info_count_text(p->flop, c) : "",
                   p->flop_per_key > 0 ? info_count_text(p->flop_per_key, d) : "",
                   p->kv_bytes > 0 ? info_bytes_text(p->kv_bytes, e) : "");
}

static bool print_parts(const info_model_facts *m)
{
    info_table t = { .align = "lrrrrr" };
    info_table_add(&t, "part\tparameters\tbytes\tFLOP/token\tFLOP/key\tK and V/token (%s)",
                   pkv_dtype_name(m->kv_dtype));
    for (int32_t k = 0; k < info_model_parts(m); k++) {
        const info_part part = info_model_part(m, k);
        add_part(&t, &part);
    }
    const info_part total = info_model_total(m);
    add_part(&t, &total);
    fputc('\n', stdout);
    return info_table_print(&t, stdout);
}

static void dims_text(const pkv_model_tensor *t, char out[96])
{
    int n = 0;
    for (int32_t d = 0; d < t->n_dims; d++)
        n += snprintf(out + n, 96 - (size_t)n, "%s%lld", d ? " x " : "", (long long)t->dims[d]);
}

static bool print_tensors(const info_model_facts *m)
{
    info_table t = { .align = "llrr" };
    pkv_model_tensor tensor = PKV_MODEL_TENSOR_INIT;
    info_table_add(&t, "tensor\ttype\tdimensions\tbytes");
    for (int32_t k = 0; pkv_model_get_tensor(m->model, k, &tensor) == PKV_OK; k++) {
        char dims[96], bytes[INFO_TEXT_BYTES];
        dims_text(&tensor, dims);
        info_table_add(&t, "%.200s\t%s\t%s\t%s", tensor.name, tensor.type, dims,
                       info_bytes_text((double)tensor.bytes, bytes));
    }
    fputc('\n', stdout);
    return info_table_print(&t, stdout);
}

int info_model_print(const info_model_facts *m)
{
    print_dimensions(m);
    print_sizes(m);
    print_tokenizer(m);
    if (m->test_ids > 0)
        printf("self-test     %d of %d ids of golden.json are equal%s\n", m->test_equal,
               m->test_ids, m->test_equal == m->test_ids ? ": ok" : ", then they differ");
    info_print_notes(&m->log);
    if (!print_parts(m)) return INFO_IO;
    if (m->tensors && !print_tensors(m)) return INFO_IO;
    return info_finish_output();
}

/* ---------------------------------------------------------------- JSON */

static json_t *id_or_null(int32_t id)
{
    return id >= 0 ? json_integer(id) : json_null();
}

static json_t *eos_json(const pkv_model_info *i)
{
    json_t *list = json_array();
    for (int32_t k = 0; k < i->n_eos; k++) json_array_append_new(list, json_integer(i->eos[k]));
    return list;
}

static json_t *config_json(const pkv_model_info *i)
{
    return json_pack("{s:s, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:f, s:b, s:s, s:f, s:f, s:i, "
                     "s:o, s:o}",
                     "architecture", i->architecture, "vocab", i->vocab, "hidden", i->hidden,
                     "layers", i->n_layers, "heads", i->n_heads, "kv_heads", i->n_kv_heads,
                     "head_dim", i->head_dim, "ffn", i->ffn, "context", i->context, "norm_eps",
                     i->norm_eps, "tied_head", i->tied_head, "rope", i->rope, "rope_theta",
                     i->rope_theta, "rope_factor", i->rope_factor, "rotary_dim", i->rotary_dim,
                     "bos", id_or_null(i->bos), "eos", eos_json(i));
}

static json_t *part_json(const info_part *p)
{
    return json_pack("{s:s, s:I, s:I, s:I, s:I, s:f}", "part", p->name, "parameters",
                     (json_int_t)p->parameters, "bytes", (json_int_t)p->bytes, "flop_per_token",
                     (json_int_t)p->flop, "flop_per_key", (json_int_t)p->flop_per_key,
                     "kv_bytes_per_token", p->kv_bytes);
}

static json_t *parts_json(const info_model_facts *m)
{
    json_t *list = json_array();
    for (int32_t k = 0; k < info_model_parts(m); k++) {
        const info_part part = info_model_part(m, k);
        json_array_append_new(list, part_json(&part));
    }
    return list;
}

static json_t *tokenizer_json(const info_model_facts *m)
{
    const pkv_tokenizer_info *t = &m->tok_info;
    if (!m->tok) return json_null();
    return json_pack("{s:s, s:s, s:s, s:i, s:i, s:o, s:o, s:o, s:o, s:b, s:b}", "kind", t->kind,
                     "source", t->source, "splitter", t->splitter, "ids", t->n_ids, "added",
                     t->n_added, "bos", id_or_null(t->bos), "eos", id_or_null(t->eos), "unk",
                     id_or_null(t->unk), "pad", id_or_null(t->pad), "adds_bos", t->adds_bos,
                     "adds_eos", t->adds_eos);
}

static json_t *tensors_json(const info_model_facts *m)
{
    json_t *list = json_array();
    pkv_model_tensor t = PKV_MODEL_TENSOR_INIT;
    for (int32_t k = 0; pkv_model_get_tensor(m->model, k, &t) == PKV_OK; k++) {
        json_t *dims = json_array();
        for (int32_t d = 0; d < t.n_dims; d++)
            json_array_append_new(dims, json_integer((json_int_t)t.dims[d]));
        json_t *name = json_string(t.name); /* NULL: not UTF-8 */
        json_array_append_new(list, json_pack("{s:o, s:s, s:o, s:I}", "name",
                                              name ? name : json_null(), "type", t.type, "dims",
                                              dims, "bytes", (json_int_t)t.bytes));
    }
    return list;
}

int info_model_json(const info_model_facts *m)
{
    const pkv_model_info *i = &m->info;
    const info_part total = info_model_total(m);
    char digest[65];
    json_t *root = json_object();
    digest_text(m, digest);
    json_object_set_new(root, "path", json_string(m->path));
    json_object_set_new(root, "format", json_string(i->format));
    json_object_set_new(root, "config", config_json(i));
    json_object_set_new(root, "license", m->license[0] ? json_string(m->license) : json_null());
    json_object_set_new(root, "weights_dtype", json_string(pkv_dtype_name(i->weights_dtype)));
    json_object_set_new(root, "parameters", json_integer((json_int_t)i->n_parameters));
    json_object_set_new(root, "weight_bytes", json_integer((json_int_t)i->weight_bytes));
    json_object_set_new(root, "memory_bytes", json_integer((json_int_t)i->memory_bytes));
    json_object_set_new(root, "digest", json_string(digest));
    json_object_set_new(root, "tokenizer", tokenizer_json(m));
    json_object_set_new(root, "kv_dtype", json_string(pkv_dtype_name(m->kv_dtype)));
    json_object_set_new(root, "parts", parts_json(m));
    json_object_set_new(root, "total", part_json(&total));
    if (m->test_ids > 0)
        json_object_set_new(root, "selftest",
                            json_pack("{s:b, s:i, s:i}", "ok", m->test_equal == m->test_ids, "ids",
                                      m->test_ids, "equal", m->test_equal));
    if (m->tensors) json_object_set_new(root, "tensors", tensors_json(m));
    json_object_set_new(root, "notes", info_notes_json(&m->log));
    return info_print_json(root);
}
