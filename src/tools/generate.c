/* pkv-generate: continues texts with a model, over a paged KV cache. */
#include "generate.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

bool generate_complain(const char *fmt, ...)
{
    char text[1024];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    for (char *c = text; *c; c++)
        if ((unsigned char)*c < ' ') *c = '?'; /* one line, whatever was quoted */
    fprintf(stderr, "pkv-generate: %s\n", text);
    return false;
}

static void keep_line(void *ctx, pkv_log_level level, const char *text)
{
    generate_log *log = ctx;
    if (level == PKV_LOG_WARN) generate_complain("warning: %s", text);
    if (level == PKV_LOG_ERROR) snprintf(log->text, sizeof(log->text), "%s", text);
}

pkv_logger generate_logger(generate_log *log)
{
    return (pkv_logger){ keep_line, log };
}

const char *generate_why(const generate_log *log, pkv_status status)
{
    return log->text[0] ? log->text : pkv_status_text(status);
}

/* ---------------------------------------------------------------- one run */

static int open_model(const generate_options *o, pkv_model **out)
{
    generate_log log = { "" };
    pkv_model_config cfg = PKV_MODEL_CONFIG_INIT;
    cfg.path = o->model;
    cfg.weights_dtype = o->weights;
    cfg.log = generate_logger(&log);
    const pkv_status status = pkv_model_open(&cfg, out);
    if (status == PKV_OK) return GENERATE_OK;
    generate_complain("%s", generate_why(&log, status));
    return status == PKV_E_NO_MEMORY ? GENERATE_IO : GENERATE_MODEL;
}

static bool needs_tokenizer(const generate_requests *rs)
{
    for (int32_t k = 0; k < rs->n; k++)
        if (rs->list[k].text || rs->list[k].n_stops > 0) return true;
    return false;
}

/* The requests of the file, or the one of the command line. */
static int read_requests(generate_options *o, generate_requests *rs)
{
    if (o->requests) return generate_lines_read(o, rs);
    generate_request *r = &o->base;
    if (o->prompt_file) r->text = generate_read_file(o->prompt_file, &r->n_text);
    if (o->prompt_file && !r->text) return GENERATE_IO;
    if (o->prompt) r->text = strdup(o->prompt);
    if (o->prompt) r->n_text = strlen(o->prompt);
    rs->list = calloc(1, sizeof(*rs->list));
    if (!rs->list || (o->prompt && !r->text)) {
        generate_complain("out of memory");
        return GENERATE_IO;
    }
    rs->list[0] = *r; /* and all that it owns */
    rs->n = rs->cap = 1;
    o->base = (generate_request){ .req = r->req };
    return GENERATE_OK;
}

static int generate(generate_options *o)
{
    generate_requests rs = { 0 };
    pkv_model *model = NULL;
    pkv_tokenizer *tok = NULL;
    int code = read_requests(o, &rs);
    if (code == GENERATE_OK) code = open_model(o, &model);
    generate_run run = { .opts = o, .model = model, .info = PKV_MODEL_INFO_INIT, .rs = &rs };
    if (code == GENERATE_OK && pkv_model_get_info(model, &run.info) != PKV_OK) code = GENERATE_IO;
    if (code == GENERATE_OK)
        code = generate_tokenizer_open(o, &run.info, needs_tokenizer(&rs), &tok);
    run.tok = tok;
    if (code == GENERATE_OK) code = generate_prompts_encode(o, &run.info, tok, &rs);
    if (code == GENERATE_OK) code = generate_run_all(&run);
    pkv_tokenizer_close(tok);
    pkv_model_close(model);
    generate_requests_free(&rs);
    return code;
}

/* ---------------------------------------------------------------- main */

/* What was asked for has been printed, or cannot be. */
static int printed(void)
{
    if (fflush(stdout) == 0 && !ferror(stdout)) return GENERATE_OK;
    generate_complain("stdout: writing failed: %s", strerror(errno));
    return GENERATE_IO;
}

static int show_help(const char *group)
{
    if (generate_help(stdout, group)) return printed();
    fprintf(stderr, "pkv-generate: --help: '%.64s' is not one of ", group);
    generate_help_groups(stderr);
    fputc('\n', stderr);
    return GENERATE_USAGE;
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "--version") == 0) {
        printf("pkv-generate %s\n", pkv_version());
        return printed();
    }
    generate_options *o = calloc(1, sizeof(*o));
    if (!o) {
        generate_complain("out of memory");
        return GENERATE_IO;
    }
    int code = GENERATE_USAGE;
    if (generate_options_parse(argc, argv, o)) code = o->help ? show_help(o->help) : generate(o);
    generate_options_free(o);
    free(o);
    return code;
}
