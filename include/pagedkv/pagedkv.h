/* All of PagedKV's public headers. Declares nothing itself. */
#ifndef PAGEDKV_PAGEDKV_H
#define PAGEDKV_PAGEDKV_H

#include "pagedkv/attention.h"
#include "pagedkv/backend.h"
#include "pagedkv/base.h"
#include "pagedkv/blockmgr.h"
#include "pagedkv/blockmgr_config.h"
#include "pagedkv/blockmgr_holds.h"
#include "pagedkv/blockmgr_raw.h"
#include "pagedkv/blockmgr_stats.h"
#include "pagedkv/blockmgr_steps.h"
#include "pagedkv/blockmgr_tables.h"
#include "pagedkv/moves.h"
#include "pagedkv/sim.h"
#include "pagedkv/sim_input.h"
#include "pagedkv/sim_result.h"
#include "pagedkv/store.h"
#include "pagedkv/views.h"

#endif
