/* pkv-info machine: text and JSON. */
#include "pkv_info_machine.h"

#include <string.h>

const char *info_amx_permission(const struct info_machine *m)
{
    for (int32_t i = 0; i < m->n_levels; i++) {
        const struct info_level *l = &m->levels[i];
        if (l->isa != PKV_ISA_AMX) continue;
        if (l->present) return "granted";
        return strcmp(l->reason, "permission refused") == 0 ? "refused" : "not asked for";
    }
    return "not asked for";
}

const char *info_op_name(pkv_op op)
{
    switch (op) {
    case PKV_OP_ATTENTION:
        return "attention";
    case PKV_OP_KV_WRITE:
        return "kv_write";
    case PKV_OP_BLOCKS_COPY:
        return "blocks_copy";
    case PKV_OP_STATES_MERGE:
        return "states_merge";
    case PKV_OP_ATTENTION_MLA:
        return "attention_mla";
    case PKV_OP_KV_GATHER:
        return "kv_gather";
    }
    return "?";
}

/* Two operations have one function for all types. */
static const char *dtype_of(const pkv_kernel_desc *k)
{
    const bool any = k->op == PKV_OP_BLOCKS_COPY || k->op == PKV_OP_ATTENTION_MLA;
    return any ? "any" : pkv_dtype_name(k->dtype);
}

/* ---------------------------------------------------------------- text */

static void print_system(const struct info_machine *m, FILE *out)
{
    fprintf(out, "cpu         %s, %s, %d CPUs usable\n", m->cpu[0] ? m->cpu : "unknown",
            m->architecture, m->n_cpus);
    fputs("caches      ", out);
    for (int32_t i = 0; i < m->n_caches; i++)
        fprintf(out, "%sL%d %s %lld KiB", i ? ", " : "", m->caches[i].level, m->caches[i].type,
                (long long)(m->caches[i].bytes >> 10));
    fprintf(out, "%s\n", m->n_caches ? "" : "unknown");
    fprintf(out, "memory      %.1f GiB, %.1f GiB available\n", (double)m->ram_bytes / 0x1p30,
            (double)m->ram_free_bytes / 0x1p30);
    fprintf(out, "huge pages  transparent: %s; a store's advice is %s\n",
            m->huge_pages[0] ? m->huge_pages : "unknown",
            m->huge_pages_advised ? "taken" : "refused");
    fprintf(out, "system      %s\n", m->os);
    fprintf(out,
            "threads     1 unless pkv_cpu_config.n_threads says more; here up to %d are of use\n",
            m->n_cpus);
    fprintf(out, "AMX         permission %s\n", info_amx_permission(m));
    fprintf(out, "CUDA        %s\n", m->cuda);
}

static void print_levels(const struct info_machine *m, FILE *out)
{
    fputs("\nlevel       here  reason\n", out);
    for (int32_t i = 0; i < m->n_levels; i++) {
        const struct info_level *l = &m->levels[i];
        fprintf(out, "%-10s  %-4s  %s%s\n", pkv_isa_name(l->isa), l->present ? "yes" : "no",
                l->reason, l->isa == m->used ? "  <- used" : "");
    }
}

static void print_kernels(const struct info_machine *m, FILE *out)
{
    int width = 0;
    for (int32_t i = 0; i < m->n_kernels; i++) {
        const int n = (int)strlen(m->kernels[i].name);
        if (n > width) width = n;
    }
    fprintf(out, "\noperation      dtype  level       %-*s  takes\n", width, "function");
    for (int32_t i = 0; i < m->n_kernels; i++) {
        const pkv_kernel_desc *k = &m->kernels[i];
        fprintf(out, "%-13s  %-5s  %-10s  %-*s  %s\n", info_op_name(k->op), dtype_of(k),
                pkv_isa_name(k->isa), width, k->name, k->covers);
    }
}

static void print_cuda_kernels(const struct info_machine *m, FILE *out)
{
    if (m->n_cuda_kernels == 0) return;
    fputs("\nCUDA kernel                               dtype  registers  shared bytes  per SM  "
          "takes\n",
          out);
    for (int32_t i = 0; i < m->n_cuda_kernels; i++) {
        const pkv_kernel_desc *k = &m->cuda_kernels[i];
        fprintf(out, "%-40s  %-5s  %9d  %12d  %6d  %s\n", k->name, dtype_of(k), k->registers,
                k->shared_bytes, k->blocks_per_sm, k->covers);
    }
}

static void print_libraries(FILE *out)
{
    info_library list[INFO_MAX_LIBRARIES];
    const int n = info_libraries(list);
    fputs("libraries   ", out);
    for (int i = 0; i < n; i++) {
        fprintf(out, "%s%s %s", i ? ", " : "", list[i].name, list[i].version);
        if (list[i].unicode[0]) fprintf(out, " (Unicode %s)", list[i].unicode);
    }
    fputc('\n', out);
}

void info_machine_print(const struct info_machine *m, FILE *out)
{
    fprintf(out, "pagedkv     %s\n", pkv_version());
    print_libraries(out);
    print_system(m, out);
    print_levels(m, out);
    print_kernels(m, out);
    print_cuda_kernels(m, out);
}

/* ---------------------------------------------------------------- JSON */

static json_t *text_or_null(const char *text)
{
    return *text ? json_string(text) : json_null();
}

static json_t *caches_json(const struct info_machine *m)
{
    json_t *list = json_array();
    for (int32_t i = 0; i < m->n_caches; i++)
        json_array_append_new(list, json_pack("{s:i, s:s, s:I}", "level", m->caches[i].level,
                                              "type", m->caches[i].type, "bytes",
                                              (json_int_t)m->caches[i].bytes));
    return list;
}

static json_t *levels_json(const struct info_machine *m)
{
    json_t *list = json_array();
    for (int32_t i = 0; i < m->n_levels; i++)
        json_array_append_new(list, json_pack("{s:s, s:b, s:s}", "name",
                                              pkv_isa_name(m->levels[i].isa), "present",
                                              m->levels[i].present, "reason", m->levels[i].reason));
    return list;
}

static json_t *kernels_json(const struct info_machine *m)
{
    json_t *list = json_array();
    for (int32_t i = 0; i < m->n_kernels; i++) {
        const pkv_kernel_desc *k = &m->kernels[i];
        json_array_append_new(
            list, json_pack("{s:s, s:o, s:s, s:s, s:s}", "operation", info_op_name(k->op), "dtype",
                            json_string(dtype_of(k)), "level", pkv_isa_name(k->isa), "function",
                            k->name, "takes", k->covers));
    }
    return list;
}

static json_t *cuda_json(const struct info_machine *m)
{
    json_t *list = json_array();
    for (int32_t i = 0; i < m->n_cuda_kernels; i++) {
        const pkv_kernel_desc *k = &m->cuda_kernels[i];
        json_array_append_new(
            list, json_pack("{s:s, s:s, s:s, s:s, s:i, s:i, s:i, s:i}", "operation",
                            info_op_name(k->op), "dtype", dtype_of(k), "function", k->name, "takes",
                            k->covers, "min_sm", k->min_sm, "registers", k->registers,
                            "shared_bytes", k->shared_bytes, "blocks_per_sm", k->blocks_per_sm));
    }
    return json_pack("{s:s, s:o}", "backend", m->cuda, "kernels", list);
}

static json_t *libraries_json(void)
{
    json_t *object = json_object();
    info_library list[INFO_MAX_LIBRARIES];
    const int n = info_libraries(list);
    for (int i = 0; i < n; i++)
        json_object_set_new(object, list[i].name,
                            json_pack("{s:s, s:o}", "version", list[i].version, "unicode",
                                      text_or_null(list[i].unicode)));
    return object;
}

json_t *info_machine_json(const struct info_machine *m)
{
    json_t *root = json_object();
    json_object_set_new(root, "version", json_string(pkv_version()));
    json_object_set_new(root, "cpu", text_or_null(m->cpu));
    json_object_set_new(root, "architecture", text_or_null(m->architecture));
    json_object_set_new(root, "system", text_or_null(m->os));
    json_object_set_new(root, "cpus", json_integer(m->n_cpus));
    json_object_set_new(root, "caches", caches_json(m));
    json_object_set_new(root, "ram_bytes", json_integer(m->ram_bytes));
    json_object_set_new(root, "ram_available_bytes", json_integer(m->ram_free_bytes));
    json_object_set_new(root, "huge_pages", text_or_null(m->huge_pages));
    json_object_set_new(root, "huge_pages_advised", json_boolean(m->huge_pages_advised));
    json_object_set_new(root, "amx_permission", json_string(info_amx_permission(m)));
    json_object_set_new(root, "levels", levels_json(m));
    json_object_set_new(root, "best_level", json_string(pkv_isa_name(m->best)));
    json_object_set_new(root, "used_level", json_string(pkv_isa_name(m->used)));
    json_object_set_new(root, "libraries", libraries_json());
    json_object_set_new(root, "kernels", kernels_json(m));
    json_object_set_new(root, "cuda", cuda_json(m));
    return root;
}
