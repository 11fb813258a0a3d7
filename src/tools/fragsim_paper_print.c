/* The outputs of the command paper: table, JSON, CSV. */
#include "fragsim_csv.h"
#include "fragsim_fields.h"
#include "fragsim_json_parts.h"
#include "fragsim_paper.h"

#include <string.h>

#define TEXT_BYTES 48

/* Preemptions are counted, everything else is measured. */
static int decimals(const paper_cell *c)
{
    return c->what == PAPER_PREEMPTIONS ? 0 : 2;
}

static void paper_text(const paper_cell *c, char *out)
{
    if (c->paper_low < 0) snprintf(out, TEXT_BYTES, "-");
    else if (c->paper_low == c->paper_high)
        snprintf(out, TEXT_BYTES, "%s%g", c->approximate ? "~" : "", c->paper_low);
    else
        snprintf(out, TEXT_BYTES, "%s%g-%g", c->approximate ? "~" : "", c->paper_low,
                 c->paper_high);
}

static void form_text(const paper_cell *c, const paper_outcome *o, char *out)
{
    static const char *const marks[] = { "", "", "<=", "~" };
    if (c->form == PAPER_NO_FORM) snprintf(out, TEXT_BYTES, "-");
    else snprintf(out, TEXT_BYTES, "%s%.*f", marks[c->form], decimals(c), o->form);
}

static void accepted_text(const paper_cell *c, const paper_outcome *o, char *out)
{
    if (!o->gated) snprintf(out, TEXT_BYTES, "-");
    else if (c->gate == PAPER_FALLING) snprintf(out, TEXT_BYTES, "< %.*f", decimals(c), o->high);
    else if (o->low == o->high) snprintf(out, TEXT_BYTES, "%.*f", decimals(c), o->low);
    else snprintf(out, TEXT_BYTES, "%.*f .. %.*f", decimals(c), o->low, decimals(c), o->high);
}

/* ---------------------------------------------------------------- table */

static void print_cell(FILE *out, const paper_cell *c, const paper_outcome *o)
{
    char paper[TEXT_BYTES], form[TEXT_BYTES], accepted[TEXT_BYTES];
    paper_text(c, paper);
    form_text(c, o, form);
    accepted_text(c, o, accepted);
    fprintf(out, "  %-29s %9s %7.*f %8s  %14s  %s\n", c->name, paper, decimals(c), o->ours, form,
            accepted,
            !o->gated   ? "-"
            : o->passed ? "pass"
                        : "FAIL");
}

static void print_context(FILE *out, const paper_report *rep)
{
    static const paper_what shown[] = { PAPER_TOKEN, PAPER_RESERVATION, PAPER_INTERNAL,
                                        PAPER_EXTERNAL, PAPER_BATCH };
    fprintf(out, "\nOther allocators on the ShareGPT-like sample, for comparison\n");
    fprintf(out, "  %-29s %9s %8s %8s %9s %8s\n", "", "token", "reserv.", "internal", "external",
            "batch");
    for (int run = 0; run < rep->n_runs; run++) {
        if (!fragsim_paper_runs[run].context) continue;
        fprintf(out, "  %-29s", rep->jobs[run].name);
        for (size_t k = 0; k < sizeof(shown) / sizeof(shown[0]); k++) {
            double sum = 0;
            for (int s = 0; s < PAPER_SEEDS; s++)
                sum += fragsim_paper_value(shown[k], &rep->jobs[s * rep->n_runs + run], NULL);
            fprintf(out, " %*.2f", k == 0 || k == 3 ? 9 : 8, sum / PAPER_SEEDS);
        }
        fputc('\n', out);
    }
    fputs("\nThe paper also reports, at equal latency on ShareGPT, 1.7 to 2.7 times the\n"
          "request rate of Orca (Oracle), 2.7 to 8 times that of Orca (Max), and up to 22\n"
          "times that of FasterTransformer, which static-batch stands for. These are rates,\n"
          "not memory, and are not judged here.\n",
          out);
}

void fragsim_paper_print(FILE *out, const paper_report *rep)
{
    fprintf(out,
            "Figures of the PagedAttention paper (SOSP'23), OPT-13B on 40 GB: 15728 slots, at\n"
            "most 2048 tokens per request. Ours: mean of the seeds %llu to %llu.\n"
            "ShareGPT-like: %lld requests, 8 per second; Alpaca-like: %lld, 30 per second.\n"
            "form: from the lengths alone, without simulation (<= a bound, ~ an estimate);\n"
            "paper: ~ read off a figure.\n",
            (unsigned long long)rep->first_seed,
            (unsigned long long)(rep->first_seed + PAPER_SEEDS - 1),
            (long long)fragsim_paper_sources[PAPER_SHAREGPT].n,
            (long long)fragsim_paper_sources[PAPER_ALPACA].n);
    const char *group = "";
    for (int k = 0; k < rep->n_cells; k++) {
        const paper_cell *c = &fragsim_paper_cells[k];
        if (strcmp(group, c->group) != 0) {
            fprintf(out, "\n%s\n", c->group);
            if (k == 0)
                fprintf(out, "  %-29s %9s %7s %8s  %14s\n", "", "paper", "ours", "form",
                        "accepted");
        }
        group = c->group;
        print_cell(out, c, &rep->outcomes[k]);
    }
    print_context(out, rep);
    fprintf(out, "\n%d of %d cells that are judged pass.\n", rep->n_gated - rep->n_failed,
            rep->n_gated);
}

/* ---------------------------------------------------------------- JSON */

static const char *form_name(paper_form form)
{
    static const char *const names[] = { NULL, "form", "bound", "estimate" };
    return names[form];
}

static json_t *cell_json(const paper_report *rep, const paper_cell *c, const paper_outcome *o)
{
    json_t *cell = json_object(), *seeds = json_array();
    const bool published = c->paper_low >= 0, has_form = c->form != PAPER_NO_FORM;
    const bool lower = o->gated && c->gate != PAPER_FALLING;
    fragsim_json_put(cell, "group", json_string(c->group));
    fragsim_json_put(cell, "cell", json_string(c->name));
    fragsim_json_put(cell, "policy", json_string(rep->jobs[c->run].name));
    fragsim_json_put(cell, "unit", json_string(fragsim_paper_unit(c->what)));
    fragsim_json_put(cell, "paper_low", fragsim_json_real(published, c->paper_low));
    fragsim_json_put(cell, "paper_high", fragsim_json_real(published, c->paper_high));
    fragsim_json_put(cell, "paper_approximate", json_boolean(c->approximate));
    fragsim_json_put(cell, "ours", json_real(o->ours));
    for (int s = 0; s < PAPER_SEEDS; s++) json_array_append_new(seeds, json_real(o->seeds[s]));
    fragsim_json_put(cell, "of_seeds", seeds);
    fragsim_json_put(cell, "form_kind", fragsim_json_string(form_name(c->form)));
    fragsim_json_put(cell, "form", fragsim_json_real(has_form, o->form));
    fragsim_json_put(cell, "form_within", fragsim_json_real(c->form_points > 0, c->form_points));
    fragsim_json_put(cell, "accept_low", fragsim_json_real(lower, o->low));
    fragsim_json_put(cell, "accept_high", fragsim_json_real(o->gated, o->high));
    fragsim_json_put(cell, "gated", json_boolean(o->gated));
    fragsim_json_put(cell, "passed", o->gated ? json_boolean(o->passed) : json_null());
    return cell;
}

static json_t *runs_json(const paper_report *rep)
{
    json_t *runs = json_array();
    for (int k = 0; k < PAPER_SEEDS * rep->n_runs; k++) {
        const paper_run *run = &fragsim_paper_runs[k % rep->n_runs];
        json_t *o = fragsim_json_policy(&rep->jobs[k]);
        fragsim_json_put(o, "seed", json_integer((int64_t)rep->first_seed + k / rep->n_runs));
        fragsim_json_put(o, "lengths", json_string(fragsim_paper_sources[run->sample].lengths));
        fragsim_json_put(o, "config", fragsim_json_config(&rep->jobs[k]));
        json_array_append_new(runs, o);
    }
    return runs;
}

char *fragsim_paper_json(const paper_report *rep)
{
    json_t *o = fragsim_json_head("pkv-fragsim/paper", rep->opts), *cells = json_array();
    fragsim_json_put(o, "first_seed", json_integer((int64_t)rep->first_seed));
    fragsim_json_put(o, "seeds", json_integer(PAPER_SEEDS));
    fragsim_json_put(o, "gated", json_integer(rep->n_gated));
    fragsim_json_put(o, "failed", json_integer(rep->n_failed));
    fragsim_json_put(o, "passed", json_boolean(rep->n_failed == 0));
    for (int k = 0; k < rep->n_cells; k++)
        json_array_append_new(cells, cell_json(rep, &fragsim_paper_cells[k], &rep->outcomes[k]));
    fragsim_json_put(o, "cells", cells);
    fragsim_json_put(o, "runs", runs_json(rep));
    return fragsim_json_text(o);
}

/* ---------------------------------------------------------------- CSV */

/* Names have commas and are quoted; none has quotes. Empty: not published, or not judged. */
static void write_csv(FILE *out, const void *what)
{
    const paper_report *rep = what;
    fputs("group,cell,policy,unit,paper_low,paper_high,paper_approximate,ours,form_kind,form,"
          "accept_low,accept_high,gated,passed\n",
          out);
    for (int k = 0; k < rep->n_cells; k++) {
        const paper_cell *c = &fragsim_paper_cells[k];
        const paper_outcome *o = &rep->outcomes[k];
        const int digits = FRAGSIM_DIGITS;
        fprintf(out, "\"%s\",\"%s\",\"%s\",%s,", c->group, c->name, rep->jobs[c->run].name,
                fragsim_paper_unit(c->what));
        if (c->paper_low >= 0) fprintf(out, "%g,%g", c->paper_low, c->paper_high);
        else fputs(",", out);
        fprintf(out, ",%s,%.*g,", c->approximate ? "true" : "false", digits, o->ours);
        if (c->form != PAPER_NO_FORM) fprintf(out, "%s,%.*g,", form_name(c->form), digits, o->form);
        else fputs(",,", out);
        if (o->gated && c->gate != PAPER_FALLING) fprintf(out, "%.*g", digits, o->low);
        fputc(',', out);
        if (o->gated) fprintf(out, "%.*g", digits, o->high);
        fprintf(out, ",%s,%s\n", o->gated ? "true" : "false",
                !o->gated   ? ""
                : o->passed ? "true"
                            : "false");
    }
}

char *fragsim_paper_csv(const paper_report *rep)
{
    return fragsim_text_of(write_csv, rep);
}
