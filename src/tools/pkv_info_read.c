/* pkv-info machine: asks /proc, /sys and the library. */
#include "pkv_info_machine.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

#include "pagedkv/store.h"

static bool read_line(const char *path, char *text, size_t size)
{
    FILE *f = fopen(path, "r");
    text[0] = '\0';
    if (!f) return false;
    const bool ok = fgets(text, (int)size, f) != NULL;
    fclose(f);
    text[strcspn(text, "\n")] = '\0';
    return ok;
}

/* What stands behind the colon of the first line that begins with `key`. */
static bool find_value(const char *path, const char *key, char *value, size_t size)
{
    char line[8192]; /* the flags of a recent CPU are longer than 2,000 characters */
    bool found = false;
    FILE *f = fopen(path, "r");
    value[0] = '\0';
    while (f && !found && fgets(line, sizeof(line), f)) {
        const char *colon = strchr(line, ':');
        if (!colon || strncmp(line, key, strlen(key)) != 0) continue;
        colon += 1 + strspn(colon + 1, " \t");
        snprintf(value, size, "%.*s", (int)strcspn(colon, "\n"), colon);
        found = true;
    }
    if (f) fclose(f);
    return found;
}

static int64_t memory_bytes(const char *key)
{
    char value[64];
    return find_value("/proc/meminfo", key, value, sizeof(value)) ? atoll(value) << 10 : 0;
}

static int64_t size_of_text(const char *text)
{
    char *end;
    const long long n = strtoll(text, &end, 10);
    if (end == text || n < 0 || n > 1ll << 40) return 0;
    return *end == 'K' ? n << 10 : *end == 'M' ? n << 20 : n;
}

/* The caches of one CPU, in the order of the system. */
static void read_caches(int cpu, struct info_machine *m)
{
    for (int i = 0; m->n_caches < INFO_MAX_CACHES; i++) {
        struct info_cache *c = &m->caches[m->n_caches];
        char path[128], text[32];
        const char *const folder = "/sys/devices/system/cpu/cpu%d/cache/index%d/%s";
        snprintf(path, sizeof(path), folder, cpu, i, "level");
        if (!read_line(path, text, sizeof(text))) return;
        c->level = atoi(text);
        snprintf(path, sizeof(path), folder, cpu, i, "type");
        if (!read_line(path, c->type, sizeof(c->type))) return;
        snprintf(path, sizeof(path), folder, cpu, i, "size");
        if (!read_line(path, text, sizeof(text))) return;
        c->bytes = size_of_text(text);
        m->n_caches++;
    }
}

static void read_system(struct info_machine *m)
{
    struct utsname un;
    char text[128];
    cpu_set_t mask;
    find_value("/proc/cpuinfo", "model name", m->cpu, sizeof(m->cpu));
    if (uname(&un) == 0) {
        snprintf(m->architecture, sizeof(m->architecture), "%.31s", un.machine);
        snprintf(m->os, sizeof(m->os), "%.24s %.64s", un.sysname, un.release);
    }
    if (sched_getaffinity(0, sizeof(mask), &mask) == 0) {
        m->n_cpus = CPU_COUNT(&mask);
        int first = 0;
        while (first < CPU_SETSIZE && !CPU_ISSET(first, &mask)) first++;
        read_caches(first, m);
    }
    m->ram_bytes = memory_bytes("MemTotal");
    m->ram_free_bytes = memory_bytes("MemAvailable");
    if (!read_line("/sys/kernel/mm/transparent_hugepage/enabled", text, sizeof(text))) return;
    const char *open = strchr(text, '['); /* always [madvise] never */
    if (open)
        snprintf(m->huge_pages, sizeof(m->huge_pages), "%.*s", (int)strcspn(open + 1, "]"),
                 open + 1);
}

static void read_levels(struct info_machine *m)
{
    static const pkv_isa levels[] = { PKV_ISA_SCALAR,     PKV_ISA_AVX2, PKV_ISA_AVX512,
                                      PKV_ISA_AVX512BF16, PKV_ISA_AMX,  PKV_ISA_NEON };
    for (size_t i = 0; i < sizeof(levels) / sizeof(levels[0]); i++) {
        struct info_level *l = &m->levels[m->n_levels++];
        l->isa = levels[i];
        l->reason = "?";
        l->present = pkv_isa_check(levels[i], &l->reason) == PKV_OK;
    }
    m->best = pkv_isa_detect();
}

static int32_t read_kernels(const pkv_backend *backend, pkv_kernel_desc *list)
{
    int32_t n = 0;
    for (; n < INFO_MAX_KERNELS; n++) {
        list[n].struct_size = sizeof(list[n]);
        if (pkv_kernel_info(backend, n, &list[n]) != PKV_OK) break;
    }
    return n;
}

/* Does the OS take the advice that a store gives? */
static void ask_store(struct info_machine *m)
{
    pkv_store_config cfg = PKV_STORE_CONFIG_INIT;
    pkv_store_info_t info = PKV_STORE_INFO_INIT;
    pkv_store *store = NULL;
    cfg.shape = (pkv_kv_shape){ 1, 1, 64, 16, PKV_F16 };
    cfg.n_blocks = 2;
    if (pkv_store_create(&cfg, &store) != PKV_OK) return;
    m->huge_pages_advised = pkv_store_info(store, &info) == PKV_OK && info.huge_pages;
    pkv_store_destroy(store);
}

static void keep_reason(void *ctx, pkv_log_level level, const char *text)
{
    char *reason = ctx;
    if (level == PKV_LOG_ERROR) snprintf(reason, 160, "%s", text);
}

/* The current device; asking for it loads its driver. */
static void read_cuda(struct info_machine *m)
{
    pkv_cuda_config cfg = PKV_CUDA_CONFIG_INIT;
    pkv_backend *backend = NULL;
    char reason[160] = "";
    cfg.log = (pkv_logger){ keep_reason, reason };
    const pkv_status status = pkv_backend_create_cuda(&cfg, &backend);
    const char *colon = strstr(reason, ": "); /* who says it, which is known here */
    if (status == PKV_OK) {
        snprintf(m->cuda, sizeof(m->cuda), "present");
        m->n_cuda_kernels = read_kernels(backend, m->cuda_kernels);
        pkv_backend_destroy(backend);
    } else snprintf(m->cuda, sizeof(m->cuda), "%s", colon ? colon + 2 : pkv_status_name(status));
}

bool info_machine_read(pkv_isa ceiling, const char *asked_by, struct info_machine *out)
{
    pkv_cpu_config cfg = PKV_CPU_CONFIG_INIT;
    pkv_backend *backend = NULL;
    char reason[160] = "";
    const char *why = "";
    read_system(out);
    read_levels(out);
    ask_store(out);
    read_cuda(out);
    out->asked = ceiling;
    out->used = ceiling == PKV_ISA_BEST ? out->best : ceiling;
    cfg.max_isa = ceiling;
    cfg.log = (pkv_logger){ keep_reason, reason };
    const pkv_status status = pkv_backend_create_cpu(&cfg, &backend);
    if (status != PKV_OK) {
        (void)pkv_isa_check(ceiling, &why);
        if (asked_by && status == PKV_E_UNSUPPORTED)
            info_complain("%s asks for %s, which cannot be used here: %s; the highest level is %s",
                          asked_by, pkv_isa_name(ceiling), why, pkv_isa_name(out->best));
        else info_complain("no backend: %s (%s)", reason, pkv_status_name(status));
        return false;
    }
    out->n_kernels = read_kernels(backend, out->kernels);
    pkv_backend_destroy(backend);
    return true;
}
