/* Tables of text: aligned for a terminal, or Markdown. */
#ifndef PKV_TEXT_TABLE_H
#define PKV_TEXT_TABLE_H

#include "bench_base.h"

#include <stdio.h>

#define TEXT_TABLE_MAX_COLUMNS 14
#define TEXT_TABLE_CELL 96

struct text_table {
    int32_t n_columns, n_rows, cap;
    const char *heads[TEXT_TABLE_MAX_COLUMNS];
    bool left[TEXT_TABLE_MAX_COLUMNS]; /* flush left; numbers are flush right */
    char (*cells)[TEXT_TABLE_CELL];    /* [n_rows][n_columns] */
    bool no_memory;
};

/* Column heads separated by '|'; a head that begins with '<' is flush left. `heads` must outlive
 * the table, `storage` holds the split copy. */
void text_table_init(struct text_table *t, const char *heads, char *storage, size_t size);
void text_table_free(struct text_table *t);
/* Begin an empty row; then set its cells. */
void text_table_row(struct text_table *t);
void text_table_set(struct text_table *t, int32_t column, const char *fmt, ...) BENCH_PRINTF(3, 4);
void text_table_print(const struct text_table *t, bool markdown, FILE *out);

/* Nanoseconds in a unit that suits: "12.3 ns", "4.56 us", "7.89 ms". */
void text_ns(double ns, char *text, size_t size);

#endif
