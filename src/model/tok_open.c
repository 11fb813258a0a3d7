/* Which file, and what it is: by content, then by name. Files are read whole and closed; only .gguf
 * is mapped while it is read. */
#include "model/tok_internal.h"

#include <dirent.h>
#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

#define MERGES "vocab.bpe"
#define ENCODER "encoder.json"
#define JSON_CONFIG "tokenizer_config.json"

static bool ends_with(const char *text, const char *end)
{
    const size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

/* tokenizer.model, x.model.v3 and so on. */
static bool is_model_name(const char *name)
{
    return ends_with(name, ".model") || strstr(name, ".model.");
}

/* ---------------------------------------------------------------- content */

static bool begins(const uint8_t *data, size_t n, const char *with)
{
    return n >= strlen(with) && memcmp(data, with, strlen(with)) == 0;
}

static bool is_json(const uint8_t *data, size_t n)
{
    size_t k = 0;
    while (k < n && k < 64 && (data[k] == ' ' || (data[k] >= 9 && data[k] <= 13))) k++;
    return k < n && data[k] == '{';
}

/* A first line "base64 number". */
static bool is_tiktoken(const uint8_t *data, size_t n)
{
    size_t k = 0, digits = 0;
    for (; k < n && data[k] > ' ' && data[k] < 127; k++) {}
    if (k == 0 || k % 4 != 0 || k == n || data[k] != ' ') return false;
    for (k++; k < n && data[k] >= '0' && data[k] <= '9'; k++) digits++;
    return digits > 0 && (k == n || data[k] == '\n' || data[k] == '\r');
}

/* A first field 1, which is a message that begins with its field 1. */
static bool is_spm(const uint8_t *data, size_t n)
{
    return n >= 3 && data[0] == 0x0A && data[1] < 0x80 && data[2] == 0x0A;
}

static pkv_status settle_splitter(pkv_tokenizer *t, pkv__splitter asked)
{
    if (!t->is_spm) return PKV_OK;
    if (asked != PKV__SPLIT_UNSET && asked != PKV__SPLIT_NONE)
        return pkv__refuse(&t->log, PKV_E_UNSUPPORTED,
                           "%.64s: SentencePiece models have no splitter: give none", t->name);
    t->splitter = PKV__SPLIT_NONE;
    return PKV_OK;
}

static pkv_status read_gguf(pkv_tokenizer *t, const uint8_t *data, size_t n)
{
    pkv__tensor_file *file;
    pkv_status status = pkv__tensor_file_open_memory(data, n, t->name, &t->log, &t->alloc, &file);
    if (status != PKV_OK) return status;
    status = pkv__tok_read_gguf(t, file);
    pkv__tensor_file_close(file);
    return status;
}

pkv_status pkv__tok_open_bytes(pkv_tokenizer *t, const pkv_tokenizer_config *cfg,
                               const uint8_t *data, size_t n, const uint8_t *beside,
                               size_t n_beside)
{
    pkv_status status;
    const pkv__splitter asked = t->splitter;
    if (beside) status = pkv__tok_read_gpt2(t, data, n, beside, n_beside);
    else if (begins(data, n, "GGUF") || ends_with(t->name, ".gguf")) status = read_gguf(t, data, n);
    else if (is_json(data, n) || ends_with(t->name, ".json"))
        status = pkv__tok_read_json(t, data, n);
    else if (is_spm(data, n) || is_model_name(t->name)) status = pkv__tok_read_spm(t, data, n);
    else if (ends_with(t->name, ".tiktoken") || is_tiktoken(data, n))
        status = pkv__tok_read_tiktoken(t, data, n);
    else if (cfg->vocab_size > 0 || ends_with(t->name, ".bin"))
        status = pkv__tok_read_llama2c(t, data, n, cfg->vocab_size);
    else
        status = pkv__tok_refuse(t, 0, PKV_E_FORMAT,
                                 "neither tokenizer.json, tiktoken, SentencePiece, GGUF, vocab.bpe "
                                 "nor llama2.c");
    return status == PKV_OK ? settle_splitter(t, asked) : status;
}

/* ---------------------------------------------------------------- files */

static pkv_status open_map(const pkv_tokenizer *t, const char *path, pkv__file_map *map)
{
    const pkv_status status =
        pkv__file_map_open(path, true, PKV__TOK_FILE_MAX, &t->log, &t->alloc, map);
    return status == PKV_E_LIMIT ? PKV_E_UNSUPPORTED : status; /* the log has the length */
}

/* vocab.bpe and encoder.json, either of which was named. */
static pkv_status open_pair(pkv_tokenizer *t, const pkv_tokenizer_config *cfg, const char *path)
{
    size_t bytes[2] = { 0 };
    char *paths[2] = { pkv__path_join(&t->alloc, path, false, MERGES, &bytes[0]),
                       pkv__path_join(&t->alloc, path, false, ENCODER, &bytes[1]) };
    pkv__file_map maps[2] = { { 0 } };
    pkv_status status = paths[0] && paths[1] ? PKV_OK : PKV_E_NO_MEMORY;
    for (int k = 0; status == PKV_OK && k < 2; k++) status = open_map(t, paths[k], &maps[k]);
    t->name = MERGES;
    if (status == PKV_OK)
        status =
            pkv__tok_open_bytes(t, cfg, maps[0].data, maps[0].bytes, maps[1].data, maps[1].bytes);
    for (int k = 0; k < 2; k++) {
        pkv__file_map_close(&maps[k], &t->alloc);
        pkv__free(&t->alloc, paths[k], bytes[k]);
    }
    return status;
}

/* Weights and all: mapped, and read through their own reader, so that split files work. */
static pkv_status open_gguf(pkv_tokenizer *t, const char *path)
{
    const pkv__tensor_file_config cfg = { .path = path, .log = t->log, .alloc = t->alloc };
    pkv__tensor_file *file;
    pkv_status status = pkv__tensor_file_open(&cfg, &file);
    if (status != PKV_OK) return status;
    const pkv__splitter asked = t->splitter;
    status = pkv__tok_read_gguf(t, file);
    pkv__tensor_file_close(file);
    return status == PKV_OK ? settle_splitter(t, asked) : status;
}

/* Which tokens begin and end a text stands beside a tokenizer.json, if anywhere. */
static pkv_status open_json_config(pkv_tokenizer *t, const char *path)
{
    size_t bytes;
    pkv__file_map map = { 0 };
    char *beside = pkv__path_join(&t->alloc, path, false, JSON_CONFIG, &bytes);
    if (!beside) return PKV_E_NO_MEMORY;
    pkv_status status = PKV_OK;
    t->name = JSON_CONFIG;
    if (access(beside, F_OK) == 0) {
        status = open_map(t, beside, &map);
        if (status == PKV_OK) status = pkv__tok_read_json_config(t, map.data, map.bytes);
        pkv__file_map_close(&map, &t->alloc);
    }
    pkv__free(&t->alloc, beside, bytes);
    return status;
}

static pkv_status open_file(pkv_tokenizer *t, const pkv_tokenizer_config *cfg, const char *path)
{
    pkv__file_map map;
    t->name = pkv__base_name(path);
    if (strcmp(t->name, MERGES) == 0 || strcmp(t->name, ENCODER) == 0)
        return open_pair(t, cfg, path);
    if (ends_with(path, ".gguf")) return open_gguf(t, path);
    pkv_status status = open_map(t, path, &map);
    if (status != PKV_OK) return status;
    status = pkv__tok_open_bytes(t, cfg, map.data, map.bytes, NULL, 0);
    pkv__file_map_close(&map, &t->alloc);
    if (status != PKV_OK || strcmp(t->source, "tokenizer.json") != 0) return status;
    return open_json_config(t, path);
}

/* ---------------------------------------------------------------- folders */

static int rank_of(const char *name)
{
    if (strcmp(name, "tokenizer.json") == 0) return 7;
    if (strcmp(name, "tokenizer.model") == 0) return 6;
    if (is_model_name(name)) return 5;
    if (ends_with(name, ".tiktoken")) return 4;
    if (strcmp(name, MERGES) == 0) return 3;
    if (ends_with(name, ".gguf"))
        return !strstr(name, "-of-") || strstr(name, "-00001-of-") ? 2 : 0;
    return strncmp(name, "tok", 3) == 0 && ends_with(name, ".bin") ? 1 : 0;
}

static pkv_status choose(const pkv_tokenizer *t, const char *folder, char *chosen, size_t cap)
{
    int best = 0, n_best = 0;
    DIR *dir = opendir(folder);
    if (!dir) return pkv__refuse(&t->log, PKV_E_IO, "%.160s: %s", folder, strerror(errno));
    for (const struct dirent *entry; (entry = readdir(dir));) {
        const int rank = rank_of(entry->d_name);
        if (rank == 0 || rank < best || strlen(entry->d_name) >= cap) continue;
        n_best = rank > best ? 1 : n_best + 1;
        best = rank;
        memcpy(chosen, entry->d_name, strlen(entry->d_name) + 1);
    }
    closedir(dir);
    if (best == 0)
        return pkv__refuse(&t->log, PKV_E_IO,
                           "%.80s holds no tokenizer.json, *.model, *.tiktoken, " MERGES
                           ", *.gguf or tok*.bin",
                           folder);
    if (n_best > 1)
        return pkv__refuse(&t->log, PKV_E_INVALID_ARG, "%.160s holds %d tokenizers: name one",
                           folder, n_best);
    return PKV_OK;
}

pkv_status pkv__tok_open_path(pkv_tokenizer *t, const pkv_tokenizer_config *cfg)
{
    struct stat info;
    char chosen[512];
    size_t bytes;
    if (stat(cfg->path, &info) != 0)
        return pkv__refuse(&t->log, PKV_E_IO, "%.160s: %s", cfg->path, strerror(errno));
    if (!S_ISDIR(info.st_mode)) return open_file(t, cfg, cfg->path);
    pkv_status status = choose(t, cfg->path, chosen, sizeof(chosen));
    if (status != PKV_OK) return status;
    char *path = pkv__path_join(&t->alloc, cfg->path, true, chosen, &bytes);
    if (!path) return PKV_E_NO_MEMORY;
    status = open_file(t, cfg, path);
    pkv__free(&t->alloc, path, bytes);
    return status;
}
