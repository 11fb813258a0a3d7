/* A build without the model library has no engine that could serve. */
#include "bench_case.h"

bool case_list_serve(const struct bench_options *o, struct case_list *list, struct bench_error *err)
{
    (void)o;
    (void)list;
    return bench_fail(err, BENCH_USAGE,
                      "serve needs the reference transformer, which this build lacks: configure "
                      "with -Dmodel=enabled, which needs jansson, PCRE2 and utf8proc");
}
