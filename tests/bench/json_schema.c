/* A small validator for bench/schema.json. */
#include "json_schema.h"

#include <stdio.h>
#include <string.h>

static bool type_is(const json_t *value, const char *type)
{
    if (strcmp(type, "object") == 0) return json_is_object(value);
    if (strcmp(type, "array") == 0) return json_is_array(value);
    if (strcmp(type, "string") == 0) return json_is_string(value);
    if (strcmp(type, "integer") == 0) return json_is_integer(value);
    if (strcmp(type, "number") == 0) return json_is_number(value);
    if (strcmp(type, "boolean") == 0) return json_is_boolean(value);
    return strcmp(type, "null") == 0 && json_is_null(value);
}

static bool type_fits(const json_t *types, const json_t *value)
{
    size_t i;
    json_t *type;
    if (!types) return true;
    if (json_is_string(types)) return type_is(value, json_string_value(types));
    json_array_foreach(types, i, type) if (type_is(value, json_string_value(type))) return true;
    return false;
}

static bool enum_fits(const json_t *list, const json_t *value)
{
    size_t i;
    json_t *item;
    if (!list) return true;
    json_array_foreach(list, i, item) if (json_equal(item, value)) return true;
    return false;
}

static bool check_object(const json_t *schema, const json_t *value, const char *path, char *why,
                         size_t size)
{
    const json_t *properties = json_object_get(schema, "properties");
    const json_t *others = json_object_get(schema, "additionalProperties");
    const char *key;
    json_t *item;
    size_t i;
    json_array_foreach(json_object_get(schema, "required"), i, item)
    {
        if (json_object_get(value, json_string_value(item))) continue;
        snprintf(why, size, "%s: %s is missing", path, json_string_value(item));
        return false;
    }
    json_t *members = json_deep_copy(value); /* iteration wants it writable */
    bool ok = members != NULL;
    json_object_foreach(members, key, item)
    {
        char below[512];
        const json_t *sub = properties ? json_object_get(properties, key) : NULL;
        snprintf(below, sizeof(below), "%s.%s", path, key);
        if (!sub && json_is_object(others)) sub = others;
        if (!sub && json_is_false(others)) {
            snprintf(why, size, "%s is not in the schema", below);
            ok = false;
        } else if (sub) {
            ok = json_schema_check(sub, item, below, why, size);
        }
        if (!ok) break;
    }
    json_decref(members);
    return ok;
}

bool json_schema_check(const json_t *schema, const json_t *value, const char *path, char *why,
                       size_t size)
{
    if (!type_fits(json_object_get(schema, "type"), value) ||
        !enum_fits(json_object_get(schema, "enum"), value)) {
        snprintf(why, size, "%s has the wrong type or value", path);
        return false;
    }
    if (json_is_object(value)) return check_object(schema, value, path, why, size);
    const json_t *items = json_object_get(schema, "items");
    for (size_t i = 0; items && i < json_array_size(value); i++) {
        char below[512];
        snprintf(below, sizeof(below), "%s[%zu]", path, i);
        if (!json_schema_check(items, json_array_get(value, i), below, why, size)) return false;
    }
    return true;
}
