/* The part of JSON Schema that bench/schema.json uses: type, enum, required, properties,
 * additionalProperties, items. */
#ifndef PKV_JSON_SCHEMA_H
#define PKV_JSON_SCHEMA_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

/* False: `why` names the place and what is wrong. */
bool json_schema_check(const json_t *schema, const json_t *value, const char *path, char *why,
                       size_t size);

#endif
