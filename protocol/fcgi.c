/* SPDX-License-Identifier: MIT
 *
 * FastCGI 1.0: records into events, and the records that are answered by the
 * decoder itself. Pure: no descriptor, no clock, no logging. Any process.
 *
 * A record is: header (8 bytes), content, padding. Bytes may be cut anywhere;
 * what is kept between two feeds is struct fcgi_state and, of a pair that is
 * not whole yet, its beginning at the end of request->params.
 */
#include "protocol/fcgi.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum {
    BEGIN_LEN = sizeof(FCGI_BeginRequestBody),
    END_RECORD_LEN = sizeof(FCGI_EndRequestRecord),
    /* BEGINs refused with FCGI_CANT_MPX_CONN before the connection is given
     * up: a peer that does not listen. */
    REFUSED_MAX = 64,
    /* Bytes of a parameter's name that a message shows; a pair that is over the
     * limit is refused when that much of it has come. */
    SHOWN_NAME = 48,
};

/* What the functions below return beside an enum decode_event: go on. */
enum { GO_ON = -1 };

static unsigned
get16(const unsigned char *p)
{
    return (unsigned)p[0] << 8 | p[1];
}

void
fcgi_put_end(char *out, unsigned id, uint32_t app_status,
             unsigned protocol_status)
{
    fcgi_put_header(out, FCGI_END_REQUEST, id, sizeof(FCGI_EndRequestBody), 0);
    out += FCGI_HEADER_LEN;
    out[0] = (char)(app_status >> 24);
    out[1] = (char)(app_status >> 16);
    out[2] = (char)(app_status >> 8);
    out[3] = (char)app_status;
    out[4] = (char)protocol_status;
    out[5] = 0;
    out[6] = 0;
    out[7] = 0;
}

size_t
fcgi_put_length(char *out, uint32_t len)
{
    if (len < 128) {
        out[0] = (char)len;
        return 1;
    }
    out[0] = (char)(len >> 24 | 0x80);
    out[1] = (char)(len >> 16);
    out[2] = (char)(len >> 8);
    out[3] = (char)len;
    return 4;
}

/* The active request with this id, or NULL: its records are skipped then
 * ("these are to be ignored", FastCGI 1.0, section 3.3). */
static struct request *
find_request(const struct decoder *d, unsigned id)
{
    unsigned i;

    for (i = 0; i < d->limits.mpx && d->slot[i] != NULL; i++) {
        if (d->slot[i]->active && d->slot[i]->id == id) {
            return d->slot[i];
        }
    }
    return NULL;
}

/* Section 3.4: one byte below 128, else four with the top bit set. Returns how
 * many bytes the length takes, 0 when they are not all here. */
static size_t
get_length(const unsigned char *p, size_t avail, uint32_t *ret)
{
    if (avail == 0) {
        return 0;
    }
    if (p[0] < 128) {
        *ret = p[0];
        return 1;
    }
    if (avail < 4) {
        return 0;
    }
    *ret = (uint32_t)(p[0] & 0x7f) << 24 | (uint32_t)p[1] << 16 |
           (uint32_t)p[2] << 8 | p[3];
    return 4;
}

/* Take apart the pairs at the end of r->params that are whole. Stops when the
 * request is refused. A length is only compared, never allocated from. */
static void
parse_pairs(struct decoder *d, struct request *r)
{
    const char *base = r->params.data;
    size_t pos = r->params_parsed, end = r->params.len;

    while (pos < end) {
        const unsigned char *p = (const unsigned char *)base + pos;
        uint32_t name_len, value_len;
        size_t n, m, head;
        uint64_t size;

        n = get_length(p, end - pos, &name_len);
        if (n == 0) {
            break;
        }
        m = get_length(p + n, end - pos - n, &value_len);
        if (m == 0) {
            break;
        }
        head = n + m;
        size = (uint64_t)name_len + value_len;
        if (size > end - pos - head) {
            size_t here = end - pos - head;
            size_t shown = name_len < SHOWN_NAME ? name_len : SHOWN_NAME;

            if (here >= shown) {
                request_fits(r, &d->limits, base + pos + head, shown, size);
            }
            break;
        }
        if (request_add_param(r, &d->limits, (uint32_t)(pos + head), name_len,
                              (uint32_t)(pos + head + name_len),
                              value_len) < 0) {
            break;
        }
        pos += head + (size_t)size;
    }
    r->params_parsed = (uint32_t)pos;
}

static void
params_content(struct decoder *d, struct request *r, const char *data,
               size_t len)
{
    if (r->refuse_status != 0) {
        return; /* only the framing counts now */
    }
    if (buf_append(&r->params, data, len) < 0) {
        request_refuse(r, 503, "out of memory for %zu bytes of parameters",
                       r->params.len + len);
        return;
    }
    parse_pairs(d, r);
}

static int
params_end(struct decoder *d, struct request *r)
{
    if (r->refuse_status == 0 && r->params_parsed < r->params.len) {
        return (int)decoder_bad(d,
                                "malformed parameter block: the stream of "
                                "FCGI_PARAMS ends inside a name-value pair "
                                "(after %u whole pairs, %zu bytes are left "
                                "over)",
                                r->param_count,
                                r->params.len - r->params_parsed);
    }
    request_end_params(r, &d->limits);
    d->req = r;
    return DECODE_HEAD;
}

static int
reply_end(struct decoder *d, unsigned id, unsigned protocol_status)
{
    fcgi_put_end(d->reply, id, 0, protocol_status);
    d->reply_len = END_RECORD_LEN;
    return DECODE_REPLY;
}

/* "If zero, the application closes the connection after responding to this
 * request" (section 5.1): no other may begin beside such a one. Nor beside a
 * filter: its FCGI_DATA is read as it comes. */
static bool
begins_alone(const struct decoder *d, unsigned role)
{
    unsigned i;

    if (role == FCGI_FILTER && d->active > 0) {
        return true;
    }

    for (i = 0; d->active > 0 && i < d->limits.mpx && d->slot[i] != NULL; i++) {
        if (d->slot[i]->active &&
            (!d->slot[i]->keep_conn || d->slot[i]->role == REQUEST_FILTER)) {
            return true;
        }
    }
    return false;
}

/* An FCGI_BEGIN_REQUEST is complete in f->small. DECODE_BUSY leaves the record
 * where it is, to be looked at again. */
static int
begin_request(struct decoder *d)
{
    struct fcgi_state *f = &d->fcgi;
    unsigned role = get16(f->small);
    bool keep = (f->small[2] & FCGI_KEEP_CONN) != 0;
    struct request *r;

    r = find_request(d, f->id);
    if (r != NULL && r->body_done && d->limits.mpx > 1) {
        d->req = r;
        return DECODE_BUSY;
    }
    f->header_len = 0;
    if (r != NULL) {
        return (int)decoder_bad(d,
                                "FCGI_BEGIN_REQUEST for request id %u, which "
                                "is still active",
                                f->id);
    }
    if (role < FCGI_RESPONDER || role > FCGI_FILTER) {
        d->reply_closes = !keep && d->active == 0;
        return reply_end(d, f->id, FCGI_UNKNOWN_ROLE);
    }
    r = begins_alone(d, role) ? NULL : decoder_begin(d);
    if (r == NULL) {
        if (f->refused >= REFUSED_MAX) {
            return (int)decoder_bad(d,
                                    "%u requests on one connection were "
                                    "refused with FCGI_CANT_MPX_CONN, and the "
                                    "peer goes on beginning more (limit of "
                                    "concurrent ones: %u)",
                                    f->refused, d->limits.mpx);
        }
        f->refused++;
        d->reply_closes = !keep && d->active == 0;
        return reply_end(d, f->id, FCGI_CANT_MPX_CONN);
    }
    r->protocol = REQUEST_FCGI;
    r->role = (enum request_role)role;
    r->id = f->id;
    r->keep_conn = keep;
    return GO_ON;
}

/* Append name = n to the reply, unless it is there already. */
static void
put_value(struct decoder *d, unsigned *done, unsigned bit, const char *name,
          unsigned n)
{
    char text[16];
    size_t name_len = strlen(name), len;
    char *out = d->reply + d->reply_len;

    if (*done & bit) {
        return;
    }
    *done |= bit;
    len = (size_t)snprintf(text, sizeof(text), "%u", n);
    out += fcgi_put_length(out, (uint32_t)name_len);
    out += fcgi_put_length(out, (uint32_t)len);
    memcpy(out, name, name_len);
    memcpy(out + name_len, text, len);
    d->reply_len = (size_t)(out + name_len + len - d->reply);
}

static bool
is_name(const char *p, size_t len, const char *name)
{
    return len == strlen(name) && memcmp(p, name, len) == 0;
}

/* Section 4.1: only the names that are understood are answered, once each, so
 * that the answer has a known size. */
static int
answer_values(struct decoder *d)
{
    const struct buf *v = &d->fcgi.values;
    /* HAProxy takes it for the requests of one connection. */
    unsigned max_reqs =
        d->limits.max_reqs > 0 ? d->limits.max_reqs : d->limits.max_conns;
    size_t pos = 0;
    unsigned done = 0;

    d->reply_len = FCGI_HEADER_LEN;
    while (pos < v->len) {
        const unsigned char *p = (const unsigned char *)v->data + pos;
        size_t avail = v->len - pos, n, m = 0;
        uint32_t name_len = 0, value_len = 0;
        const char *name;

        n = get_length(p, avail, &name_len);
        if (n > 0) {
            m = get_length(p + n, avail - n, &value_len);
        }
        if (n == 0 || m == 0 ||
            (uint64_t)name_len + value_len > avail - n - m) {
            return (int)decoder_bad(d, "malformed FCGI_GET_VALUES: it ends "
                                       "inside a name-value pair");
        }
        name = v->data + pos + n + m;
        if (is_name(name, name_len, FCGI_MAX_CONNS)) {
            put_value(d, &done, 1, FCGI_MAX_CONNS, d->limits.max_conns);
        } else if (is_name(name, name_len, FCGI_MAX_REQS)) {
            put_value(d, &done, 2, FCGI_MAX_REQS, max_reqs);
        } else if (is_name(name, name_len, FCGI_MPXS_CONNS)) {
            put_value(d, &done, 4, FCGI_MPXS_CONNS, d->limits.mpx > 1);
        }
        pos += n + m + (size_t)name_len + value_len;
    }
    fcgi_put_header(d->reply, FCGI_GET_VALUES_RESULT, FCGI_NULL_REQUEST_ID,
                    d->reply_len - FCGI_HEADER_LEN, 0);
    return DECODE_REPLY;
}

/* Section 4.2. A peer that sends answers is not answered: no ping-pong. */
static int
answer_management(struct decoder *d, unsigned type)
{
    if (type == FCGI_GET_VALUES) {
        return answer_values(d);
    }
    if (type == FCGI_GET_VALUES_RESULT || type == FCGI_UNKNOWN_TYPE) {
        return GO_ON;
    }
    fcgi_put_header(d->reply, FCGI_UNKNOWN_TYPE, FCGI_NULL_REQUEST_ID,
                    sizeof(FCGI_UnknownTypeBody), 0);
    memset(d->reply + FCGI_HEADER_LEN, 0, sizeof(FCGI_UnknownTypeBody));
    d->reply[FCGI_HEADER_LEN] = (char)type;
    d->reply_len = sizeof(FCGI_UnknownTypeRecord);
    return DECODE_REPLY;
}

/* A record of a stream for a request that cannot take it. */
static int
check_stream(struct decoder *d, unsigned type)
{
    const struct request *r = find_request(d, d->fcgi.id);

    if (r == NULL) {
        return GO_ON;
    }
    if (type == FCGI_PARAMS && r->head_done) {
        return (int)decoder_bad(d,
                                "FCGI_PARAMS for request id %u after the end "
                                "of its parameters",
                                r->id);
    }
    if (type == FCGI_STDIN && !r->head_done) {
        return (int)decoder_bad(d,
                                "FCGI_STDIN for request id %u before the end "
                                "of its parameters",
                                r->id);
    }
    if (type == FCGI_DATA && !r->head_done && r->role == REQUEST_FILTER) {
        return (int)decoder_bad(d,
                                "FCGI_DATA for request id %u before the end "
                                "of its parameters",
                                r->id);
    }
    /* Section 6.4: a filter gets the one stream behind the other. */
    if (type == FCGI_DATA && !r->body_done && r->role == REQUEST_FILTER) {
        return (int)decoder_bad(d,
                                "FCGI_DATA for request id %u before the end "
                                "of its FCGI_STDIN",
                                r->id);
    }
    return GO_ON;
}

/* The header is complete. */
static int
record_begin(struct decoder *d)
{
    struct fcgi_state *f = &d->fcgi;
    const unsigned char *h = f->header;
    unsigned type = h[1];

    if (h[0] != FCGI_VERSION_1) {
        return (int)decoder_bad(d,
                                "not a FastCGI record: version %u where 1 is "
                                "expected (type %u, request id %u)",
                                h[0], type, get16(h + 2));
    }
    f->id = (uint16_t)get16(h + 2);
    f->content_left = (uint16_t)get16(h + 4);
    f->padding_left = h[6];
    if (type == FCGI_BEGIN_REQUEST) {
        f->small_len = 0;
        if (f->id == FCGI_NULL_REQUEST_ID) {
            return (int)decoder_bad(d, "FCGI_BEGIN_REQUEST for request id 0");
        }
        if (f->content_left != BEGIN_LEN) {
            return (int)decoder_bad(d,
                                    "FCGI_BEGIN_REQUEST of %u bytes where 8 "
                                    "are expected",
                                    f->content_left);
        }
        return GO_ON;
    }
    if (f->id != FCGI_NULL_REQUEST_ID) {
        return check_stream(d, type);
    }
    if (type == FCGI_GET_VALUES) {
        buf_clear(&f->values);
        if (f->content_left > f->values.limit) {
            return (int)decoder_bad(d,
                                    "FCGI_GET_VALUES of %u bytes is over %zu",
                                    f->content_left, f->values.limit);
        }
    }
    return GO_ON;
}

/* n > 0 content bytes of a record that belongs to no request. */
static int
connection_content(struct decoder *d, const char *data, size_t n)
{
    struct fcgi_state *f = &d->fcgi;

    if (f->header[1] == FCGI_BEGIN_REQUEST) {
        memcpy(f->small + f->small_len, data, n);
        f->small_len = (unsigned char)(f->small_len + n);
    } else if (f->header[1] == FCGI_GET_VALUES &&
               f->id == FCGI_NULL_REQUEST_ID &&
               buf_append(&f->values, data, n) < 0) {
        return (int)decoder_bad(d, "out of memory for FCGI_GET_VALUES");
    }
    return GO_ON;
}

/* n > 0 content bytes of a record of a stream. */
static int
stream_content(struct decoder *d, const char *data, size_t n)
{
    struct request *r = find_request(d, d->fcgi.id);
    unsigned type = d->fcgi.header[1];

    if (r == NULL) {
        return GO_ON;
    }
    if (type == FCGI_PARAMS) {
        params_content(d, r, data, n);
    } else if (type == FCGI_STDIN && !r->body_done) {
        return decoder_body(d, r, data, n) == DECODE_BODY ? DECODE_BODY : GO_ON;
    } else if (type == FCGI_DATA && r->role == REQUEST_FILTER &&
               !r->data_done && r->refuse_status == 0) {
        d->req = r;
        d->data = data;
        d->data_len = n;
        return DECODE_DATA;
    }
    return GO_ON;
}

static bool
is_stream(unsigned type)
{
    return type == FCGI_PARAMS || type == FCGI_STDIN || type == FCGI_DATA;
}

/* A record without content ends its stream (section 3.3). */
static int
stream_end(struct decoder *d, unsigned type)
{
    struct request *r = find_request(d, d->fcgi.id);

    if (r == NULL) {
        return GO_ON;
    }
    d->req = r;
    if (type == FCGI_PARAMS) {
        return params_end(d, r);
    }
    if (type == FCGI_STDIN && !r->body_done) {
        r->body_done = true;
        return DECODE_BODY_END;
    }
    if (type == FCGI_DATA && r->role == REQUEST_FILTER && !r->data_done) {
        r->data_done = true;
        return DECODE_DATA_END;
    }
    return GO_ON;
}

/* Content and padding of the record are through. */
static int
record_end(struct decoder *d)
{
    struct fcgi_state *f = &d->fcgi;
    unsigned type = f->header[1];
    struct request *r;

    if (type == FCGI_BEGIN_REQUEST) {
        return begin_request(d);
    }
    f->header_len = 0;
    if (f->id == FCGI_NULL_REQUEST_ID) {
        return answer_management(d, type);
    }
    if (is_stream(type)) {
        return get16(f->header + 4) == 0 ? stream_end(d, type) : GO_ON;
    }
    if (type == FCGI_ABORT_REQUEST) {
        r = find_request(d, f->id);
        if (r != NULL && !r->aborted) {
            r->aborted = true;
            d->req = r;
            return DECODE_ABORT;
        }
    }
    return GO_ON; /* a type that is not for us: ignored */
}

/* Nothing is left of a record whose end is no event: back to the start. */
static void
close_record(struct fcgi_state *f)
{
    if (f->content_left == 0 && f->padding_left == 0) {
        f->header_len = 0;
    }
}

static int
record_content(struct decoder *d, const char *data, size_t avail, size_t *used)
{
    struct fcgi_state *f = &d->fcgi;
    size_t n = avail < f->content_left ? avail : f->content_left;
    int ev;

    f->content_left = (uint16_t)(f->content_left - n);
    *used += n;
    if (!is_stream(f->header[1]) || f->id == FCGI_NULL_REQUEST_ID) {
        return connection_content(d, data, n);
    }
    ev = stream_content(d, data, n);
    close_record(f);
    return ev;
}

enum decode_event
fcgi_feed(struct decoder *d, const char *data, size_t len, size_t *ret_used)
{
    struct fcgi_state *f = &d->fcgi;
    size_t used = 0, n;
    int ev = GO_ON;

    d->reply_closes = false;
    while (ev == GO_ON) {
        if (f->header_len == FCGI_HEADER_LEN && f->content_left == 0 &&
            f->padding_left == 0) {
            ev = record_end(d);
        } else if (used == len) {
            ev = DECODE_MORE;
        } else if (f->header_len < FCGI_HEADER_LEN) {
            n = (size_t)(FCGI_HEADER_LEN - f->header_len);
            n = n < len - used ? n : len - used;
            memcpy(f->header + f->header_len, data + used, n);
            f->header_len = (unsigned char)(f->header_len + n);
            used += n;
            if (f->header_len == FCGI_HEADER_LEN) {
                ev = record_begin(d);
            }
        } else if (f->content_left > 0) {
            ev = record_content(d, data + used, len - used, &used);
        } else {
            n = f->padding_left < len - used ? f->padding_left : len - used;
            f->padding_left = (unsigned char)(f->padding_left - n);
            used += n;
        }
    }
    *ret_used = used;
    return (enum decode_event)ev;
}

uint64_t
fcgi_body_next(const struct decoder *d, const struct request *r)
{
    const struct fcgi_state *f = &d->fcgi;

    if (f->header_len < FCGI_HEADER_LEN || f->header[1] != FCGI_STDIN ||
        f->id != r->id) {
        return 0;
    }
    return f->content_left;
}

void
fcgi_skip(struct decoder *d, size_t len)
{
    d->fcgi.content_left = (uint16_t)(d->fcgi.content_left - len);
    close_record(&d->fcgi);
}

size_t
fcgi_expect(const struct decoder *d, const struct request *r, char *ret)
{
    const struct fcgi_state *f = &d->fcgi;
    const unsigned char *h = f->header;

    /* Inside a record, or between two; not inside a header, whose bytes are
     * those of the next record already. */
    if ((f->header_len != 0 && f->header_len != FCGI_HEADER_LEN) ||
        h[1] != FCGI_STDIN || get16(h + 2) != r->id || h[6] != 0) {
        return 0;
    }
    memcpy(ret, h, FCGI_HEADER_LEN);
    return get16(h + 4);
}

size_t
fcgi_record_left(const struct decoder *d)
{
    const struct fcgi_state *f = &d->fcgi;

    if (f->header_len == 0) {
        return 0;
    }
    if (f->header_len < FCGI_HEADER_LEN) {
        return (size_t)(FCGI_HEADER_LEN - f->header_len);
    }
    return (size_t)f->content_left + f->padding_left;
}

enum decoder_next
fcgi_next(const struct decoder *d, const struct request *r, const char *data,
          size_t len)
{
    size_t pos = fcgi_record_left(d);

    if (pos > 0 && (d->fcgi.header_len < FCGI_HEADER_LEN ||
                    d->fcgi.header[1] != FCGI_STDIN || d->fcgi.id != r->id)) {
        return DECODER_OTHERS;
    }
    while (pos < len) {
        const unsigned char *h = (const unsigned char *)data + pos;

        if (len - pos < FCGI_HEADER_LEN) {
            return DECODER_PART; /* that is to be seen */
        }
        if (h[1] != FCGI_STDIN || get16(h + 2) != r->id) {
            return DECODER_OTHERS;
        }
        pos += FCGI_HEADER_LEN + get16(h + 4) + h[6];
        if (get16(h + 4) == 0) {
            return pos == len ? DECODER_WHOLE : DECODER_OTHERS;
        }
    }
    return DECODER_PART;
}
