/* What the files that print tables share. */
#ifndef PKV_OUT_PARTS_H
#define PKV_OUT_PARTS_H

#include "outputs.h"
#include "text_table.h"

struct printer {
    const struct bench_report *report;
    bool markdown;
    FILE *out;
};

void out_title(const struct printer *p, const char *text);
void out_note(const struct printer *p, const char *text);
/* Cells. */
void out_set_ns(struct text_table *t, int32_t column, double ns);
/* "0.812 [0.801, 0.820]" */
void out_set_interval(struct text_table *t, int32_t column, double value, double lo, double hi);
/* All goals of the row, met or missed. */
void out_set_goals(struct text_table *t, int32_t column, const struct bench_row *r);

/* Rows [first, end) of one case of serving. */
void out_serve_tables(const struct printer *p, int32_t first, int32_t end);
/* A note for each paged row whose tokens per second lie below those of the longest regions, by its
 * interval, and for each median delay that is more than 3 % longer. Returns how many. */
int32_t out_serve_losses(const struct printer *p);
/* The first paged row against the longest regions; NULL: none. */
const struct bench_row *out_serve_headline_row(const struct bench_report *report);
void out_serve_headline(const struct printer *p, const struct bench_row *row);

/* Rows [first, end) of one case of attention or moves: a table for each of its families. */
void out_kernel_tables(const struct printer *p, int32_t first, int32_t end);
/* Which goals were met, those of docs/kernels.md as a table, the others where missed. */
void out_goals(const struct printer *p);

#endif
