/* Reports on their way out: tables, CSV, JSON, and files that appear whole or not at all. */
#ifndef PKV_BENCH_OUTPUTS_H
#define PKV_BENCH_OUTPUTS_H

#include "bench_report.h"

#include <stdio.h>

/* A file being written beside its final name. "-" is standard output. */
struct out_file {
    FILE *stream;
    bool direct; /* not a regular file: written in place */
    char path[1024], temp[1080];
};
bool out_file_open(struct out_file *f, const char *path, struct bench_error *err);
/* Would open succeed? Asked before anything is measured; leaves nothing behind, so that a run that
 * is interrupted does not either. */
bool out_file_probe(const char *path, struct bench_error *err);
/* Flush, close and rename. On failure nothing is left behind. */
bool out_file_commit(struct out_file *f, struct bench_error *err);
/* Close and remove what was written so far; a zeroed struct is fine. */
void out_file_drop(struct out_file *f);

void out_machine(const struct machine_info *m, bool markdown, FILE *out);
void out_tables(const struct bench_report *report, bool markdown, FILE *out);
void out_csv(const struct bench_report *report, FILE *out);
/* False: no memory. */
bool out_json(const struct bench_report *report, FILE *out);

#endif
