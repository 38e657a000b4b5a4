/* SPDX-License-Identifier: MIT
 *
 * SCGI: one request per connection, its parameters in a netstring.
 * Pure: no descriptor, no clock, no logging. Any process.
 *
 *     request   = length ":" block "," body
 *     length    = "0" | digit1-9 *digit             bytes of block
 *     block     = *(name NUL value NUL)             name is not empty
 *     body      = CONTENT_LENGTH bytes
 *
 * CONTENT_LENGTH comes first in the block, and SCGI with the value 1 is in it.
 */
#include "protocol/scgi.h"

#include <inttypes.h>
#include <string.h>

enum scgi_phase {
    PHASE_START,  /* the first digit of the length */
    PHASE_LENGTH, /* more digits, or ":" */
    PHASE_ZERO,   /* the length begins with 0: only ":" may follow */
    PHASE_BLOCK,
    PHASE_COMMA,
    PHASE_BODY,
    PHASE_DONE, /* bytes that still come are ignored */
};

enum {
    /* A longer header block is not even skipped. */
    BLOCK_MAX = 16 * 1024 * 1024,
    /* Of a block that is skipped, what is kept for the log and the length of
     * the body. */
    KEEP_OF_SKIPPED = 4096,
};

enum { GO_ON = -1 };

/* The longest block that can be within the limits: two NULs per parameter. */
static uint64_t
block_limit(const struct decoder *d)
{
    return (uint64_t)d->limits.params_bytes +
           2 * (uint64_t)d->limits.params_count;
}

static int
length_byte(struct decoder *d, unsigned char c)
{
    struct scgi_state *s = &d->scgi;

    if (c == ':' && s->phase != PHASE_START) {
        s->phase = s->block_len > 0 ? PHASE_BLOCK : PHASE_COMMA;
        return GO_ON;
    }
    if (c < '0' || c > '9') {
        return (int)decoder_bad(d,
                                "malformed SCGI request: byte 0x%02x in the "
                                "length of the header block, where a digit "
                                "or ':' is expected",
                                c);
    }
    if (s->phase == PHASE_ZERO) {
        return (int)decoder_bad(d, "malformed SCGI request: the length of the "
                                   "header block begins with 0");
    }
    s->phase = s->phase == PHASE_START && c == '0' ? PHASE_ZERO : PHASE_LENGTH;
    s->block_len = s->block_len * 10 + (uint32_t)(c - '0');
    if (s->block_len > BLOCK_MAX) {
        return (int)decoder_bad(d,
                                "the SCGI header block is announced with more "
                                "than %d bytes",
                                BLOCK_MAX);
    }
    return GO_ON;
}

static int
block_bytes(struct decoder *d, const char *data, size_t len)
{
    struct scgi_state *s = &d->scgi;
    struct request *r = &d->first;
    size_t keep = len;

    if (s->block_seen == 0) {
        r = decoder_begin(d);
        r->protocol = REQUEST_SCGI;
    }
    if (s->block_len > block_limit(d)) {
        keep = s->block_seen < KEEP_OF_SKIPPED ? KEEP_OF_SKIPPED - s->block_seen
                                               : 0;
        keep = keep < len ? keep : len;
    }
    s->block_seen += (uint32_t)len;
    if (r->refuse_status == 0 && buf_append(&r->params, data, keep) < 0) {
        request_refuse(r, 503, "out of memory for %u bytes of parameters",
                       s->block_len);
    }
    if (s->block_seen == s->block_len) {
        s->phase = PHASE_COMMA;
    }
    return GO_ON;
}

/* Find the next name and value from *pos. False when they are not both
 * NUL-terminated inside the block. */
static bool
next_pair(const struct buf *b, size_t *pos, struct request_param *ret)
{
    const char *name = b->data + *pos;
    const char *end = b->data + b->len;
    const char *name_end = memchr(name, 0, (size_t)(end - name));
    const char *value_end;

    if (name_end == NULL) {
        return false;
    }
    value_end = memchr(name_end + 1, 0, (size_t)(end - name_end - 1));
    if (value_end == NULL) {
        return false;
    }
    ret->name = (uint32_t)*pos;
    ret->name_len = (uint32_t)(name_end - name);
    ret->value = ret->name + ret->name_len + 1;
    ret->value_len = (uint32_t)(value_end - name_end - 1);
    *pos = ret->value + ret->value_len + 1;
    return true;
}

/* What is there of a block that is too long, or of one whose memory ran out:
 * for the log, and CONTENT_LENGTH so that the body can be drained. */
static void
parse_kept(struct decoder *d, struct request *r)
{
    struct request_param p;
    size_t pos = 0;

    while (pos < r->params.len && next_pair(&r->params, &pos, &p)) {
        if (request_add_param(r, &d->limits, p.name, p.name_len, p.value,
                              p.value_len) < 0) {
            break;
        }
    }
}

static bool
is_name(const struct request *r, const struct request_param *p,
        const char *name, size_t len)
{
    return p->name_len == len &&
           memcmp(r->params.data + p->name, name, len) == 0;
}

/* Checks that need one pair only. */
static int
check_pair(struct decoder *d, const struct request *r,
           const struct request_param *p, unsigned number)
{
    bool is_length = is_name(r, p, "CONTENT_LENGTH", 14);
    const char *value = r->params.data + p->value;
    uint32_t i;

    if (p->name_len == 0) {
        return (int)decoder_bad(d,
                                "malformed SCGI request: header %u has an "
                                "empty name",
                                number);
    }
    if (number == 1 && !is_length) {
        return (int)decoder_bad(d,
                                "malformed SCGI request: the first header is "
                                "%.*s where CONTENT_LENGTH is expected",
                                p->name_len < 48 ? (int)p->name_len : 48,
                                r->params.data + p->name);
    }
    if (number > 1 && is_length) {
        return (int)decoder_bad(d, "malformed SCGI request: CONTENT_LENGTH "
                                   "comes more than once");
    }
    for (i = 0; is_length && i < p->value_len; i++) {
        if (value[i] < '0' || value[i] > '9') {
            break;
        }
    }
    if (is_length &&
        (p->value_len == 0 || p->value_len > 18 || i < p->value_len)) {
        return (int)decoder_bad(d,
                                "malformed SCGI request: CONTENT_LENGTH is "
                                "\"%.*s\" where 1 to 18 digits are expected",
                                p->value_len < 48 ? (int)p->value_len : 48,
                                value);
    }
    return GO_ON;
}

static int
parse_block(struct decoder *d, struct request *r)
{
    size_t pos = 0;
    unsigned number = 0;
    bool version = false;
    struct request_param p;

    while (pos < r->params.len) {
        int ev;

        number++;
        if (!next_pair(&r->params, &pos, &p)) {
            return (int)decoder_bad(d,
                                    "malformed SCGI request: header %u is not "
                                    "a name and a value with a NUL byte "
                                    "behind each",
                                    number);
        }
        ev = check_pair(d, r, &p, number);
        if (ev != GO_ON) {
            return ev;
        }
        if (is_name(r, &p, "SCGI", 4)) {
            version = p.value_len == 1 && r->params.data[p.value] == '1';
        }
        request_add_param(r, &d->limits, p.name, p.name_len, p.value,
                          p.value_len);
    }
    if (number == 0) {
        return (int)decoder_bad(d, "malformed SCGI request: the header block "
                                   "is empty, CONTENT_LENGTH is missing");
    }
    if (!version) {
        return (int)decoder_bad(d, "malformed SCGI request: the header SCGI "
                                   "with the value 1 is missing");
    }
    return GO_ON;
}

static int
block_end(struct decoder *d, unsigned char c)
{
    struct scgi_state *s = &d->scgi;
    struct request *r = &d->first;

    if (c != ',') {
        return (int)decoder_bad(d,
                                "malformed SCGI request: byte 0x%02x behind "
                                "the header block of %u bytes, where ',' is "
                                "expected",
                                c, s->block_len);
    }
    if (s->block_len > block_limit(d)) {
        parse_kept(d, r);
        request_refuse(r, 431,
                       "an SCGI header block of %u bytes is over %zu bytes "
                       "(max_params_size) in %zu parameters (max_params)",
                       s->block_len, d->limits.params_bytes,
                       d->limits.params_count);
    } else if (r->refuse_status != 0) {
        parse_kept(d, r);
    } else {
        int ev = parse_block(d, r);

        if (ev != GO_ON) {
            return ev;
        }
    }
    request_end_params(r, &d->limits);
    s->phase = PHASE_BODY;
    s->body_left = r->content_length > 0 ? (uint64_t)r->content_length : 0;
    d->req = r;
    return DECODE_HEAD;
}

static int
body_byte_range(struct decoder *d, const char *data, size_t avail, size_t *used)
{
    struct scgi_state *s = &d->scgi;
    size_t n = avail < s->body_left ? avail : (size_t)s->body_left;

    s->body_left -= n;
    *used += n;
    return decoder_body(d, &d->first, data, n) == DECODE_BODY ? DECODE_BODY
                                                              : GO_ON;
}

enum decode_event
scgi_feed(struct decoder *d, const char *data, size_t len, size_t *ret_used)
{
    struct scgi_state *s = &d->scgi;
    size_t used = 0, n;
    int ev = GO_ON;

    while (ev == GO_ON) {
        if (s->phase == PHASE_BODY && s->body_left == 0) {
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
            ev = body_byte_range(d, data + used, len - used, &used);
        } else if (s->phase == PHASE_BLOCK) {
            n = s->block_len - s->block_seen;
            n = n < len - used ? n : len - used;
            ev = block_bytes(d, data + used, n);
            used += n;
        } else if (s->phase == PHASE_COMMA) {
            ev = block_end(d, (unsigned char)data[used++]);
        } else {
            ev = length_byte(d, (unsigned char)data[used++]);
        }
    }
    *ret_used = used;
    return (enum decode_event)ev;
}

void
scgi_ended(struct decoder *d)
{
    d->scgi.phase = PHASE_DONE;
    d->scgi.body_left = 0;
}

bool
scgi_is_idle(const struct decoder *d)
{
    return d->scgi.phase == PHASE_START || d->scgi.phase == PHASE_DONE;
}
