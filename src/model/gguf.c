/* GGUF v2 and v3 (https://github.com/ggml-org/ggml/blob/master/docs/gguf.md):
 *
 *   "GGUF" | u32 version | u64 n_tensors | u64 n_keys
 *   n_keys    x { text key, u32 type, value }         text: u64 length, bytes
 *   n_tensors x { text name, u32 n_dims, u64 dims[], u32 type, u64 offset }
 *   zeros up to the alignment | data
 *
 * Dimensions come innermost first. A model in several files, name-00001-of-00003.gguf, has
 * split.no, split.count and split.tensors.count in each; the keys of the first are those of the
 * model. */
#include "model/tensor_internal.h"

#include <inttypes.h>
#include <stdio.h>

#define DEFAULT_ALIGNMENT 32
#define MAX_ALIGNMENT 4096
#define MAX_KEY 65535 /* of the specification */
#define MAX_SPLITS 4096
#define MIN_KEY_BYTES 14    /* length, one letter, type, one byte */
#define MIN_TENSOR_BYTES 33 /* length, one letter, count, one dimension, type, offset */

enum { U8, I8, U16, I16, U32, I32, F32, BOOL, TEXT, ARRAY, U64, I64, F64, N_TYPES };
static const uint8_t value_bytes[N_TYPES] = {
    [U8] = 1,  [I8] = 1,   [U16] = 2, [I16] = 2, [U32] = 4, [I32] = 4,
    [F32] = 4, [BOOL] = 1, [U64] = 8, [I64] = 8, [F64] = 8,
};

/* Types of tensors by their number in the format; an empty name: never was, or is gone. */
static const struct {
    const char *name;
    uint32_t elements, bytes; /* of a block */
    pkv__tensor_type type;
} tensor_types[] = {
    [0] = { "F32", 1, 4, PKV__T_F32 },           [1] = { "F16", 1, 2, PKV__T_F16 },
    [2] = { "Q4_0", 32, 18, PKV__T_Q4_0 },       [3] = { "Q4_1", 32, 20, PKV__T_Q4_1 },
    [6] = { "Q5_0", 32, 22, PKV__T_OTHER },      [7] = { "Q5_1", 32, 24, PKV__T_OTHER },
    [8] = { "Q8_0", 32, 34, PKV__T_Q8_0 },       [9] = { "Q8_1", 32, 36, PKV__T_OTHER },
    [10] = { "Q2_K", 256, 84, PKV__T_OTHER },    [11] = { "Q3_K", 256, 110, PKV__T_OTHER },
    [12] = { "Q4_K", 256, 144, PKV__T_OTHER },   [13] = { "Q5_K", 256, 176, PKV__T_OTHER },
    [14] = { "Q6_K", 256, 210, PKV__T_Q6_K },    [15] = { "Q8_K", 256, 292, PKV__T_OTHER },
    [16] = { "IQ2_XXS", 256, 66, PKV__T_OTHER }, [17] = { "IQ2_XS", 256, 74, PKV__T_OTHER },
    [18] = { "IQ3_XXS", 256, 98, PKV__T_OTHER }, [19] = { "IQ1_S", 256, 50, PKV__T_OTHER },
    [20] = { "IQ4_NL", 32, 18, PKV__T_OTHER },   [21] = { "IQ3_S", 256, 110, PKV__T_OTHER },
    [22] = { "IQ2_S", 256, 82, PKV__T_OTHER },   [23] = { "IQ4_XS", 256, 136, PKV__T_OTHER },
    [24] = { "I8", 1, 1, PKV__T_OTHER },         [25] = { "I16", 1, 2, PKV__T_OTHER },
    [26] = { "I32", 1, 4, PKV__T_I32 },          [27] = { "I64", 1, 8, PKV__T_OTHER },
    [28] = { "F64", 1, 8, PKV__T_OTHER },        [29] = { "IQ1_M", 256, 56, PKV__T_OTHER },
    [30] = { "BF16", 1, 2, PKV__T_BF16 },        [34] = { "TQ1_0", 256, 54, PKV__T_OTHER },
    [35] = { "TQ2_0", 256, 66, PKV__T_OTHER },   [39] = { "MXFP4", 32, 17, PKV__T_OTHER },
};

/* Reads never pass the end: the first that would sets the status, and all after it give zeros. */
typedef struct cursor {
    pkv__tensor_file *file;
    int32_t part;
    const uint8_t *data;
    size_t at, end;
    pkv_status status;
} cursor;

#define BAD(c, where, what, ...)                                                                   \
    ((c)->status = pkv__refuse_at((c)->file, (c)->part, where, what, __VA_ARGS__))

static const uint8_t *take(cursor *c, uint64_t n)
{
    if (c->status != PKV_OK) return NULL;
    if (n > c->end - c->at) {
        BAD(c, c->at, PKV_E_FORMAT, "%" PRIu64 " bytes are wanted, %zu are left", n,
            c->end - c->at);
        return NULL;
    }
    const uint8_t *here = c->data + c->at;
    c->at += (size_t)n;
    return here;
}

static uint32_t take_u32(cursor *c)
{
    uint32_t v = 0;
    const uint8_t *here = take(c, sizeof(v));
    if (here) memcpy(&v, here, sizeof(v));
    return v;
}

static uint64_t take_u64(cursor *c)
{
    uint64_t v = 0;
    const uint8_t *here = take(c, sizeof(v));
    if (here) memcpy(&v, here, sizeof(v));
    return v;
}

static const uint8_t *take_text(cursor *c, uint64_t *n)
{
    *n = take_u64(c);
    return take(c, *n);
}

/* ---------------------------------------------------------------- keys */

static void read_scalar(cursor *c, uint32_t type, pkv__meta *meta)
{
    const size_t at = c->at;
    const uint8_t *here = take(c, value_bytes[type]);
    union {
        uint8_t u8;
        int8_t i8;
        uint16_t u16;
        int16_t i16;
        uint32_t u32;
        int32_t i32;
        uint64_t u64;
        int64_t i64;
        float f32;
        double f64;
    } v;
    if (!here) return;
    memcpy(&v, here, value_bytes[type]);
    meta->type = PKV__META_INT;
    switch (type) {
    case U8:
        meta->i = v.u8;
        break;
    case I8:
        meta->i = v.i8;
        break;
    case U16:
        meta->i = v.u16;
        break;
    case I16:
        meta->i = v.i16;
        break;
    case U32:
        meta->i = v.u32;
        break;
    case I32:
        meta->i = v.i32;
        break;
    case I64:
        meta->i = v.i64;
        break;
    case U64:
        meta->i = (int64_t)v.u64;
        if (v.u64 > INT64_MAX) BAD(c, at, PKV_E_FORMAT, "a number above 2^63 - 1");
        break;
    case BOOL:
        meta->type = PKV__META_BOOL;
        meta->i = v.u8;
        if (v.u8 > 1) BAD(c, at, PKV_E_FORMAT, "a truth value of %d", v.u8);
        break;
    default:
        meta->type = PKV__META_REAL;
        meta->d = type == F32 ? (double)v.f32 : v.f64;
    }
}

static void read_array(cursor *c, pkv__meta_array *array)
{
    const size_t at = c->at;
    array->gguf_type = take_u32(c);
    array->n = take_u64(c);
    if (c->status != PKV_OK) return;
    if (array->gguf_type == ARRAY) {
        BAD(c, at, PKV_E_UNSUPPORTED, "a list of lists");
        return;
    }
    if (array->gguf_type >= N_TYPES) {
        BAD(c, at, PKV_E_FORMAT, "value type %u is unknown", array->gguf_type);
        return;
    }
    const size_t begin = c->at;
    if (array->gguf_type == TEXT) {
        uint64_t n;
        for (uint64_t k = 0; k < array->n && c->status == PKV_OK; k++) take_text(c, &n);
    } else if (array->n > (c->end - c->at) / value_bytes[array->gguf_type]) {
        BAD(c, at, PKV_E_FORMAT, "a list of %" PRIu64 " values, %zu bytes are left", array->n,
            c->end - c->at);
    } else take(c, array->n * value_bytes[array->gguf_type]);
    array->data = c->data + begin;
    array->bytes = c->at - begin;
}

static void read_text(cursor *c, pkv__meta *meta)
{
    uint64_t n;
    const uint8_t *text = take_text(c, &n);
    if (!text) return;
    meta->type = PKV__META_TEXT;
    meta->text_bytes = (size_t)n;
    meta->text = pkv__text_keep(c->file, text, (size_t)n);
    if (!meta->text) c->status = PKV_E_NO_MEMORY;
}

static void read_key(cursor *c)
{
    pkv__meta_entry entry = { .part = c->part, .at = c->at };
    uint64_t n;
    const uint8_t *key = take_text(c, &n);
    const size_t type_at = c->at;
    const uint32_t type = take_u32(c);
    if (c->status != PKV_OK) return;
    if (n > MAX_KEY) BAD(c, entry.at, PKV_E_FORMAT, "a key of %" PRIu64 " bytes", n);
    else if (type >= N_TYPES) BAD(c, type_at, PKV_E_FORMAT, "value type %u is unknown", type);
    else if (type == TEXT) read_text(c, &entry.meta);
    else if (type == ARRAY) read_array(c, &entry.array);
    else read_scalar(c, type, &entry.meta);
    if (c->status != PKV_OK) return;
    entry.is_array = type == ARRAY;
    c->status = pkv__add_meta(c->file, &entry, key, (size_t)n);
}

/* An integer among the keys from `first` on; they need not be sorted. False: none. */
static bool find_int(cursor *c, size_t first, const char *key, int64_t *out, uint64_t *at)
{
    for (size_t k = first; k < c->file->n_metas; k++) {
        const pkv__meta_entry *e = &c->file->metas[k];
        if (strcmp(e->meta.key, key) != 0) continue;
        if (e->is_array || e->meta.type != PKV__META_INT) {
            BAD(c, e->at, PKV_E_FORMAT, "%s is no number", key);
            return false;
        }
        *out = e->meta.i;
        *at = e->at;
        return true;
    }
    return false;
}

static size_t read_alignment(cursor *c, size_t first)
{
    int64_t a = DEFAULT_ALIGNMENT;
    uint64_t at = 0;
    find_int(c, first, "general.alignment", &a, &at);
    if (a < 8 || a > MAX_ALIGNMENT || (a & (a - 1)) != 0)
        BAD(c, at, PKV_E_FORMAT, "alignment %" PRId64 " is no power of two from 8 to %d", a,
            MAX_ALIGNMENT);
    return (size_t)a;
}

/* ---------------------------------------------------------------- tensors */

/* Dimensions as in the file; *n is their product. */
static void read_dims(cursor *c, pkv__tensor *t, uint64_t *n)
{
    const size_t at = c->at;
    const uint32_t n_dims = take_u32(c);
    *n = 1;
    for (int k = 0; k < 4; k++) t->dims[k] = 1;
    if (c->status == PKV_OK && (n_dims < 1 || n_dims > 4))
        BAD(c, at, PKV_E_FORMAT, "%u dimensions", n_dims);
    for (uint32_t k = 0; c->status == PKV_OK && k < n_dims; k++) {
        const size_t dim_at = c->at;
        const uint64_t dim = take_u64(c);
        if (c->status != PKV_OK) return;
        if (dim == 0 || __builtin_mul_overflow(*n, dim, n) || *n > INT64_MAX) {
            BAD(c, dim_at, PKV_E_FORMAT, "dimension %" PRIu64 " is zero or too large", dim);
            return;
        }
        t->dims[n_dims - 1 - k] = (int64_t)dim;
    }
    t->n_dims = (int32_t)n_dims;
}

static void read_type(cursor *c, pkv__tensor *t, uint64_t n)
{
    const size_t at = c->at;
    const uint32_t type = take_u32(c);
    if (c->status != PKV_OK) return;
    if (type >= PKV_ARRAY_LEN(tensor_types) || !tensor_types[type].name) {
        BAD(c, at, PKV_E_UNSUPPORTED, "tensor type %u is unknown", type);
        return;
    }
    const uint64_t block = tensor_types[type].elements;
    uint64_t bytes;
    t->type = tensor_types[type].type;
    t->type_name = tensor_types[type].name;
    if ((uint64_t)t->dims[t->n_dims - 1] % block != 0)
        BAD(c, at, PKV_E_FORMAT, "rows of %" PRId64 " elements are no blocks of %s",
            t->dims[t->n_dims - 1], t->type_name);
    else if (__builtin_mul_overflow(n / block, (uint64_t)tensor_types[type].bytes, &bytes) ||
             bytes > c->end)
        BAD(c, at, PKV_E_FORMAT, "%" PRIu64 " elements of %s are more than the file", n,
            t->type_name);
    else t->bytes = (size_t)bytes;
}

/* Where the data begins is known only after the last one: until then `data` counts from the
 * beginning of the file, which no sum can leave. */
static void read_tensor(cursor *c, size_t alignment)
{
    pkv__tensor_entry entry = { .part = c->part, .at = c->at };
    uint64_t n_name, n;
    const uint8_t *name = take_text(c, &n_name);
    read_dims(c, &entry.tensor, &n);
    if (c->status == PKV_OK) read_type(c, &entry.tensor, n);
    const size_t at = c->at;
    const uint64_t offset = take_u64(c);
    if (c->status != PKV_OK) return;
    if (n_name > MAX_KEY)
        BAD(c, entry.at, PKV_E_FORMAT, "a tensor name of %" PRIu64 " bytes", n_name);
    else if (offset % alignment != 0)
        BAD(c, at, PKV_E_FORMAT, "offset %" PRIu64 " is off the alignment of %zu", offset,
            alignment);
    else if (offset > c->end - entry.tensor.bytes)
        BAD(c, at, PKV_E_FORMAT, "%zu bytes at offset %" PRIu64 " of the data end after the file",
            entry.tensor.bytes, offset);
    if (c->status != PKV_OK) return;
    entry.tensor.data = c->data + offset;
    c->status = pkv__add_tensor(c->file, &entry, name, (size_t)n_name);
}

/* Move the tensors to where the data begins; none may leave the file or lie on another. */
static void place_tensors(cursor *c, size_t first, size_t alignment)
{
    const size_t data_at = pkv__align_up(c->at, alignment);
    const uint8_t *covered = c->data;
    char shown[PKV__SHOWN];
    if (c->file->n_tensors == first) return;
    pkv__sort_by_place(c->file, first);
    for (size_t k = first; k < c->file->n_tensors && c->status == PKV_OK; k++) {
        pkv__tensor_entry *e = &c->file->tensors[k];
        const size_t n = strlen(e->tensor.name);
        const size_t begin = (size_t)(e->tensor.data - c->data);
        if (data_at > c->end || begin > c->end - data_at ||
            e->tensor.bytes > c->end - data_at - begin) {
            BAD(c, e->at, PKV_E_FORMAT, "%s ends after the file",
                pkv__shown(e->tensor.name, n, shown));
            return;
        }
        if (e->tensor.data < covered)
            BAD(c, e->at, PKV_E_FORMAT, "%s lies on another tensor",
                pkv__shown(e->tensor.name, n, shown));
        covered = e->tensor.data + e->tensor.bytes;
        e->tensor.data = c->data + data_at + begin;
    }
}

/* ---------------------------------------------------------------- one file */

static void read_counts(cursor *c, uint64_t *n_tensors, uint64_t *n_keys)
{
    const uint8_t *magic = take(c, 4);
    if (magic && memcmp(magic, "GGUF", 4) != 0) BAD(c, 0, PKV_E_FORMAT, "no GGUF file");
    const uint32_t version = take_u32(c);
    if (c->status == PKV_OK && (version & 0xffff) == 0)
        BAD(c, 4, PKV_E_UNSUPPORTED, "a file of big-endian numbers");
    if (c->status == PKV_OK && (version < 2 || version > 3))
        BAD(c, 4, PKV_E_UNSUPPORTED, "GGUF version %u; 2 and 3 are read", version);
    *n_tensors = take_u64(c);
    *n_keys = take_u64(c);
    if (c->status != PKV_OK) return;
    const size_t left = c->end - c->at;
    if (*n_tensors > left / MIN_TENSOR_BYTES)
        BAD(c, 8, PKV_E_FORMAT, "%" PRIu64 " tensors in %zu bytes", *n_tensors, left);
    else if (*n_keys > left / MIN_KEY_BYTES)
        BAD(c, 16, PKV_E_FORMAT, "%" PRIu64 " keys in %zu bytes", *n_keys, left);
}

static pkv_status read_part(pkv__tensor_file *file, int32_t part)
{
    const pkv__file_map *map = &file->parts[part];
    cursor c = { file, part, map->data, 0, map->bytes, PKV_OK };
    const size_t first_tensor = file->n_tensors, first_key = file->n_metas;
    uint64_t n_tensors, n_keys;
    read_counts(&c, &n_tensors, &n_keys);
    for (uint64_t k = 0; k < n_keys && c.status == PKV_OK; k++) read_key(&c);
    if (c.status == PKV_OK) c.status = pkv__sort_metas(file, first_key);
    const size_t alignment = c.status == PKV_OK ? read_alignment(&c, first_key) : 1;
    for (uint64_t k = 0; k < n_tensors && c.status == PKV_OK; k++) read_tensor(&c, alignment);
    if (c.status == PKV_OK) place_tensors(&c, first_tensor, alignment);
    return c.status;
}

/* ---------------------------------------------------------------- several files */

typedef struct split {
    int64_t no, count, n_tensors; /* count 0: a model in one file */
    uint64_t at;
} split;

static pkv_status read_split(pkv__tensor_file *file, int32_t part, size_t first_key, split *out)
{
    cursor c = { file, part, NULL, 0, 0, PKV_OK };
    split s = { 0, 0, -1, 0 };
    uint64_t at;
    find_int(&c, first_key, "split.no", &s.no, &at);
    find_int(&c, first_key, "split.tensors.count", &s.n_tensors, &at);
    find_int(&c, first_key, "split.count", &s.count, &s.at);
    if (c.status == PKV_OK && (s.count < 0 || s.count > MAX_SPLITS))
        BAD(&c, s.at, PKV_E_FORMAT, "%" PRId64 " files", s.count);
    if (c.status == PKV_OK && s.count > 1 && s.no != part)
        BAD(&c, s.at, PKV_E_FORMAT,
            "file %" PRId64 " of %" PRId64 " where %d should be; open the first", s.no + 1, s.count,
            part + 1);
    *out = s;
    return c.status;
}

/* Length of what stands before "-00001-of-00003.gguf", or 0. */
static size_t split_prefix(const char *path, int64_t count)
{
    char end[64];
    const int n = snprintf(end, sizeof(end), "-00001-of-%05" PRId64 ".gguf", count);
    const size_t all = strlen(path);
    return all > (size_t)n && strcmp(path + all - (size_t)n, end) == 0 ? all - (size_t)n : 0;
}

static pkv_status read_next(pkv__tensor_file *file, int32_t part, size_t prefix, int64_t count)
{
    const size_t n_metas = file->n_metas, cap = prefix + 64;
    split s;
    char *path = pkv__alloc(&file->alloc, cap, 1);
    if (!path) return PKV_E_NO_MEMORY;
    memcpy(path, file->parts[0].path, prefix);
    snprintf(path + prefix, cap - prefix, "-%05d-of-%05" PRId64 ".gguf", part + 1, count);
    pkv_status status = pkv__part_open(file, path);
    pkv__free(&file->alloc, path, cap);
    if (status == PKV_OK) status = read_part(file, part);
    if (status == PKV_OK) status = read_split(file, part, n_metas, &s);
    if (status == PKV_OK && s.count != count)
        status = pkv__refuse_at(file, part, s.at, PKV_E_FORMAT,
                                "split.count is %" PRId64 ", %" PRId64 " in the first file",
                                s.count, count);
    file->n_metas = n_metas; /* the keys of the first file are those of the model */
    return status;
}

static pkv_status read_others(pkv__tensor_file *file, const split *s)
{
    const size_t prefix = split_prefix(file->parts[0].path, s->count);
    if (prefix == 0 || file->parts[0].kind == PKV__MAP_LENT)
        return pkv__refuse_at(file, 0, s->at, PKV_E_FORMAT,
                              "one of %" PRId64
                              " files, but its name does not say -00001-of-%05" PRId64 ".gguf",
                              s->count, s->count);
    for (int32_t part = 1; part < s->count; part++) {
        const pkv_status status = read_next(file, part, prefix, s->count);
        if (status != PKV_OK) return status;
    }
    if (s->n_tensors >= 0 && (uint64_t)s->n_tensors != file->n_tensors)
        return pkv__refuse_at(file, 0, s->at, PKV_E_FORMAT,
                              "%zu tensors in all files, split.tensors.count says %" PRId64,
                              file->n_tensors, s->n_tensors);
    return PKV_OK;
}

pkv_status pkv__read_gguf(pkv__tensor_file *file, int32_t part)
{
    split s;
    file->format = "gguf";
    pkv_status status = read_part(file, part);
    if (status == PKV_OK) status = read_split(file, part, 0, &s);
    return status == PKV_OK && s.count > 1 ? read_others(file, &s) : status;
}
