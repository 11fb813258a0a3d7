/* Text from outside inside other languages, and charts in one file. */
#include "fragsim_chart.h"

#include <stdlib.h>
#include <string.h>

/* Bytes of the character at `text` if it is one that may be shown as it is: printable ASCII or well
 * formed UTF-8 from U+00A0 on, without surrogates and non-characters; else 0. */
static int good_char(const unsigned char *t)
{
    static const uint32_t least[] = { 0, 0, 0xa0, 0x800, 0x10000 };
    if (t[0] < 0x80) return t[0] >= 0x20 && t[0] != 0x7f;
    const int n = t[0] >= 0xf0 && t[0] < 0xf8 ? 4 : t[0] >= 0xe0 ? 3 : t[0] >= 0xc0 ? 2 : 0;
    if (n == 0 || t[0] >= 0xf8) return 0;
    uint32_t c = t[0] & (0xffU >> (n + 1));
    for (int k = 1; k < n; k++) {
        if ((t[k] & 0xc0) != 0x80) return 0;
        c = c << 6 | (t[k] & 0x3fU);
    }
    const bool good = c >= least[n] && c <= 0x10ffff && (c < 0xd800 || c > 0xdfff) &&
                      (c & 0xfffe) != 0xfffe && (c < 0x2028 || c > 0x202e) &&
                      (c < 0x2066 || c > 0x2069) && (c < 0xfdd0 || c > 0xfdef);
    return good ? n : 0;
}

void fragsim_put_escaped(FILE *out, const char *text)
{
    const unsigned char *t = (const unsigned char *)text;
    while (*t) {
        const int n = good_char(t);
        switch (*t) {
        case '<':
            fputs("&lt;", out);
            break;
        case '>':
            fputs("&gt;", out);
            break;
        case '&':
            fputs("&amp;", out);
            break;
        case '"':
            fputs("&quot;", out);
            break;
        case '\'':
            fputs("&#39;", out);
            break;
        default:
            if (n > 0) fwrite(t, 1, (size_t)n, out);
            else fputs("\xef\xbf\xbd", out); /* the replacement character */
        }
        t += n > 0 ? n : 1;
    }
}

void fragsim_put_quoted(FILE *out, const char *text)
{
    fputc('\'', out);
    for (const unsigned char *t = (const unsigned char *)text; *t;) {
        const int n = good_char(t);
        if (*t == '\'') fputs("''", out); /* how gnuplot writes one inside quotes */
        else if (n > 0) fwrite(t, 1, (size_t)n, out);
        else fputc('?', out);
        t += n > 0 ? n : 1;
    }
    fputc('\'', out);
}

/* ---------------------------------------------------------------- one file */

enum { MARGIN = 24, HEADLINE = 46, TITLE = 34, GAP = 26 };

/* The height in the viewBox that fragsim_canvas_close wrote. */
static int height_of(const char *svg)
{
    static const char box[] = " viewBox=\"0 0 ";
    int width = 0, height = 0;
    const char *at = strstr(svg, box);
    return at && sscanf(at + strlen(box), "%d %d", &width, &height) == 2 ? height : 0;
}

static void put_text(FILE *out, int y, int size, const char *weight, const char *text)
{
    fprintf(out,
            "<text x=\"%d\" y=\"%d\" font-family=\"sans-serif\" font-size=\"%d\" "
            "font-weight=\"%s\">",
            MARGIN, y, size, weight);
    fragsim_put_escaped(out, text);
    fputs("</text>\n", out);
}

char *fragsim_stack_charts(char *const *charts, const char *const *titles, int n,
                           const char *headline)
{
    char *text = NULL;
    size_t len = 0;
    int height = MARGIN + HEADLINE, y = height;
    for (int k = 0; k < n; k++)
        if (charts[k]) height += TITLE + height_of(charts[k]) + GAP;
    FILE *out = open_memstream(&text, &len);
    if (!out) {
        fragsim_complain("out of memory for the charts");
        return NULL;
    }
    const int width = FRAGSIM_CHART_WIDTH + 2 * MARGIN;
    fprintf(out,
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" "
            "height=\"%d\">\n"
            "<rect width=\"%d\" height=\"%d\" fill=\"white\"/>\n",
            width, height, width, height, width, height);
    put_text(out, MARGIN + 22, 20, "bold", headline);
    for (int k = 0; k < n; k++) {
        if (!charts[k]) continue;
        const int chart_height = height_of(charts[k]);
        put_text(out, y + 20, 17, "bold", titles[k]);
        fprintf(out, "<svg x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\"%s", MARGIN, y + TITLE,
                FRAGSIM_CHART_WIDTH, chart_height, charts[k] + strlen("<svg"));
        y += TITLE + chart_height + GAP;
    }
    fputs("</svg>\n", out);
    if (fclose(out) == 0) return text;
    free(text);
    fragsim_complain("out of memory for the charts");
    return NULL;
}
