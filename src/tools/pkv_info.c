/* pkv-info: which verb. */
#include "pkv_info.h"

#include <stdarg.h>
#include <string.h>

#include "pagedkv/backend.h"

static const struct {
    const char *name, *about;
    int (*run)(int argc, char **argv);
} verbs[] = {
    { "machine", "levels, caches, libraries, and the function of each operation", info_machine },
    { "model", "what a model is: layers with their cost, tensors, a self-test", info_model },
    { "tokenize", "text to ids and back", info_tokenize },
    { "kv-size", "how much memory KV takes, and what fits", info_kv_size },
};
#define N_VERBS (sizeof(verbs) / sizeof(verbs[0]))

static void print_help(void)
{
    fputs("Usage: pkv-info VERB [ARGUMENT...]\n"
          "What the library finds on this machine, in model and tokenizer files, and what fits a "
          "memory.\n\n",
          stdout);
    for (size_t k = 0; k < N_VERBS; k++) printf("  %-10s %s\n", verbs[k].name, verbs[k].about);
    fputs("\n  VERB --help  its options\n"
          "  --version    version of the library\n\n"
          "Exit status: 0 ok, 2 usage, 3 a bad model or tokenizer file, 4 it can never fit, "
          "5 input, output,\nmemory or device.\n",
          stdout);
}

void info_complain(const char *fmt, ...)
{
    char text[1024];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    for (char *c = text; *c; c++)
        if ((unsigned char)*c < ' ') *c = '?'; /* one line, whatever was quoted */
    fprintf(stderr, "pkv-info: %s\n", text);
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        info_complain(
            "a verb is missing: machine, model, tokenize or kv-size; see pkv-info --help");
        return INFO_USAGE;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
        print_help();
        return info_finish_output();
    }
    if (strcmp(argv[1], "--version") == 0) {
        printf("pkv-info %s\n", pkv_version());
        return info_finish_output();
    }
    for (size_t k = 0; k < N_VERBS; k++)
        if (strcmp(argv[1], verbs[k].name) == 0) return verbs[k].run(argc, argv);
    info_complain("unknown verb '%s': use machine, model, tokenize or kv-size", argv[1]);
    return INFO_USAGE;
}
