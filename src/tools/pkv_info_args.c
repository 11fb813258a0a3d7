/* Command lines of all verbs: a table of options, their values, their help. */
#include "pkv_info.h"

#include <stdlib.h>
#include <string.h>

#include "tool_values.h"

#define HELP_COLUMN 24
#define HELP_WIDTH 100

/* ---------------------------------------------------------------- numbers */

/* "80e9": a decimal number times a power of ten. */
static bool parse_power(const char *text, int64_t *out)
{
    bool exact;
    int64_t power;
    const char *e = strpbrk(text, "eE");
    if (!e || !tool_parse_whole(e + 1, 0, 18, &power)) return false;
    return tool_parse_decimal(text, (size_t)(e - text), (int)power, out, &exact) && exact;
}

static bool parse_bytes(const char *text, int64_t *out)
{
    return tool_parse_bytes(text, out) || parse_power(text, out);
}

/* "8B", "350M", "8.03e9", "124439808". */
static bool parse_count(const char *text, int64_t *out)
{
    static const char units[] = "KMBT";
    bool exact;
    const size_t n = strspn(text, "0123456789.");
    const char *unit = text[n] ? strchr(units, text[n]) : NULL;
    if (unit && text[n + 1] == '\0')
        return tool_parse_decimal(text, n, 3 * (int)(unit - units + 1), out, &exact) && exact;
    return tool_parse_whole(text, 0, INT64_MAX, out) || parse_power(text, out);
}

static bool parse_rate(const char *text, int64_t *out)
{
    char plain[64];
    const size_t n = strlen(text);
    const bool per_second = n > 2 && strcmp(text + n - 2, "/s") == 0;
    if (n >= sizeof(plain)) return false;
    snprintf(plain, sizeof(plain), "%.*s", (int)(per_second ? n - 2 : n), text);
    return parse_bytes(plain, out);
}

/* ---------------------------------------------------------------- one option */

static bool set_whole(const info_option *o, const char *text)
{
    int64_t v;
    if (!tool_parse_whole(text, o->low, o->high, &v)) {
        info_complain("%s wants a whole number from %lld to %lld, not '%s'", o->name,
                      (long long)o->low, (long long)o->high, text);
        return false;
    }
    *(int32_t *)o->to = (int32_t)v;
    return true;
}

static bool set_value(const info_option *o, const char *text)
{
    const char *wants = NULL;
    switch (o->kind) {
    case INFO_FLAG:
        *(bool *)o->to = true;
        break;
    case INFO_TEXT:
        *(const char **)o->to = text;
        break;
    case INFO_WHOLE:
        return set_whole(o, text);
    case INFO_BYTES:
        if (!parse_bytes(text, o->to)) wants = "a size like 24GiB or 80e9";
        break;
    case INFO_COUNT:
        if (!parse_count(text, o->to)) wants = "a number like 8.03e9, 8B or 350M";
        break;
    case INFO_RATE:
        if (!parse_rate(text, o->to)) wants = "bytes per second like 3.35TB/s";
        break;
    case INFO_DTYPE:
        if (pkv_dtype_from_name(text, o->to) != PKV_OK) wants = TOOL_DTYPES;
        break;
    }
    if (wants) info_complain("%s wants %s, not '%s'", o->name, wants, text);
    return !wants;
}

static const info_option *find(const info_verb *v, const char *arg, size_t n)
{
    for (int k = 0; k < v->n_options; k++) {
        const info_option *o = &v->options[k];
        if (strlen(o->name) == n && memcmp(o->name, arg, n) == 0) return o;
        if (o->alias && strlen(o->alias) == n && memcmp(o->alias, arg, n) == 0) return o;
    }
    return NULL;
}

/* argv[*at] and, if it wants one, its value behind it or behind a '='. */
static bool take_option(const info_verb *v, int argc, char **argv, int *at)
{
    const char *arg = argv[*at], *equals = arg[1] == '-' ? strchr(arg, '=') : NULL;
    const info_option *o = find(v, arg, equals ? (size_t)(equals - arg) : strlen(arg));
    if (!o) {
        info_complain("unknown option '%s'; see pkv-info %s --help", arg, argv[1]);
        return false;
    }
    if (o->kind == INFO_FLAG && equals) {
        info_complain("%s takes no value", o->name);
        return false;
    }
    if (o->kind != INFO_FLAG && !equals && *at + 1 >= argc) {
        info_complain("%s wants %s behind it", o->name, o->value);
        return false;
    }
    const char *text = equals ? equals + 1 : o->kind == INFO_FLAG ? "" : argv[++*at];
    if (o->given) *o->given = true;
    return set_value(o, text);
}

/* ---------------------------------------------------------------- help */

static void print_help(const info_verb *v)
{
    printf("Usage: pkv-info %s\n", v->usage);
    tool_put_wrapped(stdout, v->about, 0, 0, HELP_WIDTH);
    fputc('\n', stdout);
    for (int k = 0; k < v->n_options; k++) {
        const info_option *o = &v->options[k];
        int column = printf("  %s%s%s", o->alias ? o->alias : "", o->alias ? ", " : "", o->name);
        if (o->value) column += printf(" %s", o->value);
        if (column + 2 > HELP_COLUMN) {
            fputc('\n', stdout);
            column = 0;
        }
        printf("%*s", HELP_COLUMN - column, "");
        tool_put_wrapped(stdout, o->help, HELP_COLUMN, HELP_COLUMN, HELP_WIDTH);
    }
    printf("%*s", -HELP_COLUMN, "  --help");
    puts("this text");
    if (!v->tail) return;
    fputc('\n', stdout);
    tool_put_wrapped(stdout, v->tail, 0, 0, HELP_WIDTH);
}

static bool is_help(const char *arg)
{
    return strcmp(arg, "--help") == 0 || strcmp(arg, "-h") == 0;
}

info_parsed info_parse(const info_verb *verb, int argc, char **argv, const char **places,
                       int *n_places)
{
    bool ended = false;
    *n_places = 0;
    for (int at = 2; at < argc; at++) {
        const char *arg = argv[at];
        if (!ended && strcmp(arg, "--") == 0) {
            ended = true;
            continue;
        }
        if (!ended && is_help(arg)) {
            print_help(verb);
            return INFO_HELPED;
        }
        if (!ended && arg[0] == '-' && arg[1] != '\0') {
            if (!take_option(verb, argc, argv, &at)) return INFO_REFUSED;
            continue;
        }
        if (*n_places == verb->max_places) {
            info_complain("one argument too many: '%s'; see pkv-info %s --help", arg, argv[1]);
            return INFO_REFUSED;
        }
        places[(*n_places)++] = arg;
    }
    return INFO_GO_ON;
}
