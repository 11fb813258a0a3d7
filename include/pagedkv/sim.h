/* The fragmentation simulator as a library. Experimental: may change in any release. */
#ifndef PAGEDKV_SIM_H
#define PAGEDKV_SIM_H

#include "pagedkv/base.h"

#endif
