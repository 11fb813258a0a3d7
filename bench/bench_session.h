/* One run of the program: options in, report out. */
#ifndef PKV_BENCH_SESSION_H
#define PKV_BENCH_SESSION_H

#include "bench_case.h"

/* Make backend, machine block and cases, run them, fill run->report. False: `err` has the exit code
 * and the reason; the report may be partial. bench_session_close is due in both cases. */
bool bench_session_run(struct bench_run *run, const struct bench_options *o,
                       struct bench_error *err);
void bench_session_close(struct bench_run *run);

/* Everything the program does after parsing. Returns the exit code. */
int bench_session_main(const struct bench_options *o);

#endif
