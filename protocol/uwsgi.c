/* SPDX-License-Identifier: MIT
 *
 * The uwsgi protocol, as nginx's uwsgi_pass speaks it: one request per
 * connection. Pure: no descriptor, no clock, no logging. Any process.
 *
 *     request   = modifier1 length modifier2 block body
 *     modifier1 = byte, 0 for a WSGI request        modifier2 = byte, ignored
 *     length    = 16 bits, little endian            bytes of block
 *     block     = *(size name size value)           sizes as length
 *     body      = CONTENT_LENGTH bytes; none without it
 */
#include "protocol/uwsgi.h"

#include <string.h>

enum uwsgi_phase {
    PHASE_HEAD,
    PHASE_BLOCK,
    PHASE_BODY,
    PHASE_DONE, /* bytes that still come are ignored */
};

enum { HEAD_LEN = 4, GO_ON = -1 };

static unsigned
get16(const char *p)
{
    return (unsigned)(unsigned char)p[0] | (unsigned)(unsigned char)p[1] << 8;
}

/* The sizes of all pairs count with the block, at most four bytes of each. */
static bool
is_too_long(const struct decoder *d)
{
    return d->scgi.block_len > (uint64_t)d->limits.params_bytes +
                                   4 * (uint64_t)d->limits.params_count;
}

static int
head_end(struct decoder *d)
{
    const char *head = (const char *)d->scgi.head;
    struct request *r;

    if (head[0] != 0) {
        return (int)decoder_bad(d,
                                "a uwsgi request with modifier1 %u: only 0 "
                                "(WSGI) is served (nginx: uwsgi_modifier1)",
                                (unsigned)(unsigned char)head[0]);
    }
    d->scgi.block_len = get16(head + 1);
    r = decoder_begin(d);
    r->protocol = REQUEST_UWSGI;
    r->role = REQUEST_RESPONDER;
    d->scgi.phase = PHASE_BLOCK;
    if (is_too_long(d)) {
        request_refuse(r, 431,
                       "a uwsgi block of %u bytes is over %zu bytes "
                       "(max_params_size) in %zu parameters (max_params)",
                       d->scgi.block_len, d->limits.params_bytes,
                       d->limits.params_count);
    }
    return GO_ON;
}

/* Where a size and that many bytes stand. False: not inside the block. */
static bool
next_string(const struct buf *b, size_t *pos, uint32_t *ret, uint32_t *ret_len)
{
    size_t len;

    if (b->len - *pos < 2) {
        return false;
    }
    len = get16(b->data + *pos);
    if (b->len - *pos - 2 < len) {
        return false;
    }
    *ret = (uint32_t)(*pos + 2);
    *ret_len = (uint32_t)len;
    *pos += 2 + len;
    return true;
}

static int
block_end(struct decoder *d)
{
    struct request *r = &d->first;
    unsigned number = 0;
    size_t pos = 0;

    while (pos < r->params.len) {
        struct request_param p;

        number++;
        if (!next_string(&r->params, &pos, &p.name, &p.name_len) ||
            !next_string(&r->params, &pos, &p.value, &p.value_len)) {
            return (int)decoder_bad(d,
                                    "malformed uwsgi request: variable %u does "
                                    "not end within the block of %u bytes",
                                    number, d->scgi.block_len);
        }
        if (p.name_len == 0) {
            return (int)decoder_bad(d,
                                    "malformed uwsgi request: variable %u has "
                                    "an empty name",
                                    number);
        }
        request_add_param(r, &d->limits, p.name, p.name_len, p.value,
                          p.value_len);
    }
    request_end_params(r, &d->limits);
    d->scgi.phase = PHASE_BODY;
    d->scgi.body_left = r->content_length > 0 ? (uint64_t)r->content_length : 0;
    d->req = r;
    return DECODE_HEAD;
}

static void
block_bytes(struct decoder *d, const char *data, size_t len)
{
    struct request *r = &d->first;

    d->scgi.block_seen += (uint32_t)len;
    if (r->refuse_status == 0 && buf_append(&r->params, data, len) < 0) {
        request_refuse(r, 503, "out of memory for %u bytes of parameters",
                       d->scgi.block_len);
    }
    if (r->refuse_status != 0) {
        buf_clear(&r->params);
    }
}

enum decode_event
uwsgi_feed(struct decoder *d, const char *data, size_t len, size_t *ret_used)
{
    struct scgi_state *s = &d->scgi;
    size_t used = 0, n;
    int ev = GO_ON;

    while (ev == GO_ON) {
        if (s->phase == PHASE_BLOCK && s->block_seen == s->block_len) {
            ev = block_end(d);
        } else if (s->phase == PHASE_BODY && s->body_left == 0) {
            s->phase = PHASE_DONE;
            d->first.body_done = true;
            d->req = &d->first;
            ev = DECODE_BODY_END;
        } else if (s->phase == PHASE_DONE) {
            used = len;
            ev = DECODE_MORE;
        } else if (used == len) {
            ev = DECODE_MORE;
        } else if (s->phase == PHASE_BODY) {
            n = len - used < s->body_left ? len - used : (size_t)s->body_left;
            s->body_left -= n;
            if (decoder_body(d, &d->first, data + used, n) == DECODE_BODY) {
                ev = DECODE_BODY;
            }
            used += n;
        } else if (s->phase == PHASE_BLOCK) {
            n = s->block_len - s->block_seen;
            n = n < len - used ? n : len - used;
            block_bytes(d, data + used, n);
            used += n;
        } else {
            s->head[s->head_len++] = (unsigned char)data[used++];
            if (s->head_len == HEAD_LEN) {
                ev = head_end(d);
            }
        }
    }
    *ret_used = used;
    return (enum decode_event)ev;
}

void
uwsgi_ended(struct decoder *d)
{
    d->scgi.phase = PHASE_DONE;
    d->scgi.body_left = 0;
}

bool
uwsgi_is_idle(const struct decoder *d)
{
    return d->scgi.phase == PHASE_DONE ||
           (d->scgi.phase == PHASE_HEAD && d->scgi.head_len == 0);
}
