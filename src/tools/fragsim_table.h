/* Pieces of the report for people. */
#ifndef PKV_TOOLS_FRAGSIM_TABLE_H
#define PKV_TOOLS_FRAGSIM_TABLE_H

#include "fragsim.h"

#define FRAGSIM_NAME_COLUMNS 18 /* of policies */

/* The name of a job without "alloc=", and a long one without "block=" and the like. */
const char *fragsim_label(const fragsim_job *job, char out[PKV_SIM_POLICY_NAME_BYTES]);
/* It in a column of FRAGSIM_NAME_COLUMNS; a longer one gets a line of its own. */
void fragsim_print_name(FILE *out, const fragsim_job *job);
/* Pool, scheduling and window as used. */
void fragsim_print_config(FILE *out, const fragsim_report *report);

/* What the lengths alone say, behind `title`. */
void fragsim_print_forms(FILE *out, const pkv_sim_forms *forms, const char *title, int width);
/* Tables that only some runs need: caches, moves, goals, places, memory over time. */
void fragsim_print_details(FILE *out, const fragsim_report *report);

void fragsim_print_notes(FILE *out, const fragsim_report *report, int width);

#define FRAGSIM_TENTHS 10
/* Arrivals per second in each tenth of the span. False: all arrive at one time. */
bool fragsim_profile(const fragsim_input *input, double rates[FRAGSIM_TENTHS]);

#endif
