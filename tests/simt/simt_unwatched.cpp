/* Nobody watches: builds A and B. */
#include "simt_int.h"

namespace simt
{
const hooks watcher = {};
}
