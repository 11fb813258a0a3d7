/* Reads /proc/cpuinfo, /proc/meminfo and /sys. */
#include "machine_info.h"

#include <ctype.h>
#include <dirent.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

#define UNKNOWN_LLC ((int64_t)32 << 20)

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

int64_t machine_parse_size(const char *text)
{
    char *end;
    const long long n = strtoll(text, &end, 10);
    if (end == text || n < 0 || n > (1ll << 40)) return 0;
    if (*end == 'K') return n << 10;
    if (*end == 'M') return n << 20;
    if (*end == 'G' && n < (1 << 20)) return n << 30;
    return *end == '\0' ? n : 0;
}

int32_t machine_count_cpus(const char *list)
{
    int32_t n = 0;
    const char *at = list;
    while (isdigit((unsigned char)*at)) {
        char *end;
        const long first = strtol(at, &end, 10);
        long last = first;
        if (*end == '-') last = strtol(end + 1, &end, 10);
        if (last < first || last > 1 << 20) return -1;
        n += (int32_t)(last - first + 1);
        if (*end != ',') return *end == '\0' ? n : -1;
        at = end + 1;
    }
    return -1;
}

/* The value behind "key   : value" of the first line of a file that begins with `key`. */
static bool find_value(const char *path, const char *key, char *value, size_t size)
{
    char line[8192]; /* the flags of a recent CPU are longer than 2,000 characters */
    FILE *f = fopen(path, "r");
    bool found = false;
    value[0] = '\0';
    if (!f) return false;
    while (!found && fgets(line, sizeof(line), f)) {
        const char *colon = strchr(line, ':');
        if (strncmp(line, key, strlen(key)) != 0 || !colon) continue;
        colon++;
        colon += strspn(colon, " \t");
        snprintf(value, size, "%.*s", (int)strcspn(colon, "\n"), colon);
        found = true;
    }
    fclose(f);
    return found;
}

static int64_t meminfo_bytes(const char *key)
{
    char value[64];
    return find_value("/proc/meminfo", key, value, sizeof(value)) ? atoll(value) << 10 : 0;
}

/* One index directory of one CPU: remember the cache unless another CPU already named it. */
static void add_cache(struct machine_info *info, int cpu, int index, char seen[][128],
                      int32_t *n_seen, int32_t max_seen)
{
    char path[128], level[16], type[16], size[32], shared[96], key[128];
    const char *fields[] = { "level", "type", "size", "shared_cpu_list" };
    char *values[] = { level, type, size, shared };
    const size_t sizes[] = { sizeof(level), sizeof(type), sizeof(size), sizeof(shared) };
    for (int i = 0; i < BENCH_LEN(fields); i++) {
        snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%d/cache/index%d/%s", cpu, index,
                 fields[i]);
        if (!read_line(path, values[i], sizes[i])) return;
    }
    if (strcmp(type, "Instruction") == 0) return;
    snprintf(key, sizeof(key), "%s/%s/%s", level, type, shared);
    for (int32_t i = 0; i < *n_seen; i++)
        if (strcmp(seen[i], key) == 0) return;
    if (*n_seen < max_seen) memcpy(seen[(*n_seen)++], key, sizeof(key));
    for (int32_t i = 0; i < info->n_caches; i++)
        if (info->caches[i].level == atoi(level)) {
            info->caches[i].n++;
            return;
        }
    if (info->n_caches == MACHINE_MAX_CACHES) return;
    struct machine_cache *c = &info->caches[info->n_caches++];
    c->level = atoi(level);
    snprintf(c->type, sizeof(c->type), "%s", type);
    c->bytes = machine_parse_size(size);
    c->n = 1;
}

static void read_caches(struct machine_info *info)
{
    enum { MAX_SEEN = 1024 };
    char(*seen)[128] = calloc(MAX_SEEN, sizeof(*seen));
    int32_t n_seen = 0, top = 0;
    cpu_set_t mask;
    info->llc_bytes = UNKNOWN_LLC;
    if (!seen || sched_getaffinity(0, sizeof(mask), &mask) != 0) {
        free(seen);
        return;
    }
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
        for (int index = 0; CPU_ISSET(cpu, &mask) && index < MACHINE_MAX_CACHES; index++)
            add_cache(info, cpu, index, seen, &n_seen, MAX_SEEN);
    free(seen);
    for (int32_t i = 0; i < info->n_caches; i++) {
        const struct machine_cache *c = &info->caches[i];
        if (c->level <= top || c->bytes == 0) continue;
        top = c->level;
        info->llc_bytes = c->bytes * c->n;
    }
}

int32_t machine_cpus(void)
{
    cpu_set_t mask;
    return sched_getaffinity(0, sizeof(mask), &mask) == 0 ? CPU_COUNT(&mask) : -1;
}

static void read_cpu(struct machine_info *info)
{
    char text[128];
    info->cores = machine_cpus();
    find_value("/proc/cpuinfo", "model name", info->cpu, sizeof(info->cpu));
    info->smt =
        read_line("/sys/devices/system/cpu/smt/active", text, sizeof(text)) ? atoi(text) : -1;
    read_line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", info->governor,
              sizeof(info->governor));
    if (read_line("/sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq", text, sizeof(text)))
        info->freq_khz = atoll(text);
    else if (find_value("/proc/cpuinfo", "cpu MHz", text, sizeof(text)))
        info->freq_khz = (int64_t)(atof(text) * 1000);
    char flags[8192];
    find_value("/proc/cpuinfo", "flags", flags, sizeof(flags));
    if (!strstr(flags, " hypervisor")) return;
    read_line("/sys/class/dmi/id/sys_vendor", text, sizeof(text));
    snprintf(info->hypervisor, sizeof(info->hypervisor), text[0] ? "yes (%.20s)" : "yes", text);
}

static int32_t count_sockets(void)
{
    int32_t top = -1;
    for (int cpu = 0; cpu < 4096; cpu++) {
        char path[128], text[32];
        snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%d/topology/physical_package_id",
                 cpu);
        if (!read_line(path, text, sizeof(text))) break;
        if (atoi(text) > top) top = atoi(text);
    }
    return top < 0 ? -1 : top + 1;
}

static void read_timer(struct machine_info *info)
{
    enum { READS = 2000 };
    const struct bench_clock clock = bench_clock_raw();
    const uint64_t start = clock.now_ns(clock.ctx);
    uint64_t last = start, step = UINT64_MAX;
    for (int i = 0; i < READS; i++) {
        const uint64_t t = clock.now_ns(clock.ctx);
        if (t > last && t - last < step) step = t - last;
        last = t;
    }
    info->timer_cost_ns = (double)(last - start) / READS;
    info->timer_step_ns = step == UINT64_MAX ? 0 : (double)step;
}

void machine_read(struct machine_info *info)
{
    struct utsname un;
    char text[128];
    memset(info, 0, sizeof(*info));
    read_cpu(info);
    read_caches(info);
    info->sockets = count_sockets();
    info->numa_nodes = read_line("/sys/devices/system/node/online", text, sizeof(text))
                           ? machine_count_cpus(text)
                           : -1;
    info->ram_bytes = meminfo_bytes("MemTotal");
    info->available_bytes = meminfo_bytes("MemAvailable");
    if (read_line("/sys/kernel/mm/transparent_hugepage/enabled", text, sizeof(text))) {
        const char *open = strchr(text, '[');
        if (open)
            snprintf(info->huge_pages, sizeof(info->huge_pages), "%.*s",
                     (int)strcspn(open + 1, "]"), open + 1);
    }
    if (uname(&un) == 0)
        snprintf(info->kernel, sizeof(info->kernel), "%.24s %.64s", un.sysname, un.release);
    info->isa = pkv_isa_detect();
    read_timer(info);
}
