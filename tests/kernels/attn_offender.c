/* Is the offender that a device names one? Which of several it names is open. */
#include "attn_instance.h"

static bool names_entry(const struct attn_instance *inst, uint32_t bits, int32_t seq, int64_t idx,
                        int32_t value)
{
    const pkv_attn_batch *b = &inst->batch;
    const int64_t first = b->table_indptr ? b->table_indptr[seq] : seq * b->table_stride;
    const int64_t n = b->table_indptr ? (int64_t)b->table_indptr[seq + 1] - first : b->table_stride;
    if (!b->table || idx >= n || first < 0) return false;
    if (b->table_indptr && first + idx >= b->table_stride) return false;
    if (b->table[first + idx] != value) return false;
    if (bits & PKV_BAD_NULL_BLOCK && value == 0) return true;
    return bits & PKV_BAD_RANGE && (value < 0 || value >= inst->k.n_blocks);
}

bool attn_offends(const struct attn_instance *inst)
{
    const pkv_attn_batch *b = &inst->batch;
    const uint32_t bits = inst->bad[0];
    const int64_t idx = inst->bad[2];
    const int32_t seq = (int32_t)inst->bad[1], value = (int32_t)inst->bad[3];
    if (seq < 0 || seq >= b->n_seqs) return false;
    if (bits & PKV_BAD_SHORT_ROW && value == b->kv_len[seq]) return true;
    if (bits & PKV_BAD_LENGTH && idx == seq && value == b->kv_len[seq]) return true;
    if (bits & PKV_BAD_Q_INDPTR && idx == seq + 1 && value == b->q_indptr[seq + 1]) return true;
    if (bits & PKV_BAD_MASK && idx == inst->opts.mask_stride * 32) return true;
    return names_entry(inst, bits, seq, idx, value);
}
