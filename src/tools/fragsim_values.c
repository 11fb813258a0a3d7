/* Values of the command line that only the simulator has. */
#include "fragsim.h"

#include <string.h>

__extension__ typedef __int128 wide;

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* One term of a step time: TIME, TIME*batch or TIME*tokens. */
static bool parse_term(const char *text, size_t len, int64_t coefficients[3], bool given[3])
{
    static const char *const names[] = { "", "batch", "tokens" };
    const char *star = memchr(text, '*', len);
    const size_t time_len = star ? (size_t)(star - text) : len;
    const char *name = star ? star + 1 : text + len;
    size_t name_len = len - (size_t)(name - text);
    while (name_len > 0 && *name == ' ') {
        name++;
        name_len--;
    }
    for (int k = 0; k < 3; k++) {
        if (strlen(names[k]) != name_len || memcmp(names[k], name, name_len) != 0) continue;
        if ((k == 0) == (star != NULL) || given[k]) return false;
        given[k] = true;
        bool exact;
        size_t used = time_len;
        while (used > 0 && text[used - 1] == ' ') used--;
        if (!tool_parse_time(text, used, &coefficients[k], &exact)) return false;
        return exact || coefficients[k] != 0; /* what rounds to 0 is a mistake */
    }
    return false;
}

bool fragsim_parse_step_time(const char *text, pkv_sim_config *sim)
{
    int64_t times[3] = { 0, 0, 0 }; /* fixed, per running request, per token */
    bool given[3] = { false, false, false };
    for (const char *at = text;;) {
        while (*at == ' ') at++;
        size_t len = strcspn(at, "+");
        const char *next = at[len] ? at + len + 1 : NULL;
        while (len > 0 && at[len - 1] == ' ') len--;
        if (!parse_term(at, len, times, given))
            return fragsim_complain("--step-time: '%s' is not A+B*batch+C*tokens with times of at "
                                    "least 1 ns or 0, as in "
                                    "22ms+300us*batch+400ns*tokens",
                                    text);
        if (!next) break;
        at = next;
    }
    if (times[0] > INT64_C(1000000000000) || times[1] > INT64_C(1000000000000) ||
        times[2] > INT64_C(1000000000))
        return fragsim_complain(
            "--step-time: '%s' is too long: at most 1000s, 1000s*batch, 1s*tokens", text);
    if (times[0] + times[1] == 0)
        return fragsim_complain("--step-time: '%s' makes steps of no length; give A or B", text);
    sim->step_base_ns = times[0];
    sim->step_per_seq_ns = times[1];
    sim->step_per_token_ns = times[2];
    return true;
}

/* ---------------------------------------------------------------- several values */

#define MICRO 1000000
#define FINER MICRO /* a factor is applied to 12 decimals, 6 are shown */

static bool add_value(const char *option, const char *text, size_t len, fragsim_axis *out)
{
    if (out->n >= FRAGSIM_MAX_VALUES)
        return fragsim_complain("%s: at most %d values", option, FRAGSIM_MAX_VALUES);
    if (len == 0 || len >= sizeof(out->values[0]))
        return fragsim_complain("%s: '%.*s' is not a value; give 1,8,16 or FIRST-LAST*FACTOR or "
                                "FIRST-LAST+STEP",
                                option, (int)len, text);
    memcpy(out->values[out->n], text, len);
    out->values[out->n++][len] = '\0';
    return true;
}

/* 1250000 -> "1.25", with the unit behind. */
static bool add_number(const char *option, int64_t micro, const char *unit, size_t unit_len,
                       fragsim_axis *out)
{
    char text[64];
    int len = snprintf(text, sizeof(text), "%lld.%06lld", (long long)(micro / MICRO),
                       (long long)(micro % MICRO));
    while (text[len - 1] == '0') len--;
    if (text[len - 1] == '.') len--;
    snprintf(text + len, sizeof(text) - (size_t)len, "%.*s", (int)unit_len, unit);
    return add_value(option, text, strlen(text), out);
}

/* A range: numbers with six decimals, the unit behind LAST or behind both. */
typedef struct range {
    int64_t first, last, by; /* times 10^6 */
    char sign;               /* '*' or '+' */
    const char *unit;
    size_t unit_len;
} range;

static size_t number_length(const char *text)
{
    return strspn(text, "0123456789.");
}

static bool parse_range(const char *text, size_t len, range *r)
{
    const char *dash = memchr(text, '-', len);
    const size_t first = number_length(text);
    if (!dash) return false;
    const char *last = dash + 1, *end = text + len;
    const size_t last_len = number_length(last);
    r->unit = last + last_len;
    r->unit_len = strcspn(r->unit, "*+,");
    const char *sign = r->unit + r->unit_len;
    const char *first_unit = text + first;
    const size_t first_unit_len = (size_t)(dash - first_unit);
    if (sign >= end || (first_unit_len > 0 && (first_unit_len != r->unit_len ||
                                               memcmp(first_unit, r->unit, r->unit_len) != 0)))
        return false;
    r->sign = *sign;
    bool exact[3];
    return tool_parse_decimal(text, first, 6, &r->first, &exact[0]) &&
           tool_parse_decimal(last, last_len, 6, &r->last, &exact[1]) &&
           tool_parse_decimal(sign + 1, (size_t)(end - sign - 1), 6, &r->by, &exact[2]) &&
           exact[0] && exact[1] && exact[2] && r->first <= r->last &&
           (r->sign == '*' ? r->by > MICRO && r->first > 0 : r->by > 0);
}

static bool add_range(const char *option, const range *r, fragsim_axis *out)
{
    for (wide now = (wide)r->first * FINER;;) {
        const wide micro = (now + FINER / 2) / FINER;
        if (micro > r->last) return true;
        if (!add_number(option, (int64_t)micro, r->unit, r->unit_len, out)) return false;
        now = r->sign == '*' ? (now * r->by + MICRO / 2) / MICRO : now + (wide)r->by * FINER;
    }
}

bool fragsim_parse_values(const char *option, const char *text, fragsim_axis *out)
{
    out->option = option;
    out->n = 0;
    for (const char *at = text;;) {
        const size_t len = strcspn(at, ",");
        range r;
        const bool number = len > 0 && is_digit(*at);
        if (number && parse_range(at, len, &r)) {
            if (!add_range(option, &r, out)) return false;
        } else if (number && memchr(at, '-', len)) {
            return fragsim_complain("%s: '%.*s' is not a range; FIRST-LAST*FACTOR with a factor "
                                    "above 1, or FIRST-LAST+STEP",
                                    option, (int)len, at);
        } else if (!add_value(option, at, len, out)) {
            return false;
        }
        if (at[len] == '\0') return true;
        at += len + 1;
    }
}
