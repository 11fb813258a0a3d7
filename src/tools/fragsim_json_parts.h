/* Pieces of JSON that several reports share. Each returns a new reference; NULL is no memory, and
 * the program ends where it would be put into something. */
#ifndef PKV_TOOLS_FRAGSIM_JSON_PARTS_H
#define PKV_TOOLS_FRAGSIM_JSON_PARTS_H

#include "fragsim.h"

#include <jansson.h>

#define FRAGSIM_SCHEMA_VERSION 2

/* An object with schema, version and the line that repeats it. */
json_t *fragsim_json_head(const char *schema, const fragsim_options *opts);
json_t *fragsim_json_config(const fragsim_job *job);
json_t *fragsim_json_policy(const fragsim_job *job);
json_t *fragsim_json_model(const fragsim_options *opts);
json_t *fragsim_json_input(const fragsim_options *opts, const fragsim_input *input);
json_t *fragsim_json_requests(const fragsim_input *input);
json_t *fragsim_json_forms(const pkv_sim_forms *forms);
json_t *fragsim_json_cache(const fragsim_report *report); /* null without content */
json_t *fragsim_json_notes(const fragsim_report *report);
/* The whole text with a newline at its end, and `root` is given back. */
char *fragsim_json_text(json_t *root);

/* Both take the reference. */
void fragsim_json_put(json_t *to, const char *key, json_t *value);
void fragsim_json_append(json_t *to, json_t *value);
json_t *fragsim_json_real(bool known, double value);
json_t *fragsim_json_whole(bool known, int64_t value);
json_t *fragsim_json_string(const char *text); /* NULL becomes null */

#endif
