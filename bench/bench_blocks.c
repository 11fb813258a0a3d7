/* Which block manager cases each profile runs. */
#include "bench_case.h"

bool case_list_blocks(const struct bench_options *o, struct case_list *list,
                      struct bench_error *err)
{
    (void)o;
    (void)list;
    (void)err;
    return true;
}
