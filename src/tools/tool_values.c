/* Numbers, sizes and times of command lines, exactly: no float, no locale. */
#include "tool_values.h"

#include <stdio.h>
#include <string.h>

__extension__ typedef __int128 wide;

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

bool tool_parse_decimal(const char *text, size_t len, int scale, int64_t *out, bool *exact)
{
    int64_t value = 0;
    bool any = false, point = false, half = false, first_cut = true;
    *exact = true;
    for (size_t k = 0; k < len; k++) {
        if (text[k] == '.' && !point) {
            point = true;
            continue;
        }
        if (!is_digit(text[k])) return false;
        any = true;
        const int digit = text[k] - '0';
        if (point && scale == 0) { /* below one unit: only for rounding */
            if (first_cut) half = digit >= 5;
            first_cut = false;
            if (digit != 0) *exact = false;
            continue;
        }
        if (__builtin_mul_overflow(value, INT64_C(10), &value)) return false;
        if (__builtin_add_overflow(value, (int64_t)digit, &value)) return false;
        scale -= point;
    }
    for (; scale > 0; scale--)
        if (__builtin_mul_overflow(value, INT64_C(10), &value)) return false;
    if (!any || (half && value == INT64_MAX)) return false;
    *out = value + half;
    return true;
}

bool tool_parse_whole(const char *text, int64_t low, int64_t high, int64_t *out)
{
    bool exact;
    int64_t value;
    if (!tool_parse_decimal(text, strlen(text), 0, &value, &exact) || strchr(text, '.'))
        return false;
    if (value < low || value > high) return false;
    *out = value;
    return true;
}

/* ---------------------------------------------------------------- bytes */

bool tool_parse_bytes(const char *text, int64_t *bytes)
{
    static const struct {
        const char *name;
        int64_t factor;
    } sizes[] = {
        { "", 1 },
        { "B", 1 },
        { "kB", 1000 },
        { "KB", 1000 },
        { "MB", 1000000 },
        { "GB", 1000000000 },
        { "TB", INT64_C(1000000000000) },
        { "KiB", INT64_C(1) << 10 },
        { "MiB", INT64_C(1) << 20 },
        { "GiB", INT64_C(1) << 30 },
        { "TiB", INT64_C(1) << 40 },
    };
    const size_t n = strspn(text, "0123456789.");
    const char *unit = text + n + strspn(text + n, " ");
    for (size_t k = 0; k < sizeof(sizes) / sizeof(sizes[0]); k++) {
        if (strcmp(sizes[k].name, unit) != 0) continue;
        int64_t micro;
        bool exact;
        if (!tool_parse_decimal(text, n, 6, &micro, &exact) || !exact) return false;
        const wide scaled = (wide)micro * sizes[k].factor;
        if (scaled % 1000000 != 0 || scaled / 1000000 > INT64_MAX) return false;
        *bytes = (int64_t)(scaled / 1000000);
        return true;
    }
    return false;
}

/* ---------------------------------------------------------------- times */

static const struct unit {
    const char *name;
    int scale;      /* decimal places down to ns */
    int64_t factor; /* of what the scale gives */
} units[] = {
    { "ns", 0, 1 }, { "us", 3, 1 },   { "ms", 6, 1 },
    { "s", 9, 1 },  { "min", 9, 60 }, { "h", 9, 3600 },
};

bool tool_parse_time(const char *text, size_t len, int64_t *ns, bool *exact)
{
    size_t n = 0;
    while (n < len && (is_digit(text[n]) || text[n] == '.')) n++;
    size_t from = n;
    while (from < len && text[from] == ' ') from++;
    const size_t unit_len = len - from;
    for (size_t k = 0; k < sizeof(units) / sizeof(units[0]); k++) {
        const struct unit *u = &units[k];
        const char *name = unit_len == 0 ? "s" : text + from;
        const size_t name_len = unit_len == 0 ? 1 : unit_len;
        if (strlen(u->name) != name_len || memcmp(u->name, name, name_len) != 0) continue;
        return tool_parse_decimal(text, n, u->scale, ns, exact) &&
               !__builtin_mul_overflow(*ns, u->factor, ns);
    }
    return false;
}

void tool_time_text(int64_t ns, char *out, size_t cap)
{
    int k = 0;
    int64_t unit = 1;
    /* the largest unit in which three decimals suffice and the value is at least 0.1 */
    for (int u = 1; u < 4 && ns >= 100 * unit && ns % unit == 0; u++) {
        k = u;
        unit *= 1000;
    }
    const int64_t rest = ns % unit * 1000 / unit;
    const int decimals = rest == 0 ? 0 : rest % 100 == 0 ? 1 : rest % 10 == 0 ? 2 : 3;
    snprintf(out, cap, "%.*f %s", decimals, (double)ns / (double)unit, units[k].name);
}

/* ---------------------------------------------------------------- help */

void tool_put_wrapped(FILE *out, const char *text, int column, int left, int width)
{
    bool first = true;
    while (*text) {
        size_t len = strcspn(text, " ");
        if (strncmp(text + len, " %", 2) == 0) len += 2 + strcspn(text + len + 2, " ");
        if (!first && column + (int)len + 1 > width) {
            fprintf(out, "\n%*s", left, "");
            column = left;
            first = true;
        }
        column += fprintf(out, "%s%.*s", first ? "" : " ", (int)len, text);
        first = false;
        text += len + (text[len] == ' ');
    }
    fputc('\n', out);
}
