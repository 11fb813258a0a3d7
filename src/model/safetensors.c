/* safetensors (https://github.com/huggingface/safetensors, README, "Format"):
 *
 *   u64 length | JSON of that length | data
 *   { "name": { "dtype": "F32", "shape": [2, 3], "data_offsets": [begin, end] }, ...,
 *     "__metadata__": { text: text } }
 *
 * Offsets count from the beginning of the data. Every byte of the data belongs to one tensor. A
 * model in several files has an index beside them, { "weight_map": { tensor: file } }. */
#include "model/tensor_internal.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>

#define LENGTH_BYTES 8
#define MAX_HEADER 100000000u /* the limit of the reference implementation */
#define MAX_SHARDS 4096
#define METADATA "__metadata__"

static const struct {
    const char *name;
    uint64_t bits;
    pkv__tensor_type type;
} dtypes[] = {
    { "F32", 32, PKV__T_F32 },      { "F16", 16, PKV__T_F16 },      { "BF16", 16, PKV__T_BF16 },
    { "I32", 32, PKV__T_I32 },      { "F64", 64, PKV__T_OTHER },    { "I64", 64, PKV__T_OTHER },
    { "I16", 16, PKV__T_OTHER },    { "I8", 8, PKV__T_OTHER },      { "U64", 64, PKV__T_OTHER },
    { "U32", 32, PKV__T_OTHER },    { "U16", 16, PKV__T_OTHER },    { "U8", 8, PKV__T_OTHER },
    { "BOOL", 8, PKV__T_OTHER },    { "C64", 64, PKV__T_OTHER },    { "F8_E4M3", 8, PKV__T_OTHER },
    { "F8_E5M2", 8, PKV__T_OTHER }, { "F8_E8M0", 8, PKV__T_OTHER }, { "F4", 4, PKV__T_OTHER },
};

/* What is being read: one name of one part. */
typedef struct place {
    pkv__tensor_file *file;
    int32_t part;
    const char *name;
    size_t data_at; /* where the header ends */
} place;

/* Where the name stands. jansson keeps no offsets, so it is looked for between quotes, and only
 * when there is something to report; with escapes in it the whole header is meant. */
static uint64_t find_place(const place *p)
{
    const uint8_t *data = p->file->parts[p->part].data;
    const size_t n = strlen(p->name);
    const uint8_t *at = data + LENGTH_BYTES, *end = data + p->data_at;
    for (; n > 0 && (at = memmem(at, (size_t)(end - at), p->name, n)); at++)
        if (at[-1] == '"' && at + n < end && at[n] == '"') return (uint64_t)(at - 1 - data);
    return LENGTH_BYTES;
}

static pkv_status PKV_PRINTF(3, 4) refuse(const place *p, pkv_status status, const char *fmt, ...)
{
    char why[120], shown[PKV__SHOWN];
    va_list args;
    va_start(args, fmt);
    vsnprintf(why, sizeof(why), fmt, args);
    va_end(args);
    return pkv__refuse_at(p->file, p->part, find_place(p), status, "%s: %s",
                          pkv__shown(p->name, strlen(p->name), shown), why);
}

/* ---------------------------------------------------------------- one tensor */

static pkv_status read_dtype(const place *p, const json_t *value, pkv__tensor *t, uint64_t *bits)
{
    char shown[PKV__SHOWN];
    if (!json_is_string(value)) return refuse(p, PKV_E_FORMAT, "dtype is missing or no text");
    for (size_t k = 0; k < PKV_ARRAY_LEN(dtypes); k++) {
        if (strcmp(json_string_value(value), dtypes[k].name) != 0) continue;
        t->type = dtypes[k].type;
        t->type_name = dtypes[k].name;
        *bits = dtypes[k].bits;
        return PKV_OK;
    }
    return refuse(p, PKV_E_UNSUPPORTED, "dtype %s is unknown",
                  pkv__shown(json_string_value(value), json_string_length(value), shown));
}

static pkv_status read_shape(const place *p, const json_t *value, pkv__tensor *t, uint64_t *n)
{
    *n = 1;
    if (!json_is_array(value)) return refuse(p, PKV_E_FORMAT, "shape is missing or no list");
    const size_t n_dims = json_array_size(value);
    if (n_dims > PKV_ARRAY_LEN(t->dims))
        return refuse(p, PKV_E_UNSUPPORTED, "%zu dimensions, at most 4 are taken", n_dims);
    t->n_dims = n_dims == 0 ? 1 : (int32_t)n_dims; /* a scalar is a list of one */
    for (size_t k = 0; k < PKV_ARRAY_LEN(t->dims); k++) {
        const json_t *dim = json_array_get(value, k);
        t->dims[k] = k < n_dims ? (int64_t)json_integer_value(dim) : 1;
        if (k < n_dims && (!json_is_integer(dim) || t->dims[k] < 0))
            return refuse(p, PKV_E_FORMAT, "dimension %zu is no count", k);
        if (__builtin_mul_overflow(*n, (uint64_t)t->dims[k], n) || *n > INT64_MAX)
            return refuse(p, PKV_E_FORMAT, "the product of the shape overflows");
    }
    return PKV_OK;
}

static pkv_status read_offsets(const place *p, const json_t *value, uint64_t data_bytes,
                               uint64_t *begin, uint64_t *end)
{
    if (!json_is_array(value) || json_array_size(value) != 2 ||
        !json_is_integer(json_array_get(value, 0)) || !json_is_integer(json_array_get(value, 1)))
        return refuse(p, PKV_E_FORMAT, "data_offsets are no two numbers");
    const json_int_t b = json_integer_value(json_array_get(value, 0));
    const json_int_t e = json_integer_value(json_array_get(value, 1));
    if (b < 0 || e < b || (uint64_t)e > data_bytes)
        return refuse(p, PKV_E_FORMAT, "data_offsets %lld to %lld of %" PRIu64 " data bytes",
                      (long long)b, (long long)e, data_bytes);
    *begin = (uint64_t)b;
    *end = (uint64_t)e;
    return PKV_OK;
}

static pkv_status read_tensor(const place *p, const json_t *info)
{
    const pkv__file_map *map = &p->file->parts[p->part];
    pkv__tensor_entry entry = { .part = p->part, .at = LENGTH_BYTES };
    uint64_t bits = 0, n = 0, begin = 0, end = 0, want;
    if (!json_is_object(info)) return refuse(p, PKV_E_FORMAT, "is no object");
    pkv_status status = read_dtype(p, json_object_get(info, "dtype"), &entry.tensor, &bits);
    if (status == PKV_OK) status = read_shape(p, json_object_get(info, "shape"), &entry.tensor, &n);
    if (status == PKV_OK)
        status = read_offsets(p, json_object_get(info, "data_offsets"), map->bytes - p->data_at,
                              &begin, &end);
    if (status != PKV_OK) return status;
    if (__builtin_mul_overflow(n, bits, &want) || want % 8 != 0 || end - begin != want / 8)
        return refuse(p, PKV_E_FORMAT, "%" PRIu64 " bytes do not hold %" PRIu64 " elements of %s",
                      end - begin, n, entry.tensor.type_name);
    entry.tensor.data = map->data + p->data_at + begin;
    entry.tensor.bytes = (size_t)(end - begin);
    return pkv__add_tensor(p->file, &entry, p->name, strlen(p->name));
}

/* ---------------------------------------------------------------- one file */

static pkv_status read_metadata(const place *p, const json_t *metadata)
{
    const char *key;
    json_t *value;
    if (!json_is_object(metadata)) return refuse(p, PKV_E_FORMAT, "is no object");
    json_object_foreach((json_t *)(uintptr_t)metadata, key, value)
    {
        if (!json_is_string(value)) return refuse(p, PKV_E_FORMAT, "holds more than texts");
        if (p->part > 0) continue; /* shards repeat it */
        const size_t n = json_string_length(value);
        pkv__meta_entry entry = { .part = p->part, .at = LENGTH_BYTES };
        entry.meta.type = PKV__META_TEXT;
        entry.meta.text = pkv__text_keep(p->file, json_string_value(value), n);
        entry.meta.text_bytes = n;
        if (!entry.meta.text) return PKV_E_NO_MEMORY;
        const pkv_status status = pkv__add_meta(p->file, &entry, key, strlen(key));
        if (status != PKV_OK) return status;
    }
    return PKV_OK;
}

/* No overlap, no hole, nothing left over. */
static pkv_status check_cover(pkv__tensor_file *file, int32_t part, size_t first, size_t data_at)
{
    const pkv__file_map *map = &file->parts[part];
    const uint8_t *covered = map->data + data_at;
    pkv__sort_by_place(file, first);
    for (size_t k = first; k < file->n_tensors; k++) {
        const pkv__tensor_entry *e = &file->tensors[k];
        const place p = { file, part, e->tensor.name, data_at };
        if (e->tensor.data != covered)
            return refuse(&p, PKV_E_FORMAT,
                          e->tensor.data < covered ? "overlaps its neighbour" : "a hole before it");
        covered += e->tensor.bytes;
    }
    if (covered != map->data + map->bytes)
        return pkv__refuse_at(file, part, (uint64_t)(covered - map->data), PKV_E_FORMAT,
                              "%zu bytes belong to no tensor",
                              (size_t)(map->data + map->bytes - covered));
    return PKV_OK;
}

static pkv_status read_header(pkv__tensor_file *file, int32_t part, const json_t *header,
                              size_t data_at)
{
    const size_t first = file->n_tensors;
    const char *name;
    json_t *info;
    json_object_foreach((json_t *)(uintptr_t)header, name, info)
    {
        const place p = { file, part, name, data_at };
        const pkv_status status =
            strcmp(name, METADATA) == 0 ? read_metadata(&p, info) : read_tensor(&p, info);
        if (status != PKV_OK) return status;
    }
    return check_cover(file, part, first, data_at);
}

/* *out is an object, to be given back with json_decref. `at` is where the text begins in the file.
 */
static pkv_status parse_object(const pkv__tensor_file *file, const pkv__file_map *map, size_t at,
                               size_t bytes, json_t **out)
{
    char shown[PKV__SHOWN];
    json_error_t error;
    json_t *object =
        json_loadb((const char *)map->data + at, bytes, JSON_REJECT_DUPLICATES, &error);
    if (!object && json_error_code(&error) == json_error_out_of_memory) return PKV_E_NO_MEMORY;
    if (!object)
        return pkv__refuse(&file->log, PKV_E_FORMAT, "%.64s: byte %zu: not JSON: %s",
                           pkv__base_name(map->path),
                           at + (size_t)(error.position > 0 ? error.position : 0),
                           pkv__shown(error.text, strlen(error.text), shown));
    if (!json_is_object(object)) {
        json_decref(object);
        return pkv__refuse(&file->log, PKV_E_FORMAT, "%.64s: byte %zu: no JSON object",
                           pkv__base_name(map->path), at);
    }
    *out = object;
    return PKV_OK;
}

pkv_status pkv__read_safetensors(pkv__tensor_file *file, int32_t part)
{
    const pkv__file_map *map = &file->parts[part];
    uint64_t length;
    json_t *header;
    file->format = "safetensors";
    if (map->bytes < LENGTH_BYTES)
        return pkv__refuse_at(file, part, map->bytes, PKV_E_FORMAT, "too short for a header");
    memcpy(&length, map->data, sizeof(length));
    if (length > map->bytes - LENGTH_BYTES || length > MAX_HEADER)
        return pkv__refuse_at(file, part, 0, PKV_E_FORMAT,
                              "a header of %" PRIu64 " bytes in a file of %zu", length, map->bytes);
    if (length == 0 || map->data[LENGTH_BYTES] != '{')
        return pkv__refuse_at(file, part, LENGTH_BYTES, PKV_E_FORMAT,
                              "the header begins with no {");
    pkv_status status = parse_object(file, map, LENGTH_BYTES, (size_t)length, &header);
    if (status != PKV_OK) return status;
    status = read_header(file, part, header, LENGTH_BYTES + (size_t)length);
    json_decref(header);
    return status;
}

/* ---------------------------------------------------------------- several files */

/* A name of a file beside the index, and nothing else. */
static bool is_plain_name(const char *name)
{
    return name[0] != '\0' && !strpbrk(name, "/\\") && strcmp(name, ".") != 0 &&
           !strstr(name, "..");
}

typedef struct index_file {
    pkv__tensor_file *file;
    const pkv__file_map *map; /* of the index */
    json_t *shards;           /* name -> number of the part */
} index_file;

#define BAD_INDEX(x, status, fmt, ...)                                                             \
    pkv__refuse(&(x)->file->log, status, "%.64s: " fmt, pkv__base_name((x)->map->path), __VA_ARGS__)

static pkv_status open_shard(index_file *x, const char *name)
{
    size_t bytes;
    if (json_object_size(x->shards) == MAX_SHARDS)
        return BAD_INDEX(x, PKV_E_FORMAT, "byte 0: more than %d shards", MAX_SHARDS);
    char *path = pkv__path_join(&x->file->alloc, x->map->path, false, name, &bytes);
    if (!path) return PKV_E_NO_MEMORY;
    pkv_status status = pkv__part_open(x->file, path);
    pkv__free(&x->file->alloc, path, bytes);
    if (status != PKV_OK) return status;
    const int32_t part = (int32_t)x->file->n_parts - 1;
    status = pkv__read_safetensors(x->file, part);
    if (status != PKV_OK) return status;
    return json_object_set_new(x->shards, name, json_integer(part)) == 0 ? PKV_OK : PKV_E_NO_MEMORY;
}

static pkv_status open_shards(index_file *x, json_t *weight_map)
{
    const char *tensor;
    json_t *value;
    char shown[PKV__SHOWN];
    json_object_foreach(weight_map, tensor, value)
    {
        const char *name = json_string_value(value);
        if (!name || !is_plain_name(name))
            return BAD_INDEX(x, PKV_E_FORMAT, "byte 0: %s lies in no file beside the index",
                             pkv__shown(tensor, strlen(tensor), shown));
        if (json_object_get(x->shards, name)) continue;
        const pkv_status status = open_shard(x, name);
        if (status != PKV_OK) return status;
    }
    return PKV_OK;
}

static pkv_status check_map(index_file *x, json_t *weight_map)
{
    const char *tensor;
    json_t *value;
    char shown[PKV__SHOWN];
    pkv_status status = pkv__sort_tensors(x->file);
    if (status != PKV_OK) return status;
    json_object_foreach(weight_map, tensor, value)
    {
        const pkv__tensor *t = pkv__tensor_file_find(x->file, tensor);
        const json_t *part = json_object_get(x->shards, json_string_value(value));
        /* The tensor is the first member of its entry. */
        if (!t || ((const pkv__tensor_entry *)t)->part != json_integer_value(part))
            return BAD_INDEX(x, PKV_E_FORMAT, "byte 0: %s is not in the shard %.64s",
                             pkv__shown(tensor, strlen(tensor), shown), json_string_value(value));
    }
    return PKV_OK;
}

static pkv_status read_index(index_file *x)
{
    json_t *index;
    pkv_status status = parse_object(x->file, x->map, 0, x->map->bytes, &index);
    if (status != PKV_OK) return status;
    json_t *weight_map = json_object_get(index, "weight_map");
    x->shards = json_object();
    if (!x->shards) status = PKV_E_NO_MEMORY;
    else if (!json_is_object(weight_map) || json_object_size(weight_map) == 0)
        status = BAD_INDEX(x, PKV_E_FORMAT, "byte 0: %s", "no weight_map");
    if (status == PKV_OK) status = open_shards(x, weight_map);
    if (status == PKV_OK) status = check_map(x, weight_map);
    json_decref(x->shards);
    json_decref(index);
    return status;
}

pkv_status pkv__read_safetensors_index(pkv__tensor_file *file, const char *path)
{
    pkv__file_map map;
    pkv_status status = pkv__file_map_open(path, true, MAX_HEADER, &file->log, &file->alloc, &map);
    if (status != PKV_OK) return status;
    index_file x = { file, &map, NULL };
    file->format = "safetensors";
    status = read_index(&x);
    if (status == PKV_OK) status = pkv__file_map_check(&map, &file->log);
    pkv__file_map_close(&map, &file->alloc);
    return status;
}
