/* pkv-bench: paged against contiguous KV memory, measured. Parses and hands over. */
#include "bench_session.h"

#include <stdlib.h>

int main(int argc, char **argv)
{
    struct bench_options options;
    bench_options_parse(argc, argv, getenv("PKV_ISA"), getenv("PKV_SHARED"), &options);
    return bench_session_main(&options);
}
