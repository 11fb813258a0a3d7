/* The command line of pkv-info. */
#include "pkv_info.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum { EXIT_OK = 0, EXIT_USAGE = 2 };

#define LEVELS "scalar, avx2, avx512, avx512bf16, amx, neon or best"

static const char help[] =
    "Usage: pkv-info machine [OPTION...]\n"
    "What the library finds on this machine: CPU, caches, levels with the reason why each is "
    "there\n"
    "or not, huge pages, and the function that each operation uses for each type of K and V.\n\n"
    "  --isa LEVEL  not above this level: " LEVELS "\n"
    "               (default: the variable PKV_ISA, else best)\n"
    "  --json       the same as one JSON object\n"
    "  --help       this text\n"
    "  --version    version of the library\n\n"
    "Exit status: 0 ok, 2 usage, output error, or a level that is not here.\n";

void info_complain(const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    fputs("pkv-info: ", stderr);
    vfprintf(stderr, fmt, args);
    fputc('\n', stderr);
    va_end(args);
}

struct options {
    bool json;
    pkv_isa isa;
    const char *asked_by; /* "--isa", "PKV_ISA"; NULL: nobody */
};

static bool take_level(const char *by, const char *text, struct options *o)
{
    o->asked_by = by;
    if (pkv_isa_from_name(text, &o->isa) == PKV_OK) return true;
    info_complain("%s wants " LEVELS ", not '%s'", by, text);
    return false;
}

/* argv[2] and on. */
static bool parse(int argc, char **argv, struct options *o)
{
    for (int i = 2; i < argc; i++) {
        if (strcmp(argv[i], "--json") == 0) {
            o->json = true;
        } else if (strcmp(argv[i], "--isa") == 0 && i + 1 < argc) {
            if (!take_level("--isa", argv[++i], o)) return false;
        } else if (strncmp(argv[i], "--isa=", 6) == 0) {
            if (!take_level("--isa", argv[i] + 6, o)) return false;
        } else if (strcmp(argv[i], "--isa") == 0) {
            info_complain("--isa wants " LEVELS);
            return false;
        } else {
            info_complain("unknown option '%s'; see pkv-info --help", argv[i]);
            return false;
        }
    }
    const char *env = getenv("PKV_ISA");
    return o->asked_by || !env || !*env || take_level("PKV_ISA", env, o);
}

static int finish_output(void)
{
    if (fflush(stdout) == 0 && !ferror(stdout)) return EXIT_OK;
    info_complain("cannot write to standard output");
    return EXIT_USAGE;
}

static bool wants(int argc, char **argv, const char *option)
{
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], option) == 0) return true;
    return false;
}

static int show_machine(const struct options *o)
{
    struct info_machine *m = calloc(1, sizeof(*m));
    bool ok = m && info_machine_read(o->isa, o->asked_by, m);
    if (!m) info_complain("no memory");
    if (ok && !o->json) info_machine_print(m, stdout);
    if (ok && o->json && !info_machine_json(m, stdout)) {
        info_complain("no memory for the JSON");
        ok = false;
    }
    free(m);
    return ok ? finish_output() : EXIT_USAGE;
}

int main(int argc, char **argv)
{
    struct options o = { false, PKV_ISA_BEST, NULL };
    if (wants(argc, argv, "--help") || wants(argc, argv, "-h")) {
        fputs(help, stdout);
        return finish_output();
    }
    if (wants(argc, argv, "--version")) {
        printf("pkv-info %s\n", pkv_version());
        return finish_output();
    }
    if (argc < 2) {
        info_complain("a command is missing: machine; see pkv-info --help");
        return EXIT_USAGE;
    }
    if (strcmp(argv[1], "machine") != 0) {
        info_complain("unknown command '%s': use machine", argv[1]);
        return EXIT_USAGE;
    }
    return parse(argc, argv, &o) ? show_machine(&o) : EXIT_USAGE;
}
