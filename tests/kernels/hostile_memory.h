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
/* Bytes that must not be read, and those that may be again. Only AddressSanitizer sees it, in steps
 * of 8 bytes: what is forbidden starts at any byte and ends at a multiple of 8, or is allowed again
 * up to any byte from a multiple of 8 on. */
void hostile_forbid(void *data, size_t bytes);
void hostile_allow(void *data, size_t bytes);
/* Memory of the caller's (variables, malloc) that a device may touch for a while: what is created
 * here is lent by itself. Nothing happens where no device watches. */
void hostile_lend(void *data, size_t bytes);
void hostile_unlend(void *data);
/* Destroy all that is left of a run that did not come to its end. */
void hostile_release_all(void);
/* Nobody wrote in front. */
bool hostile_intact(const struct hostile *m);

/* Address space without memory behind it until touched; NULL if the system refuses. */
void *sparse_create(size_t bytes);
void sparse_destroy(void *data, size_t bytes);

#endif
