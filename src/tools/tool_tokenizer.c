/* A folder and a .gguf bring their own tokenizer; it lies beside every other file. */
#include "tool_tokenizer.h"

#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static bool ends_with(const char *text, const char *end)
{
    const size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

static char *folder_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? strndup(path, (size_t)(slash - path) + 1) : strdup("./");
}

/* A llama2.c model has no tokenizer in it; where one tok*.bin lies beside it, that is its own.
 * NULL: there is none, or several, or no memory. */
static char *beside_bin(const char *model, const char *folder)
{
    char *found = NULL;
    int n = 0;
    DIR *dir = opendir(folder);
    for (const struct dirent *e; dir && (e = readdir(dir));) {
        if (strncmp(e->d_name, "tok", 3) != 0 || !ends_with(e->d_name, ".bin")) continue;
        const size_t cap = strlen(folder) + strlen(e->d_name) + 1;
        char *path = malloc(cap);
        if (!path) continue;
        snprintf(path, cap, "%s%s", folder, e->d_name);
        if (strcmp(path, model) == 0 || n++ > 0) {
            free(path);
            continue;
        }
        found = path;
    }
    if (dir) closedir(dir);
    if (n == 1) return found;
    free(found);
    return NULL;
}

char *tool_tokenizer_place(const char *model, const char *format)
{
    struct stat st;
    if ((stat(model, &st) == 0 && S_ISDIR(st.st_mode)) || strcmp(format, "gguf") == 0)
        return strdup(model);
    char *folder = folder_of(model);
    char *file = folder && strcmp(format, "llama2.c") == 0 ? beside_bin(model, folder) : NULL;
    if (!file) return folder;
    free(folder);
    return file;
}
