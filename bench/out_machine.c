/* The machine block. */
#include "outputs.h"

#include <string.h>

static void put_caches(const struct machine_info *m, FILE *out)
{
    for (int32_t i = 0; i < m->n_caches; i++)
        fprintf(out, "%sL%d %lld KiB x %d", i ? ", " : "", m->caches[i].level,
                (long long)(m->caches[i].bytes >> 10), m->caches[i].n);
    if (m->n_caches == 0) fputs("unknown", out);
}

void out_machine(const struct machine_info *m, bool markdown, FILE *out)
{
    const char *end = markdown ? "; " : "\n         ";
    fprintf(out, markdown ? "**Machine:** " : "Machine: ");
    fprintf(out, "%s, %d CPUs usable, %d used, level %s%s", m->cpu[0] ? m->cpu : "unknown CPU",
            m->cores, m->threads > 1 ? m->threads : 1, pkv_isa_name(m->isa),
            m->hypervisor[0] ? ", virtual machine" : "");
    if (m->freq_khz) fprintf(out, ", %.2f GHz", (double)m->freq_khz / 1e6);
    if (m->governor[0]) fprintf(out, ", governor %s", m->governor);
    fputs(end, out);
    fputs("caches ", out);
    put_caches(m, out);
    fprintf(out, "; memory %.1f GiB, huge pages %s; %s%s", (double)m->ram_bytes / 0x1p30,
            m->huge_pages[0] ? m->huge_pages : "unknown", m->kernel, end);
    if (m->read_gbs > 0)
        fprintf(out, "measured, threads %d: read %.2f GB/s (%s), copy %.2f GB/s",
                m->threads > 1 ? m->threads : 1, m->read_gbs, m->read_kernel, m->copy_gbs);
    else fputs("bandwidth not measured", out);
    if (m->read_gbs > 0 && m->read_in_cache)
        fprintf(out, ", in cache: a buffer of %lld MiB is below 4 times the last-level cache",
                (long long)(m->read_bytes >> 20));
    fprintf(out, "; clock %.0f ns a reading, step %.0f ns\n", m->timer_cost_ns, m->timer_step_ns);
    if (m->n_curve == 0) return;
    fputs(markdown ? "Read bandwidth by buffer size:" : "         read by buffer size:", out);
    for (int32_t i = 0; i < m->n_curve; i++)
        fprintf(out, "%s %lld MiB %.1f", i ? "," : "", (long long)(m->curve[i].bytes >> 20),
                m->curve[i].read_gbs);
    fputs(" GB/s\n", out);
}
