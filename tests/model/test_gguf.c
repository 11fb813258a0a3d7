/* GGUF: what the format promises is read, everything else refused with file and place. */
#include "model_test.h"

#include <unistd.h>

#define NAME "a.gguf"

enum { U8, I8, U16, I16, U32, I32, F32, BOOL, TEXT, ARRAY, U64, I64, F64 };
enum { T_F32 = 0, T_F16 = 1, T_Q4_0 = 2, T_Q8_0 = 8, T_Q6_K = 14, T_BF16 = 30 };

static void put_text(bytes *b, const char *text)
{
    put_u64(b, strlen(text));
    put(b, text, strlen(text));
}

static void put_head(bytes *b, uint32_t version, uint64_t n_tensors, uint64_t n_keys)
{
    put(b, "GGUF", 4);
    put_u32(b, version);
    put_u64(b, n_tensors);
    put_u64(b, n_keys);
}

static void put_key(bytes *b, const char *key, uint32_t type)
{
    put_text(b, key);
    put_u32(b, type);
}

static void put_key_u32(bytes *b, const char *key, uint32_t v)
{
    put_key(b, key, U32);
    put_u32(b, v);
}

static void put_tensor(bytes *b, const char *name, uint32_t n_dims, const uint64_t *dims,
                       uint32_t type, uint64_t offset)
{
    put_text(b, name);
    put_u32(b, n_dims);
    put(b, dims, n_dims * sizeof(*dims));
    put_u32(b, type);
    put_u64(b, offset);
}

static void put_data(bytes *b, size_t alignment, size_t n)
{
    put_zeros(b, (alignment - b->n % alignment) % alignment);
    for (size_t k = 0; k < n; k++) put(b, &(uint8_t){ (uint8_t)(k + 1) }, 1);
}

/* ---------------------------------------------------------------- good files */

static void put_scalars(bytes *b)
{
    put_key(b, "u8", U8), put(b, "\xff", 1);
    put_key(b, "i8", I8), put(b, "\xff", 1);
    put_key(b, "u16", U16), put(b, "\xfe\xff", 2);
    put_key(b, "i16", I16), put(b, "\xfe\xff", 2);
    put_key(b, "u32", U32), put_u32(b, 0xffffffff);
    put_key(b, "i32", I32), put_u32(b, 0xffffffff);
    put_key(b, "u64", U64), put_u64(b, INT64_MAX);
    put_key(b, "i64", I64), put_u64(b, (uint64_t)INT64_MIN);
    put_key(b, "f32", F32), put(b, &(float){ 0.1f }, 4);
    put_key(b, "f64", F64), put(b, &(double){ 0.1 }, 8);
    put_key(b, "yes", BOOL), put(b, "\1", 1);
    put_key(b, "text", TEXT), put_text(b, "some text");
    put_key(b, "none", TEXT), put_text(b, "");
}
#define N_SCALARS 13

static void scalars(void **state)
{
    (void)state;
    for (uint32_t version = 2; version <= 3; version++) {
        bytes b = { 0 };
        put_head(&b, version, 0, N_SCALARS);
        put_scalars(&b);
        pkv__tensor_file *f = open_memory(&b, NAME);
        static const struct {
            const char *key;
            int64_t value;
        } ints[] = { { "u8", 255 },           { "i8", -1 },
                     { "u16", 65534 },        { "i16", -2 },
                     { "u32", 0xffffffffLL }, { "i32", -1 },
                     { "u64", INT64_MAX },    { "i64", INT64_MIN } };
        for (size_t k = 0; k < PKV_ARRAY_LEN(ints); k++) {
            const pkv__meta *m = pkv__tensor_file_meta(f, ints[k].key);
            assert_true(m && m->type == PKV__META_INT && m->i == ints[k].value);
        }
        assert_true(pkv__tensor_file_meta(f, "f32")->d == (double)0.1f);
        assert_true(pkv__tensor_file_meta(f, "f64")->d == 0.1);
        assert_true(pkv__tensor_file_meta(f, "yes")->type == PKV__META_BOOL);
        assert_int_equal(pkv__tensor_file_meta(f, "yes")->i, 1);
        assert_string_equal(pkv__tensor_file_meta(f, "text")->text, "some text");
        assert_int_equal(pkv__tensor_file_meta(f, "text")->text_bytes, 9);
        assert_string_equal(pkv__tensor_file_meta(f, "none")->text, "");
        pkv__tensor_file_close(f);
        bytes_free(&b);
    }
}

static void lists(void **state)
{
    (void)state;
    bytes b = { 0 };
    pkv__meta_array list;
    put_head(&b, 3, 0, 3);
    put_key(&b, "numbers", ARRAY), put_u32(&b, I16), put_u64(&b, 3), put(&b, "\1\0\2\0\3\0", 6);
    put_key(&b, "texts", ARRAY), put_u32(&b, TEXT), put_u64(&b, 2), put_text(&b, "ab"),
        put_text(&b, "");
    put_key(&b, "empty", ARRAY), put_u32(&b, TEXT), put_u64(&b, 0);
    pkv__tensor_file *f = open_memory(&b, NAME);
    assert_true(pkv__tensor_file_array(f, "numbers", &list));
    assert_true(list.gguf_type == I16 && list.n == 3 && list.bytes == 6);
    assert_memory_equal(list.data, "\1\0\2\0\3\0", 6);
    assert_true(pkv__tensor_file_array(f, "texts", &list));
    assert_true(list.gguf_type == TEXT && list.n == 2 && list.bytes == 18);
    assert_true(pkv__tensor_file_array(f, "empty", &list));
    assert_true(list.n == 0 && list.bytes == 0);
    pkv__tensor_file_close(f);
    bytes_free(&b);
}

static void put_two_tensors(bytes *b, uint32_t alignment)
{
    const uint64_t second = alignment < 32 ? 48 : 2 * alignment;
    put_head(b, 3, 2, 1);
    put_key_u32(b, "general.alignment", alignment);
    put_tensor(b, "m", 2, (uint64_t[]){ 3, 2 }, T_F16, alignment);
    put_tensor(b, "q", 3, (uint64_t[]){ 32, 1, 1 }, T_Q8_0, second);
    put_data(b, alignment, second + 34);
}

static void tensors(void **state)
{
    (void)state;
    for (uint32_t alignment = 8; alignment <= 4096; alignment *= 2) {
        bytes b = { 0 };
        put_two_tensors(&b, alignment);
        pkv__tensor_file *f = open_memory(&b, NAME);
        const pkv__tensor *t = pkv__tensor_file_find(f, "m");
        assert_true(t && t->type == PKV__T_F16 && t->n_dims == 2);
        assert_true(t->dims[0] == 2 && t->dims[1] == 3 && t->dims[2] == 1 && t->dims[3] == 1);
        assert_int_equal(t->bytes, 12);
        assert_int_equal((t->data - b.data) % alignment, 0);
        assert_int_equal(t->data[0], (uint8_t)(alignment + 1));
        t = pkv__tensor_file_find(f, "q");
        assert_true(t && t->type == PKV__T_Q8_0 && t->bytes == 34 && t->dims[2] == 32);
        assert_string_equal(t->type_name, "Q8_0");
        pkv__tensor_file_close(f);
        bytes_free(&b);
    }
}

/* ---------------------------------------------------------------- attacks on the head */

static void heads_refused(void **state)
{
    (void)state;
    static const struct {
        const char *what;
        uint32_t version;
        uint64_t n_tensors, n_keys;
        pkv_status status;
        const char *says;
    } heads[] = {
        { "version 1", 1, 0, 0, PKV_E_UNSUPPORTED, "version 1" },
        { "version 4", 4, 0, 0, PKV_E_UNSUPPORTED, "version 4" },
        { "big-endian 3", 0x03000000, 0, 0, PKV_E_UNSUPPORTED, "big-endian" },
        { "2^64 - 1 tensors", 3, UINT64_MAX, 0, PKV_E_FORMAT, "tensors" },
        { "2^60 tensors", 3, (uint64_t)1 << 60, 0, PKV_E_FORMAT, "tensors" },
        { "one tensor too many", 3, 4, 0, PKV_E_FORMAT, "tensors" },
        { "2^64 - 1 keys", 3, 0, UINT64_MAX, PKV_E_FORMAT, "keys" },
        { "one key too many", 3, 0, 8, PKV_E_FORMAT, "keys" },
    };
    for (size_t k = 0; k < PKV_ARRAY_LEN(heads); k++) {
        bytes b = { 0 };
        put_head(&b, heads[k].version, heads[k].n_tensors, heads[k].n_keys);
        put_zeros(&b, 100); /* room for 3 tensors or 7 keys of the smallest kind */
        expect_refused(&b, NAME, heads[k].what, heads[k].status, heads[k].says);
        bytes_free(&b);
    }
    bytes b = { 0 };
    put(&b, "FUGG", 4);
    put_zeros(&b, 100);
    expect_refused(&b, NAME, "another magic", PKV_E_FORMAT, "no GGUF");
    bytes_free(&b);
}

/* ---------------------------------------------------------------- attacks on keys */

typedef struct key_attack {
    const char *what, *key;
    uint32_t type;
    const char *value;
    size_t n;
    pkv_status status;
    const char *says;
} key_attack;
#define VALUE(literal) literal, sizeof(literal) - 1
#define ONES "\xff\xff\xff\xff\xff\xff\xff\xff"

static const key_attack key_attacks[] = {
    { "type 13", "k", 13, VALUE("\0"), PKV_E_FORMAT, "type 13" },
    { "type 2^32 - 1", "k", 0xffffffff, VALUE("\0"), PKV_E_FORMAT, "type" },
    { "an empty key", "", U8, VALUE("\0"), PKV_E_FORMAT, "empty" },
    { "a truth value of 2", "k", BOOL, VALUE("\2"), PKV_E_FORMAT, "truth value" },
    { "2^64 - 1", "k", U64, VALUE(ONES), PKV_E_FORMAT, "2^63" },
    { "a text of 2^64 - 1 bytes", "k", TEXT, VALUE(ONES), PKV_E_FORMAT, "wanted" },
    { "a text that wraps", "k", TEXT, VALUE("\xf8\xff\xff\xff\xff\xff\xff\xff"), PKV_E_FORMAT,
      "wanted" },
    { "a list of type 13", "k", ARRAY, VALUE("\x0d\0\0\0\1\0\0\0\0\0\0\0"), PKV_E_FORMAT,
      "type 13" },
    { "a list of lists", "k", ARRAY, VALUE("\x09\0\0\0\1\0\0\0\0\0\0\0"), PKV_E_UNSUPPORTED,
      "list of lists" },
    { "a list of 2^64 - 1 bytes", "k", ARRAY, VALUE("\0\0\0\0" ONES), PKV_E_FORMAT, "a list of" },
    { "2^61 + 1 numbers of 8 bytes", "k", ARRAY, VALUE("\x0a\0\0\0\1\0\0\0\0\0\0\x20"),
      PKV_E_FORMAT, "a list of" },
    { "2^64 - 1 texts", "k", ARRAY, VALUE("\x08\0\0\0" ONES), PKV_E_FORMAT, "wanted" },
    { "a list of one huge text", "k", ARRAY, VALUE("\x08\0\0\0\1\0\0\0\0\0\0\0" ONES), PKV_E_FORMAT,
      "wanted" },
    { "alignment 0", "general.alignment", U32, VALUE("\0\0\0\0"), PKV_E_FORMAT, "alignment 0" },
    { "alignment 4", "general.alignment", U32, VALUE("\4\0\0\0"), PKV_E_FORMAT, "alignment 4" },
    { "alignment 24", "general.alignment", U32, VALUE("\x18\0\0\0"), PKV_E_FORMAT, "alignment 24" },
    { "alignment 8192", "general.alignment", U32, VALUE("\0\x20\0\0"), PKV_E_FORMAT,
      "alignment 8192" },
    { "alignment -8", "general.alignment", I32, VALUE("\xf8\xff\xff\xff"), PKV_E_FORMAT,
      "alignment -8" },
    { "alignment 32.0", "general.alignment", F32, VALUE("\0\0\0\x42"), PKV_E_FORMAT, "no number" },
    { "alignment in words", "general.alignment", TEXT,
      VALUE("\2\0\0\0\0\0\0\0"
            "32"),
      PKV_E_FORMAT, "no number" },
    { "a list of alignments", "general.alignment", ARRAY, VALUE("\4\0\0\0\0\0\0\0\0\0\0\0"),
      PKV_E_FORMAT, "no number" },
    { "part of a model", "split.count", U16, VALUE("\3\0"), PKV_E_FORMAT, "of 3 files" },
    { "-3 files", "split.count", I16, VALUE("\xfd\xff"), PKV_E_FORMAT, "-3 files" },
};

static void keys_refused(void **state)
{
    (void)state;
    for (size_t k = 0; k < PKV_ARRAY_LEN(key_attacks); k++) {
        const key_attack *a = &key_attacks[k];
        bytes b = { 0 };
        put_head(&b, 3, 0, 1);
        put_key(&b, a->key, a->type);
        put(&b, a->value, a->n);
        if (a->says[0] != 'w') put_zeros(&b, 32); /* else the end is near */
        expect_refused(&b, NAME, a->what, a->status, a->says);
        bytes_free(&b);
    }
}

static void key_names_refused(void **state)
{
    (void)state;
    bytes b = { 0 };
    put_head(&b, 3, 0, 2);
    put_key_u32(&b, "same", 1);
    put_key_u32(&b, "same", 1);
    expect_refused(&b, NAME, "a key twice", PKV_E_FORMAT, "same comes twice");
    bytes_free(&b);
    put_head(&b, 3, 0, 2);
    put_key_u32(&b, "same", 1);
    put_key(&b, "same", ARRAY), put_u32(&b, U8), put_u64(&b, 0);
    expect_refused(&b, NAME, "a number and a list", PKV_E_FORMAT, "same comes twice");
    bytes_free(&b);
    put_head(&b, 3, 0, 1);
    put_u64(&b, 3), put(&b, "a\0b", 3), put_u32(&b, U32), put_u32(&b, 1);
    expect_refused(&b, NAME, "a zero byte", PKV_E_FORMAT, "zero byte");
    bytes_free(&b);
    put_head(&b, 3, 0, 1);
    put_u64(&b, 65536);
    for (int k = 0; k < 1024; k++)
        put(&b, "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef", 64);
    put_u32(&b, U32), put_u32(&b, 1);
    expect_refused(&b, NAME, "a long key", PKV_E_FORMAT, "65536");
    bytes_free(&b);
    put_head(&b, 3, 0, 1);
    put_u64(&b, UINT64_MAX);
    put_zeros(&b, 64);
    expect_refused(&b, NAME, "a key of 2^64 - 1 bytes", PKV_E_FORMAT, "wanted");
    bytes_free(&b);
}

/* ---------------------------------------------------------------- attacks on tensors */

typedef struct tensor_attack {
    const char *what;
    uint32_t n_dims;
    uint64_t dims[5];
    uint32_t type;
    uint64_t offset;
    pkv_status status;
    const char *says;
} tensor_attack;

/* After 64 bytes of data. */
static const tensor_attack tensor_attacks[] = {
    { "no dimensions", 0, { 0 }, T_F32, 0, PKV_E_FORMAT, "0 dimensions" },
    { "five dimensions", 5, { 1, 1, 1, 1, 1 }, T_F32, 0, PKV_E_FORMAT, "5 dimensions" },
    { "2^32 - 1 dimensions", 0xffffffff, { 1 }, T_F32, 0, PKV_E_FORMAT, "4294967295 dimensions" },
    { "a zero dimension", 2, { 4, 0 }, T_F32, 0, PKV_E_FORMAT, "dimension 0" },
    { "a dimension of 2^63", 1, { (uint64_t)1 << 63 }, T_F32, 0, PKV_E_FORMAT, "too large" },
    { "a product of 2^64",
      2,
      { (uint64_t)1 << 32, (uint64_t)1 << 32 },
      T_F32,
      0,
      PKV_E_FORMAT,
      "too large" },
    { "a product of 2^63",
      2,
      { (uint64_t)1 << 32, (uint64_t)1 << 31 },
      T_F32,
      0,
      PKV_E_FORMAT,
      "too large" },
    { "2^62 elements of 4 bytes",
      2,
      { (uint64_t)1 << 31, (uint64_t)1 << 31 },
      T_F32,
      0,
      PKV_E_FORMAT,
      "more than the file" },
    { "more than the file", 1, { 1 << 20 }, T_F32, 0, PKV_E_FORMAT, "more than the file" },
    { "more than the data", 1, { 17 }, T_F32, 0, PKV_E_FORMAT, "ends after" },
    { "at the end", 1, { 1 }, T_F32, 64, PKV_E_FORMAT, "ends after" },
    { "far after the end", 1, { 1 }, T_F32, (uint64_t)1 << 40, PKV_E_FORMAT, "end after" },
    { "an offset that wraps", 1, { 16 }, T_F32, UINT64_MAX - 31, PKV_E_FORMAT, "end after" },
    { "off the alignment", 1, { 1 }, T_F32, 16, PKV_E_FORMAT, "alignment" },
    { "an odd offset", 1, { 1 }, T_F32, 1, PKV_E_FORMAT, "alignment" },
    { "type 4, which is gone", 1, { 32 }, 4, 0, PKV_E_UNSUPPORTED, "type 4" },
    { "type 40", 1, { 32 }, 40, 0, PKV_E_UNSUPPORTED, "type 40" },
    { "type 2^32 - 1", 1, { 32 }, 0xffffffff, 0, PKV_E_UNSUPPORTED, "type" },
    { "half a block", 1, { 16 }, T_Q8_0, 0, PKV_E_FORMAT, "blocks of Q8_0" },
    { "rows of half a block", 2, { 16, 2 }, T_Q4_0, 0, PKV_E_FORMAT, "blocks of Q4_0" },
    { "32 of 256", 1, { 32 }, T_Q6_K, 0, PKV_E_FORMAT, "blocks of Q6_K" },
};

static void tensors_refused(void **state)
{
    (void)state;
    for (size_t k = 0; k < PKV_ARRAY_LEN(tensor_attacks); k++) {
        const tensor_attack *a = &tensor_attacks[k];
        bytes b = { 0 };
        put_head(&b, 3, 1, 0);
        put_text(&b, "a tensor");
        put_u32(&b, a->n_dims);
        put(&b, a->dims, (a->n_dims < 5 ? a->n_dims : 5) * sizeof(uint64_t));
        put_u32(&b, a->type);
        put_u64(&b, a->offset);
        put_data(&b, 32, 64);
        expect_refused(&b, NAME, a->what, a->status, a->says);
        bytes_free(&b);
    }
}

static void tensor_names_refused(void **state)
{
    (void)state;
    static const uint64_t four[] = { 4 };
    bytes b = { 0 };
    put_head(&b, 3, 2, 0);
    put_tensor(&b, "same", 1, four, T_F32, 0);
    put_tensor(&b, "same", 1, four, T_F32, 32);
    put_data(&b, 32, 64);
    expect_refused(&b, NAME, "a name twice", PKV_E_FORMAT, "same comes twice");
    bytes_free(&b);
    put_head(&b, 3, 2, 0);
    put_tensor(&b, "a", 1, (uint64_t[]){ 16 }, T_F32, 0);
    put_tensor(&b, "b", 1, four, T_F32, 32);
    put_data(&b, 32, 64);
    expect_refused(&b, NAME, "an overlap", PKV_E_FORMAT, "b lies on another");
    bytes_free(&b);
    put_head(&b, 3, 2, 0);
    put_tensor(&b, "a", 1, four, T_F32, 0);
    put_tensor(&b, "b", 1, four, T_F32, 0);
    put_data(&b, 32, 64);
    expect_refused(&b, NAME, "the same place", PKV_E_FORMAT, "lies on another");
    bytes_free(&b);
    put_head(&b, 3, 1, 0);
    put_tensor(&b, "", 1, four, T_F32, 0);
    put_data(&b, 32, 64);
    expect_refused(&b, NAME, "an empty name", PKV_E_FORMAT, "empty");
    bytes_free(&b);
    put_head(&b, 3, 1, 0);
    put_tensor(&b, "line\nbreak", 1, four, 99, 0);
    put_data(&b, 32, 64);
    expect_refused(&b, NAME, "a type", PKV_E_UNSUPPORTED, "type 99");
    bytes_free(&b);
}

static void every_length_of_a_file(void **state)
{
    (void)state;
    bytes b = { 0 };
    put_head(&b, 3, 2, N_SCALARS + 2);
    put_scalars(&b);
    put_key(&b, "texts", ARRAY), put_u32(&b, TEXT), put_u64(&b, 2), put_text(&b, "ab"),
        put_text(&b, "");
    put_key(&b, "numbers", ARRAY), put_u32(&b, I16), put_u64(&b, 3), put(&b, "\1\0\2\0\3\0", 6);
    put_tensor(&b, "a", 2, (uint64_t[]){ 4, 2 }, T_F32, 0);
    put_tensor(&b, "b", 1, (uint64_t[]){ 32 }, T_Q8_0, 32);
    put_data(&b, 32, 32 + 34);
    pkv__tensor_file_close(open_memory(&b, NAME));
    for (size_t n = 1; n < b.n; n++) {
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
    put_two_tensors(&b, 32);
    for (long fail_at = 0;; fail_at++) {
        counted_memory memory;
        pkv__tensor_file *file = NULL;
        const pkv_allocator alloc = count_memory(&memory, fail_at);
        const pkv_status status =
            pkv__tensor_file_open_memory(b.data, b.n, NAME, NULL, &alloc, &file);
        if (status == PKV_OK) {
            assert_true(fail_at >= 5);
            pkv__tensor_file_close(file);
        } else assert_int_equal(status, PKV_E_NO_MEMORY);
        assert_int_equal(memory.n_live, 0);
        if (status == PKV_OK) break;
    }
    bytes_free(&b);
}

/* A file may claim what it likes: memory follows what is there. */
static void memory_follows_the_file(void **state)
{
    (void)state;
    bytes b = { 0 };
    counted_memory memory;
    pkv__tensor_file *file = NULL;
    const size_t n = 1 << 20;
    put_head(&b, 3, n / 33, n / 14 / 2);
    put_zeros(&b, n);
    const pkv_allocator alloc = count_memory(&memory, -1);
    assert_int_equal(pkv__tensor_file_open_memory(b.data, b.n, NAME, NULL, &alloc, &file),
                     PKV_E_FORMAT);
    assert_true(memory.peak_bytes < 4096);
    bytes_free(&b);
}

/* ---------------------------------------------------------------- several files */

static void write_split(const char *folder, const char *name, int no, int count, int n_tensors,
                        const char *tensor)
{
    bytes b = { 0 };
    put_head(&b, 3, 1, no == 0 ? 4 : 3);
    put_key(&b, "split.no", U16), put(&b, &(uint16_t){ (uint16_t)no }, 2);
    put_key(&b, "split.count", U16), put(&b, &(uint16_t){ (uint16_t)count }, 2);
    put_key(&b, "split.tensors.count", I32), put_u32(&b, (uint32_t)n_tensors);
    if (no == 0) put_key(&b, "general.architecture", TEXT), put_text(&b, "llama");
    put_tensor(&b, tensor, 1, (uint64_t[]){ 4 }, T_F32, 0);
    put_data(&b, 32, 16);
    write_bytes(folder, name, b.data, b.n);
    bytes_free(&b);
}

static pkv_status open_split(const char *folder, const char *name, last_log *log,
                             pkv__tensor_file **file)
{
    char path[1024];
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    const pkv__tensor_file_config cfg = { .path = path, .log = log_to(log) };
    return pkv__tensor_file_open(&cfg, file);
}

#define FIRST "m-00001-of-00003.gguf"
#define SECOND "m-00002-of-00003.gguf"
#define THIRD "m-00003-of-00003.gguf"

static void split_model(void **state)
{
    (void)state;
    char folder[512], path[1024];
    last_log log;
    pkv__tensor_file *file = NULL;
    scratch_folder(folder, sizeof(folder));
    write_split(folder, FIRST, 0, 3, 3, "c");
    write_split(folder, SECOND, 1, 3, 3, "a");
    write_split(folder, THIRD, 2, 3, 3, "b");
    for (int by_folder = 0; by_folder < 2; by_folder++) {
        const pkv_status status = open_split(folder, by_folder ? "" : FIRST, &log, &file);
        if (status != PKV_OK) fail_msg("%s", log.text);
        assert_int_equal(pkv__tensor_file_count(file), 3);
        assert_string_equal(pkv__tensor_file_at(file, 0)->name, "a");
        assert_string_equal(pkv__tensor_file_meta(file, "general.architecture")->text, "llama");
        assert_int_equal(pkv__tensor_file_meta(file, "split.no")->i, 0);
        pkv__tensor_file_close(file);
    }
    assert_int_equal(open_split(folder, SECOND, &log, &file), PKV_E_FORMAT);
    assert_non_null(strstr(log.text, "open the first"));
    write_split(folder, THIRD, 2, 3, 3, "a");
    assert_int_equal(open_split(folder, FIRST, &log, &file), PKV_E_FORMAT);
    assert_non_null(strstr(log.text, "twice"));
    write_split(folder, THIRD, 1, 3, 3, "b");
    assert_int_equal(open_split(folder, FIRST, &log, &file), PKV_E_FORMAT);
    write_split(folder, THIRD, 2, 4, 3, "b");
    assert_int_equal(open_split(folder, FIRST, &log, &file), PKV_E_FORMAT);
    assert_non_null(strstr(log.text, "split.count"));
    snprintf(path, sizeof(path), "%s/" THIRD, folder);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(open_split(folder, FIRST, &log, &file), PKV_E_IO);
    assert_non_null(strstr(log.text, THIRD));
    write_split(folder, THIRD, 2, 3, 3, "b");
    write_split(folder, FIRST, 0, 3, 4, "c");
    assert_int_equal(open_split(folder, FIRST, &log, &file), PKV_E_FORMAT);
    assert_non_null(strstr(log.text, "split.tensors.count"));
    write_split(folder, "other.gguf", 0, 3, 3, "c");
    assert_int_equal(open_split(folder, "other.gguf", &log, &file), PKV_E_FORMAT);
    assert_non_null(strstr(log.text, "name"));
    scratch_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scalars),
        cmocka_unit_test(lists),
        cmocka_unit_test(tensors),
        cmocka_unit_test(heads_refused),
        cmocka_unit_test(keys_refused),
        cmocka_unit_test(key_names_refused),
        cmocka_unit_test(tensors_refused),
        cmocka_unit_test(tensor_names_refused),
        cmocka_unit_test(every_length_of_a_file),
        cmocka_unit_test(no_memory),
        cmocka_unit_test(memory_follows_the_file),
        cmocka_unit_test(split_model),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
