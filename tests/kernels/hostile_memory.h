/* Memory that answers back. A buffer ends where a page without access begins, so that one byte
 * too far is a signal; in front of it, up to the page border, lie canary bytes.
 *
 *   | canary ....... | data [bytes] || no access |
 *
 * Bytes of 0xff are a NaN in f32, f16 and bf16, and -1 as an id. */
#ifndef PKV_HOSTILE_MEMORY_H
#define PKV_HOSTILE_MEMORY_H

#include <stdbool.h>
#include <stddef.h>

struct hostile {
    unsigned char *map, *data;
    size_t map_bytes, bytes;
};

/* Data is filled with `fill`. `bytes` is a multiple of the alignment its user needs, as the end is
 * page-aligned; 0 is fine. Ends the program if there is no memory. */
struct hostile hostile_create(size_t bytes, unsigned char fill);
void hostile_destroy(struct hostile *m);
/* From now on writing is a signal, too. */
void hostile_lock(struct hostile *m);
/* Nobody wrote in front. */
bool hostile_intact(const struct hostile *m);

/* Address space without memory behind it until touched; NULL if the system refuses. */
void *sparse_create(size_t bytes);
void sparse_destroy(void *data, size_t bytes);

#endif
