/* What has been exercised: how many units of work of each kind (an operation, or a family of
 * kernels of it) ran with each feature, per level of the kernel that took it and dtype. A feature
 * that a full run never met is a failure: a case list that quietly stopped drawing it proves
 * nothing. */
#ifndef PKV_COVERAGE_H
#define PKV_COVERAGE_H

#include "pagedkv/backend.h"

/* One more unit of `what` with `feature`, through a kernel of level `isa`. The strings are static.
 */
void cover(const char *what, pkv_isa isa, pkv_dtype dtype, const char *feature);
/* A full run must meet `feature` with every dtype of first .. last that it meets `what` with. */
void cover_expect(const char *what, const char *feature, pkv_dtype first, pkv_dtype last);
/* But not at this level, which refuses it. */
void cover_absent(const char *what, pkv_isa isa, pkv_dtype dtype, const char *feature);
/* A full run at level `isa` must meet `what` with every dtype of first .. last. */
void cover_require(const char *what, pkv_isa isa, pkv_dtype first, pkv_dtype last);
/* A unit at level `asked` went to the kernel `name`, though one of level `want` has to exist. */
void cover_wrong(pkv_isa asked, const char *name, pkv_isa want);
/* Print the table; returns how many kernels were wrongly chosen and, if `full`, how many
 * expected cells are empty; each of them is named. */
int cover_print(bool full);

#endif
