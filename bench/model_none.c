/* A build without the reference transformer. */
#include "bench_case.h"

bool case_list_model(const struct bench_options *o, struct case_list *list, struct bench_error *err)
{
    (void)o;
    (void)list;
    return bench_fail(err, BENCH_USAGE,
                      "this build has no reference transformer: configure with -Dmodel=enabled");
}
