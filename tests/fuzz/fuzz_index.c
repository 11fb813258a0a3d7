/* Fuzz target: model.safetensors.index.json, beside two shards that are right. Names in it lead
 * nowhere but to files beside it; what opens has every tensor that it names, where it says. */
#include "fuzz_hooks.h"

#include "model/tensor_internal.h"

#include <string.h>
#include <unistd.h>

#define SHARD(name)                                                                                \
    "\107\0\0\0\0\0\0\0"                                                                           \
    "{\"" name "\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},\"" name               \
    "2\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[4,4]}}1234"
#define INDEX "model.safetensors.index.json"

static char folder[64];

static void path_of(const char *name, char out[128])
{
    snprintf(out, 128, "%s/%s", folder, name);
}

static void write_file(const char *name, const void *data, size_t n)
{
    char path[128];
    path_of(name, path);
    FILE *file = fopen(path, "wb");
    FUZZ_REQUIRE(file && fwrite(data, 1, n, file) == n && fclose(file) == 0);
}

static void remove_folder(void)
{
    static const char *const names[] = { "a.safetensors", "b.safetensors", "c", INDEX };
    char path[128];
    for (size_t k = 0; k < sizeof(names) / sizeof(names[0]); k++) {
        path_of(names[k], path);
        unlink(path);
    }
    rmdir(folder);
}

/* A shard as it should be: its length is counted here. */
static void write_shard(const char *name, const char *shard, size_t n)
{
    uint8_t copy[256];
    const uint64_t length = n - 8 - 4;
    FUZZ_REQUIRE(n <= sizeof(copy));
    memcpy(copy, shard, n);
    memcpy(copy, &length, sizeof(length));
    write_file(name, copy, n);
}

static void make_folder(void)
{
    static bool made; /* once for the process */
    if (made) return;
    made = true;
    /* In memory, where there is such a place: a file is written for every input. */
    snprintf(folder, sizeof(folder), "%s/pkv_fuzz_index_XXXXXX",
             access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    FUZZ_REQUIRE(mkdtemp(folder));
    atexit(remove_folder);
    write_shard("a.safetensors", SHARD("a"), sizeof(SHARD("a")) - 1);
    write_shard("b.safetensors", SHARD("b"), sizeof(SHARD("b")) - 1);
    write_file("c", "no shard", 8);
}

static void check_file(const pkv__tensor_file *file)
{
    static const char *const names[] = { "a", "a2", "b", "b2" };
    const int64_t n = pkv__tensor_file_count(file);
    FUZZ_REQUIRE(n == 2 || n == 4);
    int found = 0;
    for (int k = 0; k < 4; k++) found += pkv__tensor_file_find(file, names[k]) != NULL;
    FUZZ_REQUIRE(found == n && strcmp(pkv__tensor_file_format(file), "safetensors") == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[128];
    fuzz_memory memory = { 0, 0 };
    fuzz_log lines = { 0, 0 };
    pkv__tensor_file *file = NULL;
    make_folder();
    write_file(INDEX, data, size);
    path_of(INDEX, path);
    const pkv__tensor_file_config cfg = { .path = path,
                                          .log = fuzz_logger(&lines),
                                          .alloc = fuzz_allocator(&memory) };
    const pkv_status status = pkv__tensor_file_open(&cfg, &file);
    FUZZ_REQUIRE(status == PKV_OK || status == PKV_E_FORMAT || status == PKV_E_UNSUPPORTED ||
                 status == PKV_E_IO);
    FUZZ_REQUIRE(lines.n_lines == (status != PKV_OK) && (status == PKV_OK) == (file != NULL));
    if (file) check_file(file);
    pkv__tensor_file_close(file);
    FUZZ_REQUIRE(memory.live == 0);
    return 0;
}

const fuzz_seed fuzz_seeds[] = {
    FUZZ_SEED(""),
    FUZZ_SEED("{\"weight_map\":{\"a\":\"a.safetensors\"}}"),
    FUZZ_SEED("{\"metadata\":{\"total_size\":8},\"weight_map\":{\"a\":\"a.safetensors\",\"a2\":\"a."
              "safetensors\","
              "\"b\":\"b.safetensors\"}}"),
    FUZZ_SEED("{\"weight_map\":{\"a\":\"b.safetensors\",\"b\":\"c\"}}"),
    FUZZ_SEED("{\"weight_map\":{\"a\":\"../a.safetensors\"}}"),
    FUZZ_SEED("{\"weight_map\":{\"a\":\"" INDEX "\"}}"),
};
const size_t fuzz_n_seeds = sizeof(fuzz_seeds) / sizeof(fuzz_seeds[0]);
const char *const fuzz_words[] = { "{",    "}",       "[",    "\"",    "\"a\":\"a.safetensors\"",
                                   ":",    ",",       "..",   "/",     "\"b2\":\"b.safetensors\"",
                                   "\\\\", "\\u0000", "null", "\"c\"", "\"weight_map\":{",
                                   ".",    "\377" };
const size_t fuzz_n_words = sizeof(fuzz_words) / sizeof(fuzz_words[0]);
