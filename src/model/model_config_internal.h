/* Inside the configuration: what its three sources share. Every number goes through pkv__config_int
 * or pkv__config_check before anything is multiplied with it. */
#ifndef PKV_MODEL_CONFIG_INTERNAL_H
#define PKV_MODEL_CONFIG_INTERNAL_H

#include "model/model_config.h"

#include <string.h>

/* Largest values taken. Far above every published model, and their products stay below 2^63. */
#define PKV__MAX_VOCAB (1 << 24)
#define PKV__MAX_HIDDEN (1 << 18)
#define PKV__MAX_HEADS (1 << 12)
#define PKV__MAX_HEAD_DIM 512 /* half of it is what the lists of longrope hold */
#define PKV__MAX_FFN (1 << 20)
#define PKV__MAX_CONTEXT (1 << 28)
#define PKV__MAX_PROJECTED (1 << 20) /* heads * head_dim */

struct json_t;

/* Neutral values: no rotary scaling, no bos, no eos. */
void pkv__config_init(pkv__model_config *c);
/* value -> *out if it is in [1, max]; PKV_E_FORMAT with the name otherwise. */
PKV_NODISCARD pkv_status pkv__config_int(const pkv_logger *log, const char *name, int64_t value,
                                         int64_t max, int32_t *out);
/* Put an id into the set of eos, in order. PKV_E_LIMIT: more than PKV__MAX_EOS. */
PKV_NODISCARD pkv_status pkv__config_add_eos(pkv__model_config *c, int64_t id,
                                             const pkv_logger *log);
/* All rules that tie fields: multiples, ranges, ids below vocab, rotary numbers. */
PKV_NODISCARD pkv_status pkv__config_check(const pkv__model_config *c, const pkv_logger *log);

/* A JSON object out of the bytes of file `name`; json_decref. PKV_E_FORMAT says where it breaks. */
PKV_NODISCARD pkv_status pkv__config_object(const char *name, const char *text, size_t bytes,
                                            const pkv_logger *log, struct json_t **out);
/* The value of a key; null counts as not there, which is NULL. */
const struct json_t *pkv__config_get(const struct json_t *object, const char *key);
/* The bytes of a file beside `path`, or in it if it is a folder; pkv__file_map_close. Nothing in
 * *out and PKV_OK if it is missing and may be. */
struct pkv__file_map;
PKV_NODISCARD pkv_status pkv__config_file(const char *path, const char *name, bool may_miss,
                                          const pkv_logger *log, const pkv_allocator *alloc,
                                          struct pkv__file_map *out);

/* config.json and, if `generation` is not NULL, generation_config.json. */
PKV_NODISCARD pkv_status pkv__config_parse_json(const char *config, size_t config_bytes,
                                                const char *generation, size_t generation_bytes,
                                                const pkv_logger *log, pkv__model_config *out);
/* rope_theta, rope_scaling, rope_parameters; head_dim and context are set. */
PKV_NODISCARD pkv_status pkv__config_parse_rope(const struct json_t *config, const pkv_logger *log,
                                                pkv__model_config *c);
PKV_NODISCARD pkv_status pkv__config_from_gguf(const pkv__tensor_file *file, const pkv_logger *log,
                                               pkv__model_config *out);
PKV_NODISCARD pkv_status pkv__config_from_llama2c(const pkv__tensor_file *file,
                                                  const pkv_logger *log, pkv__model_config *out);

#endif
