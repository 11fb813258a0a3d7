/* Bytes to lines: one buffer, as long as the longest line.
 *
 *   buffer  [ read already | unread .......... | free ]
 *             0             from                to
 *
 * A line ends at LF; a CR before it is part of the line end. */
#include "sim/trace.h"

#define MAX_SKIPPED_BYTES ((size_t)64 << 20) /* of one line; a source may never end a line */
#define CHUNK_BYTES ((size_t)1 << 16)
#define FIRST_BUFFER_BYTES (2 * CHUNK_BYTES)

pkv_status pkv__lines_init(pkv__lines *lines, pkv_sim_read_fn read, void *ctx,
                           const pkv_sim_trace_config *cfg)
{
    *lines = (pkv__lines){ .cfg = cfg, .read = read, .ctx = ctx };
    lines->buffer_bytes = FIRST_BUFFER_BYTES;
    lines->buffer = pkv__alloc(&cfg->alloc, lines->buffer_bytes, 1);
    return lines->buffer ? PKV_OK : PKV_E_NO_MEMORY;
}

void pkv__lines_deinit(pkv__lines *lines)
{
    pkv__free(&lines->cfg->alloc, lines->buffer, lines->buffer_bytes);
    lines->buffer = NULL;
}

/* Twice the buffer, for a line that does not fit. */
static pkv_status grow_buffer(pkv__lines *lines)
{
    const size_t twice = 2 * lines->buffer_bytes, most = lines->max_line + CHUNK_BYTES;
    const size_t bytes = twice < most ? twice : most;
    char *buffer = pkv__alloc(&lines->cfg->alloc, bytes, 1);
    if (!buffer) return PKV_E_NO_MEMORY;
    memcpy(buffer, lines->buffer, lines->to);
    pkv__free(&lines->cfg->alloc, lines->buffer, lines->buffer_bytes);
    lines->buffer = buffer;
    lines->buffer_bytes = bytes;
    return PKV_OK;
}

/* Have at least one more byte behind `to`, moving what is unread to the front. */
static pkv_status fill(pkv__lines *lines)
{
    if (lines->from > 0) {
        memmove(lines->buffer, lines->buffer + lines->from, lines->to - lines->from);
        lines->to -= lines->from;
        lines->from = 0;
    }
    if (lines->to == lines->buffer_bytes) {
        const pkv_status status = grow_buffer(lines);
        if (status != PKV_OK) return status;
    }
    const size_t room = lines->buffer_bytes - lines->to;
    const size_t cap = room < CHUNK_BYTES ? room : CHUNK_BYTES;
    const int64_t got = lines->read(lines->ctx, lines->buffer + lines->to, cap);
    if (got < 0 || (uint64_t)got > cap)
        return pkv__refuse(&lines->cfg->log, PKV_E_IO, "reading the trace failed");
    if (got == 0) lines->at_end = true;
    lines->to += (size_t)got;
    lines->bytes_read += got;
    return PKV_OK;
}

static pkv_status skip_mark(pkv__lines *lines)
{
    while (lines->to < 3 && !lines->at_end) {
        const pkv_status status = fill(lines);
        if (status != PKV_OK) return status;
    }
    lines->had_bom = lines->to >= 3 && memcmp(lines->buffer, "\xef\xbb\xbf", 3) == 0;
    if (lines->had_bom) lines->from = 3;
    return PKV_OK;
}

pkv_status pkv__lines_begin(pkv__lines *lines, char *first, bool *empty)
{
    pkv_status status = skip_mark(lines);
    size_t seen = 0; /* blanks at the start of the unread line */
    *empty = false;
    while (status == PKV_OK) {
        const char *unread = lines->buffer + lines->from;
        const size_t n = lines->to - lines->from;
        while (seen < n && (unread[seen] == ' ' || unread[seen] == '\t' || unread[seen] == '\r'))
            seen++;
        *first = seen < n ? unread[seen] : ' ';
        if (seen < n && *first != '\n') return PKV_OK;
        if (seen < n) { /* a blank line */
            lines->had_crlf |= seen > 0 && unread[seen - 1] == '\r';
            lines->number++;
            lines->from += seen + 1;
            seen = 0;
            continue;
        }
        if (n > lines->max_line) return PKV_OK;
        *empty = lines->at_end;
        if (*empty) return PKV_OK;
        status = fill(lines);
    }
    return status;
}

/* Give up on a line that does not end; forget what is read of it but its first byte, so that there
 * is a line even if the source ends here. */
static pkv_status skip_ahead(pkv__lines *lines, size_t *skipped)
{
    *skipped += lines->to - lines->from - 1;
    lines->to = lines->from + 1;
    if (*skipped <= MAX_SKIPPED_BYTES) return PKV_OK;
    return pkv__refuse(&lines->cfg->log, PKV_E_FORMAT,
                       "line %lld: no line end within %d MiB; is this a text file?",
                       (long long)lines->number + 1, (int)(MAX_SKIPPED_BYTES >> 20));
}

pkv_status pkv__lines_next(pkv__lines *lines, pkv__line *out)
{
    size_t seen = 0; /* unread bytes known to hold no LF */
    size_t skipped = 0;
    *out = (pkv__line){ 0 };
    for (;;) {
        char *start = lines->buffer + lines->from;
        const size_t n = lines->to - lines->from;
        const char *end = n > seen ? memchr(start + seen, '\n', n - seen) : NULL;
        const bool cut = n > lines->max_line && !lines->skips_long;
        if (end || (lines->at_end && n > 0) || cut) {
            out->at = start;
            out->len = end ? (size_t)(end - start) : n;
            out->too_long = skipped > 0 || out->len > lines->max_line;
            lines->from += out->len + (end != NULL);
            lines->unterminated = !end;
            break;
        }
        if (lines->at_end) return PKV_OK;
        pkv_status status = n > lines->max_line ? skip_ahead(lines, &skipped) : PKV_OK;
        seen = lines->to - lines->from;
        if (status == PKV_OK) status = fill(lines);
        if (status != PKV_OK) return status;
    }
    lines->number++;
    if (out->len > 0 && out->at[out->len - 1] == '\r') {
        out->len--;
        lines->had_crlf = true;
    }
    return PKV_OK;
}

bool pkv__line_is_blank(const pkv__line *line)
{
    if (line->too_long) return false;
    for (size_t k = 0; k < line->len; k++)
        if (line->at[k] != ' ' && line->at[k] != '\t' && line->at[k] != '\r') return false;
    return true;
}
