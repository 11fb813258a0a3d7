/* Writes down what an observer sees, as plain numbers that can be compared byte for byte. */
#ifndef PKV_SIM_RECORDER_H
#define PKV_SIM_RECORDER_H

#include "pagedkv/sim.h"

typedef struct recorder {
    pkv_sim_observer observer; /* for the config; ctx is the recorder */
    int64_t pool_units;        /* what the parts of a sample must sum to */
    int32_t n_requests, max_num_seqs;
    pkv_sim_event *events;
    int64_t n_events, cap_events;
    pkv_sim_sample *samples; /* map: a pointer into nowhere, see maps */
    uint8_t *maps;           /* [n_samples][map_cells]; 0 where there was none */
    int64_t n_samples, cap_samples;
    int64_t n_bad; /* samples whose parts are negative or do not sum to the pool, events before the
                      one in front of them */
} recorder;

/* Events, and with interval_ns > 0 samples. */
void recorder_init(recorder *rec, int64_t interval_ns, int32_t map_cells, int64_t pool_units);
void recorder_deinit(recorder *rec);
bool recorder_equal(const recorder *a, const recorder *b);

#endif
