/* Rows of CSV with a column per field of a simulation. */
#ifndef PKV_TOOLS_FRAGSIM_CSV_H
#define PKV_TOOLS_FRAGSIM_CSV_H

#include "fragsim.h"

/* In quotes where it has commas, as "paged+fork:block=16,n=2" does. */
void fragsim_csv_text(FILE *out, const char *text);
/* Without a newline: more columns may stand in front and behind. */
void fragsim_csv_names(FILE *out, const fragsim_job *job);
void fragsim_csv_values(FILE *out, const fragsim_job *job);

/* The text that `write` writes; NULL: no memory. */
char *fragsim_text_of(void (*write)(FILE *out, const void *what), const void *what);

#endif
