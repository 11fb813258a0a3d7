/* Gnuplot draws: its input is text that we write, its output is cleaned so that several charts can
 * stand in one document. No shell is involved, and neither the user's gnuplot settings nor the
 * environment have a say. The three streams are unnamed temporary files, so nothing can block. */
#include "fragsim_chart.h"

#include <errno.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---------------------------------------------------------------- the process */

typedef struct streams {
    FILE *in, *out, *err;
} streams;

static void streams_close(streams *s)
{
    if (s->in) fclose(s->in);
    if (s->out) fclose(s->out);
    if (s->err) fclose(s->err);
}

static bool streams_open(streams *s)
{
    s->in = tmpfile();
    s->out = tmpfile();
    s->err = tmpfile();
    return s->in && s->out && s->err;
}

/* What a program needs to start, and nothing that gnuplot would obey. */
static void clean_environment(char *to[], int cap)
{
    static const char *const kept[] = { "PATH=", "HOME=", "TMPDIR=", "LD_LIBRARY_PATH=" };
    static char locale[] = "LC_ALL=C";
    int n = 0;
    to[n++] = locale;
    for (char **var = environ; *var && n < cap - 1; var++)
        for (size_t k = 0; k < sizeof(kept) / sizeof(kept[0]); k++)
            if (n < cap - 1 && strncmp(*var, kept[k], strlen(kept[k])) == 0) to[n++] = *var;
    to[n] = NULL;
}

/* Returns 0, or why it did not start. *status is that of waitpid. */
static int spawn_and_wait(const streams *s, int *status)
{
    static char name[] = "gnuplot", no_settings[] = "-d";
    char *const argv[] = { name, no_settings, NULL };
    char *env[8];
    posix_spawn_file_actions_t actions;
    pid_t pid;
    clean_environment(env, 8);
    int why = posix_spawn_file_actions_init(&actions);
    if (why != 0) return why;
    why = posix_spawn_file_actions_adddup2(&actions, fileno(s->in), STDIN_FILENO);
    if (why == 0) why = posix_spawn_file_actions_adddup2(&actions, fileno(s->out), STDOUT_FILENO);
    if (why == 0) why = posix_spawn_file_actions_adddup2(&actions, fileno(s->err), STDERR_FILENO);
    if (why == 0) why = posix_spawnp(&pid, name, &actions, NULL, argv, env);
    posix_spawn_file_actions_destroy(&actions);
    if (why != 0) return why;
    *status = 0; /* where somebody has SIGCHLD ignored, there is none: the output tells */
    while (waitpid(pid, status, 0) < 0) {
        if (errno == ECHILD) return 0;
        if (errno != EINTR) return errno;
    }
    return 0;
}

/* The whole file, from its beginning, as a text; NULL: no memory, or it cannot be read. */
static char *whole(FILE *file)
{
    if (fseek(file, 0, SEEK_END) != 0) return NULL;
    const long len = ftell(file);
    if (len < 0) return NULL;
    rewind(file);
    char *text = malloc((size_t)len + 1);
    if (!text) return NULL;
    if (fread(text, 1, (size_t)len, file) != (size_t)len) {
        free(text);
        return NULL;
    }
    text[len] = '\0';
    return text;
}

/* Its last line that says anything: above it gnuplot repeats its input. */
static void complain_about_gnuplot(const char *chart, FILE *err, int status)
{
    char *said = whole(err), *line = said;
    size_t len = said ? strlen(said) : 0;
    while (len > 0 && (said[len - 1] == '\n' || said[len - 1] == ' ')) said[--len] = '\0';
    if (said && strrchr(said, '\n')) line = strrchr(said, '\n') + 1;
    while (line && *line == ' ') line++;
    fragsim_complain("gnuplot could not draw '%s': %s", chart,
                     line && *line             ? line
                     : WIFSIGNALED(status)     ? "killed by a signal"
                     : WEXITSTATUS(status) > 0 ? "it failed without a word"
                                               : "no SVG came out");
    free(said);
}

/* What gnuplot makes of a script; NULL: `chart` could not be drawn, it has complained. With chart
 * NULL it keeps silent. */
static char *run_gnuplot(const char *chart, const char *script)
{
    streams s = { NULL, NULL, NULL };
    char *svg = NULL;
    const size_t len = strlen(script);
    if (!streams_open(&s) || fwrite(script, 1, len, s.in) != len || fflush(s.in) != 0 ||
        lseek(fileno(s.in), 0, SEEK_SET) != 0) {
        if (chart) fragsim_complain("temporary file for gnuplot: %s", strerror(errno));
        streams_close(&s);
        return NULL;
    }
    int status = 0;
    const int why = spawn_and_wait(&s, &status);
    if (why != 0) {
        if (chart) fragsim_complain("gnuplot could not be started: %s", strerror(why));
    } else {
        if (WIFEXITED(status) && WEXITSTATUS(status) == 0) svg = whole(s.out);
        if (svg && !strstr(svg, "</svg>")) {
            free(svg);
            svg = NULL;
        }
        if (!svg && chart) complain_about_gnuplot(chart, s.err, status);
    }
    streams_close(&s);
    return svg;
}

bool fragsim_can_draw(void)
{
    char *svg = run_gnuplot(NULL, "set terminal svg enhanced dynamic\nplot [0:1] [0:1] x\n");
    free(svg);
    return svg != NULL;
}

bool fragsim_svg_is_possible(const fragsim_options *opts)
{
    if (!opts->svg_path || fragsim_can_draw()) return true;
    return fragsim_complain("--svg needs gnuplot with its svg terminal on the PATH (Debian: "
                            "gnuplot-nox)");
}

/* ---------------------------------------------------------------- cleaning */

static bool starts(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

/* The next line, its length without the newline; *at moves behind it. */
static size_t next_line(const char **at, const char **line)
{
    const char *end = strchr(*at, '\n');
    const size_t len = end ? (size_t)(end - *at) : strlen(*at);
    *line = *at;
    *at = end ? end + 1 : *at + len;
    return len;
}

/* A filled point refers to a symbol by an id that clashes between charts; it becomes a circle. */
static bool put_point(FILE *out, const char *line, size_t len)
{
    double x, y, scale;
    const char *use = memmem(line, len, "<use ", strlen("<use "));
    if (!use) return false;
    char colour[40];
    if (sscanf(use,
               "<use xlink:href='#gpPt6' transform='translate(%lf,%lf) scale(%lf)' color='%39[^']'",
               &x, &y, &scale, colour) != 4)
        return false;
    if (use > line) fprintf(out, "%.*s\n", (int)(use - line), line); /* the end of a path */
    fprintf(out, "<circle cx='%.2f' cy='%.2f' r='%.2f' stroke='none' fill='%s'/>\n", x, y, scale,
            colour);
    return true;
}

/* Copy the drawing without what gnuplot writes around it: symbols that no chart uses and whose ids
 * clash between charts, groups with nothing in them, blanks. */
static void put_drawing(FILE *out, const char *body)
{
    const char *at = body, *line;
    while (*at) {
        size_t len = next_line(&at, &line);
        while (len > 0 && (*line == '\t' || *line == ' ')) line++, len--;
        while (len > 0 && (line[len - 1] == ' ' || line[len - 1] == '\t')) len--;
        if (len == 0) continue;
        if (starts(line, "<g fill=\"none\"") && starts(at, "</g>\n")) {
            at += strlen("</g>\n");
            continue;
        }
        if (starts(line, "</svg>")) break;
        if (put_point(out, line, len)) continue;
        for (size_t k = 0; k < len; k++) fputc(line[k] == '\t' ? ' ' : line[k], out);
        fputc('\n', out);
    }
}

static char *clean(const fragsim_canvas *c, const char *raw)
{
    char *text = NULL;
    size_t len = 0;
    const char *body = strstr(raw, "</defs>");
    if (!body) {
        fragsim_complain("gnuplot's SVG for '%s' has no '</defs>': an unknown version", c->name);
        return NULL;
    }
    FILE *out = open_memstream(&text, &len);
    if (!out) {
        fragsim_complain("out of memory for a chart");
        return NULL;
    }
    fprintf(out, "<svg xmlns=\"http://www.w3.org/2000/svg\" id=\"%s\" class=\"chart\" role=\"img\"",
            c->name);
    fprintf(out, " viewBox=\"0 0 %d %d\"", c->width, c->height);
    fprintf(out, " data-plot=\"%d %d %d %d\" aria-label=\"", c->left, c->right, c->top, c->bottom);
    fragsim_put_escaped(out, c->title);
    fprintf(out, "\"%s%s>\n<g>\n", c->attributes[0] ? " " : "", c->attributes);
    put_drawing(out, body + strlen("</defs>"));
    fputs("</svg>\n", out);
    if (fclose(out) == 0) return text;
    free(text);
    fragsim_complain("out of memory for a chart");
    return NULL;
}

/* ---------------------------------------------------------------- a chart */

int fragsim_key_height(int n_entries, int columns)
{
    return 18 + 21 * ((n_entries + columns - 1) / columns);
}

void fragsim_put_key(fragsim_canvas *c, int at, int columns, const char *colour, int dash,
                     const char *text)
{
    const int pitch = (c->width - 16) / columns;
    const double left = 8 + pitch * (at % columns), middle = 16 + 21 * (at / columns);
    const double y = 1 - middle / c->height, x = left / c->width, to = (left + 30) / c->width;
    const double half = 7.0 / c->height;
    if (dash == 0)
        fprintf(c->script,
                "set object rectangle from screen %.5f,%.5f to screen %.5f,%.5f fs solid noborder "
                "fc rgb '%s'\n",
                x, y - half, to, y + half, colour);
    else
        fprintf(c->script,
                "set arrow from screen %.5f,%.5f to screen %.5f,%.5f nohead lw 2.5 dt %d "
                "lc rgb '%s'\n",
                x, y, to, y, dash, colour);
    fputs("set label ", c->script);
    fragsim_put_quoted(c->script, text);
    fprintf(c->script, " noenhanced at screen %.5f,%.5f left\n", (left + 38) / c->width, y);
}

bool fragsim_canvas_open(fragsim_canvas *c)
{
    c->script = open_memstream(&c->text, &c->len);
    if (!c->script) return fragsim_complain("out of memory for a chart");
    fprintf(c->script,
            "set terminal svg size %d,%d dynamic enhanced butt font 'sans-serif,14' name '%s'\n"
            "set encoding utf8\n"
            "set lmargin at screen %.6f\nset rmargin at screen %.6f\n"
            "set tmargin at screen %.6f\nset bmargin at screen %.6f\n",
            c->width, c->height, c->name, (double)c->left / c->width, (double)c->right / c->width,
            1 - (double)c->top / c->height, 1 - (double)c->bottom / c->height);
    fputs("set border 3 lw 1 lc rgb '#808080'\n"
          "set tics nomirror out scale 0.5 tc rgb 'black'\n"
          "set xtics noenhanced\nset ytics noenhanced\n"
          "set format '%.10g'\n"
          "set xtics offset 0,0.3\nset xlabel offset 0,0.6\n"
          "unset key\nset grid ytics lt 1 lw 1 lc rgb '#dcdcdc'\n"
          "set datafile missing 'NaN'\n",
          c->script);
    return true;
}

char *fragsim_canvas_close(fragsim_canvas *c)
{
    char *svg = NULL;
    if (fclose(c->script) != 0) {
        fragsim_complain("out of memory for a chart");
    } else {
        char *raw = run_gnuplot(c->name, c->text);
        if (raw) svg = clean(c, raw);
        free(raw);
    }
    free(c->text);
    c->script = NULL;
    c->text = NULL;
    return svg;
}
