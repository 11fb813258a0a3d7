/* What the command lines of all programs understand in the same way, and how their help is printed.
 */
#ifndef PKV_TOOLS_TOOL_VALUES_H
#define PKV_TOOLS_TOOL_VALUES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* What pkv_isa_from_name and pkv_dtype_from_name take, in the words of help and complaints. */
#define TOOL_LEVELS "scalar, avx2, avx512, avx512bf16, amx, neon or best"
#define TOOL_DTYPES "f32, f16, bf16, e4m3, e5m2, int8 or int4"

/* Decimal text times 10^scale to the nearest integer; false: not a number, negative or too big.
 * *exact tells whether anything was rounded. */
bool tool_parse_decimal(const char *text, size_t len, int scale, int64_t *out, bool *exact);
/* A whole number in low .. high. */
bool tool_parse_whole(const char *text, int64_t low, int64_t high, int64_t *out);
/* NUMBER with ns, us, ms, s, min or h behind (none: s), to ns. */
bool tool_parse_time(const char *text, size_t len, int64_t *ns, bool *exact);
/* "12GiB", "40GB", "1024" to bytes. */
bool tool_parse_bytes(const char *text, int64_t *bytes);
/* 22000000 -> "22 ms"; exact. */
void tool_time_text(int64_t ns, char *out, size_t cap);

/* `text` and a newline, in lines of up to `width` columns; the first begins at `column`, the others
 * are indented by `left`. */
void tool_put_wrapped(FILE *out, const char *text, int column, int left, int width);

#endif
