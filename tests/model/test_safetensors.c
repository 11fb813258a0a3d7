/* safetensors: what the format promises is read, everything else refused with file and place. */
#include "model_test.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#define NAME "a.safetensors"
#define T(name, dtype, shape, begin, end)                                                          \
    "\"" name "\":{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":[" #begin "," #end \
    "]}"
#define F "\"dtype\":\"F32\""
#define S "\"shape\":[2]"
#define O "\"data_offsets\":[0,8]"

static void build(bytes *b, const char *header, size_t data_bytes)
{
    put_u64(b, strlen(header));
    put(b, header, strlen(header));
    for (size_t k = 0; k < data_bytes; k++) put(b, &(uint8_t){ (uint8_t)(k + 1) }, 1);
}

/* ---------------------------------------------------------------- good files */

static void all_is_read(void **state)
{
    (void)state;
    bytes b = { 0 };
    build(
        &b,
        "{\"__metadata__\":{\"who\":\"me\",\"\\u00e9\":\"\"}," T("m", "BF16", "[2,3]", 8, 20) "," T(
            "s", "F32", "[]", 4, 8) "," T("z", "F16", "[0,7]", 20,
                                          20) "," T("i", "I8", "[4]", 0, 4) "," T("four", "F64",
                                                                                  "[1,1,1,1]", 20,
                                                                                  28) "}   ",
        28);
    pkv__tensor_file *file = open_memory(&b, NAME);
    assert_int_equal(pkv__tensor_file_count(file), 5);
    const pkv__tensor *t = pkv__tensor_file_find(file, "m");
    assert_true(t && t->type == PKV__T_BF16 && t->n_dims == 2 && t->dims[0] == 2 &&
                t->dims[1] == 3);
    assert_int_equal(t->bytes, 12);
    assert_int_equal(t->data[0], 9); /* the ninth data byte */
    t = pkv__tensor_file_find(file, "s");
    assert_true(t && t->n_dims == 1 && t->dims[0] == 1 && t->data[0] == 5);
    t = pkv__tensor_file_find(file, "z");
    assert_true(t && t->bytes == 0 && t->n_dims == 2 && t->dims[0] == 0 && t->dims[1] == 7);
    t = pkv__tensor_file_find(file, "i");
    assert_true(t && t->type == PKV__T_OTHER);
    assert_string_equal(t->type_name, "I8");
    t = pkv__tensor_file_find(file, "four");
    assert_true(t && t->n_dims == 4);
    const pkv__meta *m = pkv__tensor_file_meta(file, "who");
    assert_true(m && m->type == PKV__META_TEXT && m->text_bytes == 2);
    assert_non_null(pkv__tensor_file_meta(file, "\xc3\xa9"));
    pkv__tensor_file_close(file);
    bytes_free(&b);
}

static void empty_model(void **state)
{
    (void)state;
    bytes b = { 0 };
    build(&b, "{}", 0);
    pkv__tensor_file *file = open_memory(&b, NAME);
    assert_int_equal(pkv__tensor_file_count(file), 0);
    assert_null(pkv__tensor_file_find(file, "a"));
    assert_null(pkv__tensor_file_meta(file, "a"));
    pkv__tensor_file_close(file);
    bytes_free(&b);
}

/* A header of any length puts the data anywhere; nothing may load from it with a type. */
static void odd_places(void **state)
{
    (void)state;
    for (int pad = 0; pad < 8; pad++) {
        bytes b = { 0 };
        char header[256];
        const float want[2] = { 1.5f, -3.25f };
        float got[2];
        snprintf(header, sizeof(header), "{%s}%.*s", T("w", "F32", "[2]", 0, 8), pad, "        ");
        build(&b, header, 0);
        put(&b, want, sizeof(want));
        pkv__tensor_file *file = open_memory(&b, NAME);
        const pkv__tensor *t = pkv__tensor_file_find(file, "w");
        assert_int_equal(pkv__tensor_floats(t, 0, 2, got), PKV_OK);
        assert_memory_equal(got, want, sizeof(want));
        pkv__tensor_file_close(file);
        bytes_free(&b);
    }
}

/* ---------------------------------------------------------------- attacks */

static const struct {
    const char *what, *header;
    size_t data_bytes;
    pkv_status status;
    const char *says;
} attacks[] = {
    { "no end", "{", 0, PKV_E_FORMAT, "not JSON" },
    { "text after the object", "{} x", 0, PKV_E_FORMAT, "not JSON" },
    { "a zero byte in a name", "{\"a\\u0000b\":{" F "," S "," O "}}", 8, PKV_E_FORMAT, "not JSON" },
    { "an invalid character", "{\"\xff\":{" F "," S "," O "}}", 8, PKV_E_FORMAT, "not JSON" },
    { "a name twice", "{" T("a", "F32", "[1]", 0, 4) "," T("a", "F32", "[1]", 4, 8) "}", 8,
      PKV_E_FORMAT, "duplicate" },
    { "dtype twice", "{\"a\":{" F "," F "," S "," O "}}", 8, PKV_E_FORMAT, "duplicate" },
    { "an empty name", "{" T("", "F32", "[2]", 0, 8) "}", 8, PKV_E_FORMAT, "empty" },
    { "a tensor that is a number", "{\"a\":7}", 0, PKV_E_FORMAT, "no object" },
    { "no dtype", "{\"a\":{" S "," O "}}", 8, PKV_E_FORMAT, "dtype" },
    { "dtype is a number", "{\"a\":{\"dtype\":32," S "," O "}}", 8, PKV_E_FORMAT, "dtype" },
    { "an unknown dtype", "{" T("a", "F31", "[2]", 0, 8) "}", 8, PKV_E_UNSUPPORTED, "F31" },
    { "no shape", "{\"a\":{" F "," O "}}", 8, PKV_E_FORMAT, "shape" },
    { "shape is a number", "{" T("a", "F32", "2", 0, 8) "}", 8, PKV_E_FORMAT, "shape" },
    { "a negative dimension", "{" T("a", "F32", "[-2]", 0, 8) "}", 8, PKV_E_FORMAT, "dimension 0" },
    { "two negative dimensions", "{" T("a", "F32", "[-1,-2]", 0, 8) "}", 8, PKV_E_FORMAT,
      "dimension 0" },
    { "a real dimension", "{" T("a", "F32", "[2.0]", 0, 8) "}", 8, PKV_E_FORMAT, "dimension 0" },
    { "a dimension in quotes", "{" T("a", "F32", "[\"2\"]", 0, 8) "}", 8, PKV_E_FORMAT,
      "dimension 0" },
    { "a dimension of 2^64", "{" T("a", "F32", "[18446744073709551616]", 0, 8) "}", 8, PKV_E_FORMAT,
      "not JSON" },
    { "a product of 2^64 that wraps to 0", "{" T("a", "F32", "[4294967296,4294967296]", 0, 0) "}",
      0, PKV_E_FORMAT, "overflows" },
    { "2^62 elements, whose bytes wrap to 0", "{" T("a", "F32", "[4611686018427387904]", 0, 0) "}",
      0, PKV_E_FORMAT, "do not hold" },
    { "zero after an overflow", "{" T("a", "F32", "[4294967296,4294967296,0]", 0, 0) "}", 0,
      PKV_E_FORMAT, "overflows" },
    { "five dimensions", "{" T("a", "F32", "[1,1,1,1,2]", 0, 8) "}", 8, PKV_E_UNSUPPORTED,
      "5 dimensions" },
    { "no offsets", "{\"a\":{" F "," S "}}", 8, PKV_E_FORMAT, "data_offsets" },
    { "one offset", "{\"a\":{" F "," S ",\"data_offsets\":[0]}}", 8, PKV_E_FORMAT, "data_offsets" },
    { "three offsets", "{\"a\":{" F "," S ",\"data_offsets\":[0,8,8]}}", 8, PKV_E_FORMAT,
      "data_offsets" },
    { "a real offset", "{\"a\":{" F "," S ",\"data_offsets\":[0,8.0]}}", 8, PKV_E_FORMAT,
      "data_offsets" },
    { "offsets backwards", "{" T("a", "F32", "[2]", 8, 0) "}", 8, PKV_E_FORMAT, "data_offsets" },
    { "a negative offset", "{" T("a", "F32", "[2]", -8, 0) "}", 8, PKV_E_FORMAT, "data_offsets" },
    { "past the end", "{" T("a", "F32", "[2]", 8, 16) "}", 8, PKV_E_FORMAT, "data_offsets" },
    { "one byte past the end", "{" T("a", "F32", "[2]", 0, 8) "}", 7, PKV_E_FORMAT,
      "data_offsets" },
    { "more than the shape", "{" T("a", "F32", "[1]", 0, 8) "}", 8, PKV_E_FORMAT, "do not hold" },
    { "less than the shape", "{" T("a", "F32", "[3]", 0, 8) "}", 8, PKV_E_FORMAT, "do not hold" },
    { "half a byte", "{" T("a", "F4", "[3]", 0, 1) "}", 1, PKV_E_FORMAT, "do not hold" },
    { "a zero shape with bytes", "{" T("a", "F32", "[0]", 0, 4) "}", 4, PKV_E_FORMAT,
      "do not hold" },
    { "a scalar without bytes", "{" T("a", "F32", "[]", 0, 0) "}", 0, PKV_E_FORMAT, "do not hold" },
    { "an overlap", "{" T("a", "F32", "[2]", 0, 8) "," T("b", "F32", "[2]", 4, 12) "}", 12,
      PKV_E_FORMAT, "overlaps" },
    { "the same place", "{" T("a", "F32", "[2]", 0, 8) "," T("b", "F32", "[2]", 0, 8) "}", 8,
      PKV_E_FORMAT, "overlaps" },
    { "a zero shape inside another",
      "{" T("a", "F32", "[2]", 0, 8) "," T("b", "F32", "[0]", 4, 4) "}", 8, PKV_E_FORMAT,
      "overlaps" },
    { "a hole at the beginning", "{" T("a", "F32", "[1]", 4, 8) "}", 8, PKV_E_FORMAT, "hole" },
    { "a hole between", "{" T("a", "F32", "[1]", 0, 4) "," T("b", "F32", "[1]", 8, 12) "}", 12,
      PKV_E_FORMAT, "hole" },
    { "bytes at the end", "{" T("a", "F32", "[1]", 0, 4) "}", 5, PKV_E_FORMAT, "no tensor" },
    { "bytes of no tensor", "{}", 1, PKV_E_FORMAT, "no tensor" },
    { "metadata is a list", "{\"__metadata__\":[]}", 0, PKV_E_FORMAT, "no object" },
    { "metadata holds a number", "{\"__metadata__\":{\"a\":1}}", 0, PKV_E_FORMAT, "texts" },
    { "metadata with an empty key", "{\"__metadata__\":{\"\":\"x\"}}", 0, PKV_E_FORMAT, "empty" },
};

static void attacks_are_refused(void **state)
{
    (void)state;
    for (size_t k = 0; k < PKV_ARRAY_LEN(attacks); k++) {
        bytes b = { 0 };
        build(&b, attacks[k].header, attacks[k].data_bytes);
        expect_refused(&b, NAME, attacks[k].what, attacks[k].status, attacks[k].says);
        bytes_free(&b);
    }
}

/* The length alone. */
static void bad_lengths(void **state)
{
    (void)state;
    static const struct {
        const char *what;
        uint64_t length;
    } lengths[] = {
        { "one too long", 11 },
        { "2^63", (uint64_t)1 << 63 },
        { "wraps with the 8 bytes before it", UINT64_MAX - 7 },
        { "all ones", UINT64_MAX },
        { "nothing", 0 },
        { "above the limit", 100000001 },
    };
    for (size_t k = 0; k < PKV_ARRAY_LEN(lengths); k++) {
        bytes b = { 0 };
        put_u64(&b, lengths[k].length);
        put(&b, "{        }", 10);
        expect_refused(&b, NAME, lengths[k].what, PKV_E_FORMAT, "header");
        bytes_free(&b);
    }
    bytes b = { 0 };
    put(&b, "1234567", 7);
    expect_refused(&b, NAME, "seven bytes", PKV_E_FORMAT, "too short");
    bytes_free(&b);
    build(&b, "[1, 2, 3]", 0);
    expect_refused(&b, NAME, "a list", PKV_E_FORMAT, "no {");
    bytes_free(&b);
    build(&b, " {}", 0);
    expect_refused(&b, NAME, "a blank first", PKV_E_FORMAT, "no {");
    bytes_free(&b);
}

static void deep_nesting(void **state)
{
    (void)state;
    bytes b = { 0 }, header = { 0 };
    put(&header, "{\"a\":", 5);
    for (int k = 0; k < 100000; k++) put(&header, "[", 1);
    put_u64(&b, header.n);
    put(&b, header.data, header.n);
    expect_refused(&b, NAME, "100,000 brackets", PKV_E_FORMAT, "not JSON");
    bytes_free(&b);
    bytes_free(&header);
}

static void every_length_of_a_file(void **state)
{
    (void)state;
    bytes b = { 0 };
    build(&b, "{" T("a", "F32", "[2]", 0, 8) "," T("b", "F16", "[1]", 8, 10) "}", 10);
    pkv__tensor_file_close(open_memory(&b, NAME));
    const size_t whole = b.n;
    for (size_t n = 1; n < whole; n++) {
        bytes part = { 0 };
        put(&part, b.data, n); /* of its own, so that a sanitizer sees the end */
        expect_refused(&part, NAME, "cut", PKV_E_FORMAT, "");
        bytes_free(&part);
    }
    bytes_free(&b);
}

static void no_memory(void **state)
{
    (void)state;
    bytes b = { 0 };
    build(&b, "{\"__metadata__\":{\"k\":\"v\"}," T("a", "F32", "[2]", 0, 8) "}", 8);
    for (long fail_at = 0;; fail_at++) {
        counted_memory memory;
        pkv__tensor_file *file = NULL;
        const pkv_allocator alloc = count_memory(&memory, fail_at);
        const pkv_status status =
            pkv__tensor_file_open_memory(b.data, b.n, NAME, NULL, &alloc, &file);
        if (status == PKV_OK) {
            assert_true(fail_at >= 5); /* file, parts, path, texts, two tables */
            pkv__tensor_file_close(file);
        } else assert_int_equal(status, PKV_E_NO_MEMORY);
        assert_int_equal(memory.n_live, 0);
        assert_int_equal(memory.live_bytes, 0);
        if (status == PKV_OK) break;
        assert_null(file);
    }
    bytes_free(&b);
}

/* ---------------------------------------------------------------- shards */

#define SHARD_A "{\"__metadata__\":{\"format\":\"pt\"}," T("a", "F32", "[2]", 0, 8) "}"
#define SHARD_B "{\"__metadata__\":{\"format\":\"pt\"}," T("b", "F32", "[1]", 0, 4) "}"

static void write_shard(const char *folder, const char *name, const char *header, size_t data_bytes)
{
    bytes b = { 0 };
    build(&b, header, data_bytes);
    write_bytes(folder, name, b.data, b.n);
    bytes_free(&b);
}

static pkv_status open_index(const char *index, last_log *log, pkv__tensor_file **file)
{
    char folder[512];
    scratch_folder(folder, sizeof(folder));
    write_bytes(folder, "model.safetensors.index.json", index, strlen(index));
    write_shard(folder, "one.safetensors", SHARD_A, 8);
    write_shard(folder, "two.safetensors", SHARD_B, 4);
    write_shard(folder, "again.safetensors", SHARD_A, 8);
    write_bytes(folder, "broken.safetensors", "nothing", 7);
    const pkv__tensor_file_config cfg = { .path = folder, .log = log_to(log) };
    const pkv_status status = pkv__tensor_file_open(&cfg, file);
    scratch_remove(folder); /* a mapping outlives the name */
    return status;
}

#define MAP(pairs) "{\"metadata\":{\"total_size\":12},\"weight_map\":{" pairs "}}"

static void shards(void **state)
{
    (void)state;
    last_log log;
    pkv__tensor_file *file = NULL;
    const pkv_status status =
        open_index(MAP("\"a\":\"one.safetensors\",\"b\":\"two.safetensors\""), &log, &file);
    if (status != PKV_OK) fail_msg("%s", log.text);
    assert_int_equal(pkv__tensor_file_count(file), 2);
    assert_int_equal(pkv__tensor_file_find(file, "a")->bytes, 8);
    assert_int_equal(pkv__tensor_file_find(file, "b")->bytes, 4);
    assert_string_equal(pkv__tensor_file_meta(file, "format")->text, "pt");
    pkv__tensor_file_close(file);
}

static void shards_refused(void **state)
{
    (void)state;
    static const struct {
        const char *index;
        pkv_status status;
        const char *says;
    } bad[] = {
        { MAP("\"a\":\"../one.safetensors\""), PKV_E_FORMAT, "no file beside" },
        { MAP("\"a\":\"sub/one.safetensors\""), PKV_E_FORMAT, "no file beside" },
        { MAP("\"a\":\"sub\\\\one.safetensors\""), PKV_E_FORMAT, "no file beside" },
        { MAP("\"a\":\"/etc/passwd\""), PKV_E_FORMAT, "no file beside" },
        { MAP("\"a\":\"..\""), PKV_E_FORMAT, "no file beside" },
        { MAP("\"a\":\".\""), PKV_E_FORMAT, "no file beside" },
        { MAP("\"a\":\"\""), PKV_E_FORMAT, "no file beside" },
        { MAP("\"a\":7"), PKV_E_FORMAT, "no file beside" },
        { MAP("\"a\":\"one.safetensors\",\"b\":\"gone.safetensors\""), PKV_E_IO,
          "gone.safetensors" },
        { MAP("\"a\":\"broken.safetensors\""), PKV_E_FORMAT, "broken.safetensors" },
        { MAP("\"a\":\"one.safetensors\",\"b\":\"again.safetensors\""), PKV_E_FORMAT, "twice" },
        { MAP("\"a\":\"two.safetensors\",\"b\":\"one.safetensors\""), PKV_E_FORMAT,
          "not in the shard" },
        { MAP("\"c\":\"one.safetensors\""), PKV_E_FORMAT, "not in the shard" },
        { MAP("\"a\":\"one.safetensors\",\"a\":\"one.safetensors\""), PKV_E_FORMAT, "not JSON" },
        { MAP(""), PKV_E_FORMAT, "no weight_map" },
        { "{\"weight_map\":[]}", PKV_E_FORMAT, "no weight_map" },
        { "{}", PKV_E_FORMAT, "no weight_map" },
        { "[]", PKV_E_FORMAT, "no JSON object" },
        { "x", PKV_E_FORMAT, "not JSON" },
    };
    for (size_t k = 0; k < PKV_ARRAY_LEN(bad); k++) {
        last_log log;
        pkv__tensor_file *file = NULL;
        const pkv_status status = open_index(bad[k].index, &log, &file);
        if (status != bad[k].status || !strstr(log.text, bad[k].says))
            fail_msg("%s: %s \"%s\"", bad[k].index, pkv_status_name(status), log.text);
        assert_null(file);
    }
}

/* ---------------------------------------------------------------- files and folders */

static pkv_status open_path(const char *path, last_log *log)
{
    pkv__tensor_file *file = NULL;
    const pkv__tensor_file_config cfg = { .path = path, .log = log_to(log) };
    const pkv_status status = pkv__tensor_file_open(&cfg, &file);
    if (status == PKV_OK) pkv__tensor_file_close(file);
    return status;
}

static void what_is_no_weight_file(void **state)
{
    (void)state;
    char folder[512], path[1024];
    last_log log;
    scratch_folder(folder, sizeof(folder));
    assert_int_equal(open_path(folder, &log), PKV_E_IO);
    assert_non_null(strstr(log.text, "holds no"));
    snprintf(path, sizeof(path), "%s/none.gguf", folder);
    assert_int_equal(open_path(path, &log), PKV_E_IO);
    write_bytes(folder, "none.gguf", "", 0);
    assert_int_equal(open_path(path, &log), PKV_E_FORMAT);
    assert_non_null(strstr(log.text, "empty"));
    unlink(path);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(open_path(path, &log), PKV_E_IO); /* and does not wait for a writer */
    assert_non_null(strstr(log.text, "regular"));
    assert_int_equal(open_path("/dev/null", &log), PKV_E_IO);
    write_bytes(folder, "text.bin", "what is this, it is no weights at all", 37);
    snprintf(path, sizeof(path), "%s/text.bin", folder);
    assert_int_equal(open_path(path, &log), PKV_E_FORMAT);
    scratch_remove(folder);
}

static void which_file_of_a_folder(void **state)
{
    (void)state;
    char folder[512], path[1024];
    last_log log;
    scratch_folder(folder, sizeof(folder));
    write_bytes(folder, "tok512.bin", "vocabulary", 10);
    assert_int_equal(open_path(folder, &log), PKV_E_IO);
    write_shard(folder, "one.bin", SHARD_A, 8); /* by content, not by name */
    assert_int_equal(open_path(folder, &log), PKV_OK);
    write_shard(folder, "two.bin", SHARD_A, 8);
    assert_int_equal(open_path(folder, &log), PKV_E_INVALID_ARG);
    assert_non_null(strstr(log.text, "2 weight files"));
    write_shard(folder, "model.safetensors", SHARD_A, 8);
    assert_int_equal(open_path(folder, &log), PKV_OK);
    snprintf(path, sizeof(path), "%s/", folder);
    assert_int_equal(open_path(path, &log), PKV_OK);
    scratch_remove(folder);
}

static void a_file_that_changed(void **state)
{
    (void)state;
    char folder[512], path[1024];
    last_log log;
    pkv__file_map map;
    const pkv_logger logger = log_to(&log);
    scratch_folder(folder, sizeof(folder));
    write_shard(folder, NAME, SHARD_A, 8);
    snprintf(path, sizeof(path), "%s/%s", folder, NAME);
    for (int no_mmap = 0; no_mmap < 2; no_mmap++) {
        assert_int_equal(pkv__file_map_open(path, no_mmap, 0, &logger, NULL, &map), PKV_OK);
        assert_int_equal(pkv__file_map_check(&map, &logger), PKV_OK);
        assert_int_equal(truncate(path, (off_t)map.bytes + 1), 0);
        assert_int_equal(pkv__file_map_check(&map, &logger), PKV_E_IO);
        assert_non_null(strstr(log.text, "changed"));
        assert_int_equal(truncate(path, (off_t)map.bytes), 0); /* the time still differs */
        map.mtime_ns ^= 1;
        assert_int_equal(pkv__file_map_check(&map, &logger), PKV_E_IO);
        pkv__file_map_close(&map, NULL);
    }
    assert_int_equal(pkv__file_map_open(path, true, 10, &logger, NULL, &map), PKV_E_LIMIT);
    assert_int_equal(pkv__file_map_open(path, true, 0, &logger, NULL, &map), PKV_OK);
    write_shard(folder, "other", SHARD_A, 8);
    char other[1024];
    snprintf(other, sizeof(other), "%s/other", folder);
    const struct timespec times[2] = { { 0, UTIME_NOW }, { map.mtime_s, map.mtime_ns } };
    assert_int_equal(utimensat(AT_FDCWD, other, times, 0), 0); /* of the same size and time */
    assert_int_equal(rename(other, path), 0);
    assert_int_equal(pkv__file_map_check(&map, &logger), PKV_E_IO);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(pkv__file_map_check(&map, &logger), PKV_E_IO);
    pkv__file_map_close(&map, NULL);
    scratch_remove(folder);
}

/* Grows the file by a byte when memory is asked for. */
typedef struct meddler {
    const char *path;
    long n_allocs, at;
} meddler;

static void *meddle_alloc(void *ctx, size_t n, size_t align)
{
    meddler *m = ctx;
    if (m->n_allocs++ == m->at) {
        FILE *file = fopen(m->path, "ab");
        assert_non_null(file);
        fputc('x', file);
        fclose(file);
    }
    if (align < sizeof(void *)) align = sizeof(void *);
    return aligned_alloc(align, (n + align - 1) / align * align);
}

static void meddle_free(void *ctx, void *ptr, size_t n)
{
    (void)ctx;
    (void)n;
    free(ptr);
}

static void a_file_still_being_written(void **state)
{
    (void)state;
    char folder[512], path[1024];
    scratch_folder(folder, sizeof(folder));
    snprintf(path, sizeof(path), "%s/%s", folder, NAME);
    for (long at = 2; at < 6; at++) { /* after it was opened: path, texts, tables */
        last_log log;
        meddler m = { path, 0, at };
        pkv__tensor_file *file = NULL;
        write_shard(folder, NAME, SHARD_A, 8);
        const pkv__tensor_file_config cfg = { .path = path,
                                              .log = log_to(&log),
                                              .alloc = { meddle_alloc, meddle_free, &m } };
        assert_int_equal(pkv__tensor_file_open(&cfg, &file), PKV_E_IO);
        assert_non_null(strstr(log.text, "changed"));
        assert_true(m.n_allocs > at);
    }
    scratch_remove(folder);
}

/* A file of holes: long, but nothing is read of it. */
static void longest_header(void **state)
{
    (void)state;
    char folder[512], path[1024];
    last_log log;
    const uint64_t length = 100000001;
    bytes b = { 0 };
    scratch_folder(folder, sizeof(folder));
    snprintf(path, sizeof(path), "%s/%s", folder, NAME);
    put_u64(&b, length);
    put(&b, "{}", 2);
    write_bytes(folder, NAME, b.data, b.n);
    bytes_free(&b);
    assert_int_equal(truncate(path, (off_t)length + 8), 0);
    assert_int_equal(open_path(path, &log), PKV_E_FORMAT);
    assert_non_null(strstr(log.text, "a header of 100000001 bytes"));
    scratch_remove(folder);
}

static void arguments(void **state)
{
    (void)state;
    pkv__tensor_file *file = NULL;
    const pkv__tensor_file_config none = { .path = NULL };
    assert_int_equal(pkv__tensor_file_open(NULL, &file), PKV_E_INVALID_ARG);
    assert_int_equal(pkv__tensor_file_open(&none, &file), PKV_E_INVALID_ARG);
    counted_memory memory;
    pkv__tensor_file_config half = { .path = "x", .alloc = count_memory(&memory, -1) };
    half.alloc.free = NULL;
    assert_int_equal(pkv__tensor_file_open(&half, &file), PKV_E_INVALID_ARG);
    pkv__tensor_file_close(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_is_read),
        cmocka_unit_test(empty_model),
        cmocka_unit_test(odd_places),
        cmocka_unit_test(attacks_are_refused),
        cmocka_unit_test(bad_lengths),
        cmocka_unit_test(deep_nesting),
        cmocka_unit_test(every_length_of_a_file),
        cmocka_unit_test(no_memory),
        cmocka_unit_test(shards),
        cmocka_unit_test(shards_refused),
        cmocka_unit_test(what_is_no_weight_file),
        cmocka_unit_test(which_file_of_a_folder),
        cmocka_unit_test(a_file_that_changed),
        cmocka_unit_test(a_file_still_being_written),
        cmocka_unit_test(longest_header),
        cmocka_unit_test(arguments),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
