/* Building blocks of pages: frame, figures, tables. */
#include "fragsim_html.h"

#include <string.h>

void fragsim_page_begin(FILE *out, const char *title, const char *headline)
{
    fputs("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
          "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
          "<link rel=\"icon\" href=\"data:,\">\n<title>",
          out);
    fragsim_put_escaped(out, title);
    fprintf(out, "</title>\n<style>\n%s</style>\n</head>\n<body>\n<main>\n<h1>",
            fragsim_page_style);
    fragsim_put_escaped(out, headline);
    fputs("</h1>\n", out);
}

void fragsim_page_end(FILE *out)
{
    fprintf(out, "</main>\n<script>\n%s</script>\n</body>\n</html>\n", fragsim_page_script);
}

void fragsim_page_no_charts(FILE *out)
{
    fputs("<p class=\"note\" id=\"no-charts\">There are no charts on this page because gnuplot was "
          "not found when it was made (Debian: gnuplot-nox). The tables have all their data.</p>\n",
          out);
}

void fragsim_page_repro(FILE *out, const fragsim_options *opts)
{
    fragsim_page_section(out, "repeat", "The command that repeats this run");
    fputs("<pre id=\"repro\">", out);
    fragsim_put_escaped(out, opts->repro ? opts->repro : "");
    fputs("</pre>\n", out);
}

void fragsim_page_section(FILE *out, const char *id, const char *heading)
{
    fprintf(out, "<h2 id=\"%s\">%s</h2>\n", id, heading);
}

void fragsim_figure_begin(FILE *out, const char *id, const char *heading, const char *svg,
                          const char *how)
{
    fprintf(out, "<figure id=\"%s\"><h3>", id);
    fragsim_put_escaped(out, heading);
    fprintf(out, "</h3>\n%s<figcaption>%s</figcaption>\n", svg ? svg : "", how);
}

void fragsim_figure_end(FILE *out)
{
    fputs("</figure>\n", out);
}

void fragsim_data_begin(FILE *out, const char *id, const char *summary, const char *const *columns)
{
    fprintf(out,
            "<details><summary>%s</summary><div class=\"scroll tall\"><table id=\"%s\">"
            "<thead><tr>",
            summary, id);
    for (int k = 0; columns[k]; k++) {
        fputs("<th>", out);
        fragsim_put_escaped(out, columns[k]);
        fputs("</th>", out);
    }
    fputs("</tr></thead>\n<tbody>\n", out);
}

void fragsim_data_end(FILE *out)
{
    fputs("</tbody></table></div></details>\n", out);
}

void fragsim_cell_text(FILE *out, const char *text)
{
    fputs("<td>", out);
    fragsim_put_escaped(out, text);
    fputs("</td>", out);
}

void fragsim_cell_number(FILE *out, bool known, const char *format, double value)
{
    fputs("<td>", out);
    if (known) fprintf(out, format, value);
    else fputs("-", out);
    fputs("</td>", out);
}

/* ---------------------------------------------------------------- JSON */

#define PATH_BYTES 256

static void put_value(FILE *out, const json_t *value)
{
    switch (json_typeof(value)) {
    case JSON_STRING:
        fragsim_put_escaped(out, json_string_value(value));
        break;
    case JSON_INTEGER:
        fprintf(out, "%lld", (long long)json_integer_value(value));
        break;
    case JSON_REAL:
        fprintf(out, "%.6g", json_real_value(value));
        break;
    case JSON_TRUE:
        fputs("yes", out);
        break;
    case JSON_FALSE:
        fputs("no", out);
        break;
    case JSON_NULL:
        fputs("-", out);
        break;
    case JSON_ARRAY: {
        size_t k;
        json_t *item;
        json_array_foreach(value, k, item)
        {
            if (k > 0) fputs(", ", out);
            put_value(out, item);
        }
        break;
    }
    default:
        fputs("{}", out);
    }
}

/* What is at a path of keys joined by dots; keys have no dots in them. NULL: nothing. */
static const json_t *at_path(const json_t *object, const char *path)
{
    char key[PATH_BYTES];
    while (object && *path) {
        const size_t len = strcspn(path, ".");
        snprintf(key, sizeof(key), "%.*s", (int)len, path);
        object = json_object_get(object, key);
        path += len + (path[len] == '.');
    }
    return object;
}

static void put_label(FILE *out, const char *path)
{
    char label[PATH_BYTES];
    snprintf(label, sizeof(label), "%s", path);
    for (char *c = label; *c; c++)
        if (*c == '_') *c = ' ';
        else if (*c == '.') *c = ':';
    fragsim_put_escaped(out, label);
}

/* A row per value below `object`, with a cell per member of `all` (an array), or its own. */
static void put_rows(FILE *out, const json_t *object, const char *prefix, const json_t *all)
{
    const char *key;
    json_t *value, *one;
    size_t k;
    json_object_foreach((json_t *)(uintptr_t)object, key, value)
    {
        char path[PATH_BYTES];
        snprintf(path, sizeof(path), "%s%s%s", prefix, *prefix ? "." : "", key);
        if (json_is_object(json_array_get(value, 0))) continue; /* a table of its own */
        if (json_is_object(value) && json_object_size(value) > 0) {
            put_rows(out, value, path, all);
            continue;
        }
        fputs("<tr><td>", out);
        put_label(out, path);
        fputs("</td>", out);
        if (!all) {
            fputs("<td>", out);
            put_value(out, value);
            fputs("</td>", out);
        } else json_array_foreach(all, k, one)
            {
                const json_t *there = at_path(one, path);
                fputs("<td>", out);
                if (there) put_value(out, there);
                fputs("</td>", out);
            }
        fputs("</tr>\n", out);
    }
}

void fragsim_json_rows(FILE *out, const char *id, const json_t *object)
{
    fprintf(out, "<div class=\"scroll\"><table class=\"facts\" id=\"%s\"><tbody>\n", id);
    put_rows(out, object, "", NULL);
    fputs("</tbody></table></div>\n", out);
}

void fragsim_json_columns(FILE *out, const char *id, const json_t *array, const char *name_key)
{
    size_t k;
    json_t *one;
    fprintf(out, "<div class=\"scroll\"><table id=\"%s\"><thead><tr><th></th>", id);
    json_array_foreach(array, k, one)
    {
        const char *name = json_string_value(json_object_get(one, name_key));
        fputs("<th>", out);
        fragsim_put_escaped(out, name ? name : "");
        fputs("</th>", out);
    }
    fputs("</tr></thead>\n<tbody>\n", out);
    /* the one with most values has the keys of all */
    const json_t *fullest = json_array_get(array, 0);
    json_array_foreach(array, k, one) if (json_is_object(json_object_get(one, "split")))
    {
        fullest = one;
        break;
    }
    put_rows(out, fullest, "", array);
    fputs("</tbody></table></div>\n", out);
}
