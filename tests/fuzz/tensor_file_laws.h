/* What holds for every weight file that opens, for the fuzz targets of its formats. */
#ifndef PKV_FUZZ_TENSOR_FILE_LAWS_H
#define PKV_FUZZ_TENSOR_FILE_LAWS_H

#include <stddef.h>
#include <stdint.h>

/* Open the bytes as a file of this name. If they open: check the tensors, and read the
 * configuration where the format carries one. Memory is bounded by the bytes and given back. */
void tensor_file_laws(const uint8_t *data, size_t size, const char *name);

#endif
