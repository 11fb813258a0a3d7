/* pkv-fragsim: how much of a KV-cache memory is filled with tokens that somebody will read, under
 * which allocator, for which traffic? */
#include "fragsim.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

bool fragsim_complain(const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    fputs("pkv-fragsim: ", stderr);
    vfprintf(stderr, fmt, args);
    fputc('\n', stderr);
    va_end(args);
    return false;
}

void fragsim_note(fragsim_report *report, const char *fmt, ...)
{
    if (report->n_notes >= FRAGSIM_MAX_NOTES) return;
    va_list args;
    va_start(args, fmt);
    vsnprintf(report->notes[report->n_notes++], FRAGSIM_NOTE_BYTES, fmt, args);
    va_end(args);
}

/* ---------------------------------------------------------------- commands */

static const struct command {
    const char *name;
    fragsim_command bit;
    int (*run)(const fragsim_options *opts);
    const char *usage, *help;
} commands[] = {
    { "run", FRAGSIM_RUN, fragsim_run, "run [options]",
      "replay requests against allocation policies" },
    { "sweep", FRAGSIM_SWEEP, fragsim_sweep, "sweep [options]",
      "the same over lists of option values" },
    { "capacity", FRAGSIM_CAPACITY, fragsim_capacity, "capacity [options]",
      "how many requests a memory holds" },
    { "paper", FRAGSIM_PAPER, fragsim_paper, "paper [options]",
      "the PagedAttention paper's figures, pass or fail" },
    { "inspect", FRAGSIM_INSPECT, fragsim_inspect, "inspect TRACE", "what a trace contains" },
};
#define N_COMMANDS (sizeof(commands) / sizeof(commands[0]))

static const struct command *find_command(const char *name)
{
    for (size_t k = 0; k < N_COMMANDS; k++)
        if (strcmp(commands[k].name, name) == 0) return &commands[k];
    return NULL;
}

const char *fragsim_command_name(fragsim_command command)
{
    for (size_t k = 0; k < N_COMMANDS; k++)
        if (commands[k].bit == command) return commands[k].name;
    return "?";
}

/* "run, sweep or inspect" */
static void put_names(char *out, size_t cap)
{
    size_t len = 0;
    for (size_t k = 0; k < N_COMMANDS && len < cap; k++)
        len += (size_t)snprintf(out + len, cap - len, "%s%s",
                                k == 0                ? ""
                                : k == N_COMMANDS - 1 ? " or "
                                                      : ", ",
                                commands[k].name);
}

static void usage(void)
{
    char names[96];
    for (size_t k = 0; k < N_COMMANDS; k++)
        printf("pkv-fragsim %-20s %s\n", commands[k].usage, commands[k].help);
    put_names(names, sizeof(names));
    printf("pkv-fragsim %-20s every option of %s with its default\n", "COMMAND --help", names);
    printf("pkv-fragsim --version\n");
}

static int run_command(const struct command *command, int argc, char **argv)
{
    fragsim_options *opts = calloc(1, sizeof(*opts));
    if (!opts) {
        fragsim_complain("out of memory");
        return FRAGSIM_ERROR;
    }
    int code = FRAGSIM_ERROR;
    if (fragsim_options_parse(argc, argv, command->bit, opts)) code = command->run(opts);
    fragsim_options_free(opts);
    free(opts);
    return code;
}

/* What was asked for has been printed, or cannot be. */
static int printed(void)
{
    if (fflush(stdout) == 0 && !ferror(stdout)) return FRAGSIM_OK;
    fragsim_complain("stdout: writing failed: %s", strerror(errno));
    return FRAGSIM_ERROR;
}

int main(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : "";
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0) {
        usage();
        return printed();
    }
    if (strcmp(name, "--version") == 0) {
        printf("pkv-fragsim %s\n", pkv_version());
        return printed();
    }
    const struct command *command = find_command(name);
    if (!command) {
        char names[96];
        put_names(names, sizeof(names));
        if (argc > 1)
            fragsim_complain("'%s' is not a command; %s, see pkv-fragsim --help", name, names);
        else fragsim_complain("a command is missing; %s, see pkv-fragsim --help", names);
        return FRAGSIM_ERROR;
    }
    for (int k = 2; k < argc; k++) {
        if (strcmp(argv[k], "--help") != 0 && strcmp(argv[k], "-h") != 0) continue;
        fragsim_help(stdout, command->bit);
        return printed();
    }
    return run_command(command, argc, argv);
}
