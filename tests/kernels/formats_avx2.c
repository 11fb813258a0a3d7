/* The avx2 level's loads, with its flags; runs only where the CPU has them. */
#include "kernels/x86/avx2_formats.h"

#include "kernels/formats_probe.inc"

const struct formats formats_avx2 = { "avx2",      LANES,        probe_pair,
                                      probe_codes, probe_values, probe_has_nan_code };
