/* Cases of the block manager, in the order of the tables. */
#include "blocks_case.h"

bool case_list_blocks(const struct bench_options *o, struct case_list *list,
                      struct bench_error *err)
{
    return blocks_pool_cases(o, list, err) && blocks_step_cases(o, list, err) &&
           blocks_table_cases(o, list, err) && blocks_content_cases(o, list, err) &&
           blocks_whole_cases(o, list, err);
}
