/* Parts of HTML pages. They write to a FILE; whoever opened it sees at fclose whether all went
 * well. Texts from outside are escaped here and nowhere else. */
#ifndef PKV_TOOLS_FRAGSIM_HTML_H
#define PKV_TOOLS_FRAGSIM_HTML_H

#include "fragsim_chart.h"

#include <jansson.h>

/* Everything up to the end of the head line: styles, title, what was run. */
void fragsim_page_begin(FILE *out, const char *title, const char *headline);
/* The script that makes the page handier, and the end. */
void fragsim_page_end(FILE *out);
/* That there are no charts on this page and why; the command that repeats the run. */
void fragsim_page_no_charts(FILE *out);
void fragsim_page_repro(FILE *out, const fragsim_options *opts);
void fragsim_page_section(FILE *out, const char *id, const char *heading);

/* A chart under its heading, with a text (markup, our own) on how to read it below. svg NULL: the
 * figure has no picture. The data follow, then fragsim_figure_end. */
void fragsim_figure_begin(FILE *out, const char *id, const char *heading, const char *svg,
                          const char *how);
void fragsim_figure_end(FILE *out);

/* <table> inside <details> (closed), with its head: the columns' names, NULL at the end. */
void fragsim_data_begin(FILE *out, const char *id, const char *summary, const char *const *columns);
void fragsim_data_end(FILE *out);
/* Cells; the first of a row is text. */
void fragsim_cell_text(FILE *out, const char *text);
void fragsim_cell_number(FILE *out, bool known, const char *format, double value)
    __attribute__((format(printf, 3, 0)));

/* An object of JSON as rows "a.b.c | value". */
void fragsim_json_rows(FILE *out, const char *id, const json_t *object);
/* Objects with the same keys side by side, a column each. */
void fragsim_json_columns(FILE *out, const char *id, const json_t *array, const char *name_key);

/* Two tables of the results: memory, and service. */
void fragsim_result_tables(FILE *out, const fragsim_report *report);
/* Values over time: a row per sample, a column per policy. */
void fragsim_measure_table(FILE *out, const fragsim_report *report, fragsim_measure measure,
                           const fragsim_time *time);
void fragsim_parts_table(FILE *out, const fragsim_report *report, int job,
                         const fragsim_time *time);

extern const char fragsim_page_style[], fragsim_page_script[];

#endif
