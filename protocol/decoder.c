/* SPDX-License-Identifier: MIT
 *
 * The part of decoding that FastCGI and SCGI share: which of them it is, the
 * slots of the requests, accounting for body bytes. Pure; any process.
 */
#include "protocol/decoder.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "protocol/fcgi.h"
#include "protocol/scgi.h"
#include "protocol/uwsgi.h"

enum { GET_VALUES_MAX = 4096 };

static void
start_connection(struct decoder *d, enum decoder_kind kind)
{
    d->kind = kind;
    d->req = NULL;
    d->data = NULL;
    d->data_len = 0;
    d->why = NULL;
    d->reply_len = 0;
    d->reply_closes = false;
    d->active = 0;
    d->started = false;
    d->bad = false;
    d->fcgi.header_len = 0;
    d->fcgi.content_left = 0;
    d->fcgi.padding_left = 0;
    d->fcgi.small_len = 0;
    d->fcgi.refused = 0;
    buf_clear(&d->fcgi.values);
    memset(&d->scgi, 0, sizeof(d->scgi));
}

void
decoder_init(struct decoder *d, enum decoder_kind kind,
             const struct request_limits *limits)
{
    memset(d, 0, sizeof(*d));
    d->limits = *limits;
    if (d->limits.mpx < 1) {
        d->limits.mpx = 1;
    } else if (d->limits.mpx > DECODER_MAX_MPX) {
        d->limits.mpx = DECODER_MAX_MPX;
    }
    request_init(&d->first, &d->limits);
    d->slot[0] = &d->first;
    buf_init(&d->fcgi.values, GET_VALUES_MAX);
    start_connection(d, kind);
}

void
decoder_release(struct decoder *d)
{
    unsigned i;

    if (d == NULL) {
        return;
    }
    request_release(&d->first);
    for (i = 1; i < DECODER_MAX_MPX && d->slot[i] != NULL; i++) {
        request_release(d->slot[i]);
        free(d->slot[i]);
        d->slot[i] = NULL;
    }
    buf_release(&d->fcgi.values);
    d->active = 0;
    d->bad = true;
    d->why = "the decoder was released";
}

void
decoder_clear(struct decoder *d, enum decoder_kind kind)
{
    unsigned i;

    for (i = 0; i < DECODER_MAX_MPX && d->slot[i] != NULL; i++) {
        if (d->slot[i]->active) {
            request_clear(d->slot[i]);
        }
    }
    start_connection(d, kind);
}

enum decode_event
decoder_bad(struct decoder *d, const char *fmt, ...)
{
    char text[DECODER_WHY_MAX];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    request_escape(d->why_text, sizeof(d->why_text), text, strlen(text));
    d->why = d->why_text;
    d->bad = true;
    return DECODE_BAD;
}

/* Some HTTP methods and other openings; a shorter beginning counts as well. */
static const struct {
    unsigned char len;
    const char *bytes;
    const char *what;
} openings[] = {
    { 4, "GET ", "an HTTP request" },
    { 5, "HEAD ", "an HTTP request" },
    { 5, "POST ", "an HTTP request" },
    { 4, "PUT ", "an HTTP request" },
    { 6, "PATCH ", "an HTTP request" },
    { 7, "DELETE ", "an HTTP request" },
    { 8, "OPTIONS ", "an HTTP request" },
    { 8, "CONNECT ", "an HTTP request" },
    { 6, "TRACE ", "an HTTP request" },
    { 9, "PROPFIND ", "an HTTP request" },
    { 6, "PRI * ", "an HTTP/2 connection" },
    { 6, "PROXY ", "a PROXY protocol header" },
    { 12, "\r\n\r\n\0\r\nQUIT\n", "a PROXY protocol header" },
    { 2, "\x16\x03", "a TLS hello" },
    { 2, "\x12\x34", "the AJP protocol" },
    { 4, "SSH-", "an SSH client" },
};

const char *
decoder_looks_like(const char *data, size_t len)
{
    size_t i;

    if (data[0] == FCGI_VERSION_1) {
        return "FastCGI";
    }
    if (data[0] >= '0' && data[0] <= '9') {
        return "SCGI";
    }
    /* modifier1, 16 bits of length (little endian), modifier2; modifier1 is 0
     * for WSGI requests. */
    if (data[0] == 0) {
        return "the uwsgi protocol";
    }
    for (i = 0; i < sizeof(openings) / sizeof(openings[0]); i++) {
        size_t n = len < openings[i].len ? len : openings[i].len;

        if (memcmp(data, openings[i].bytes, n) == 0) {
            return openings[i].what;
        }
    }
    return "none of FastCGI, SCGI and uwsgi";
}

/* Look at the first byte of the connection. */
static enum decode_event
choose_kind(struct decoder *d, const char *data, size_t len)
{
    static const char *const sockets[] = { "a FastCGI/SCGI/uwsgi", "a FastCGI",
                                           "an SCGI", "a uwsgi" };
    enum decoder_kind kind = DECODER_AUTO;

    if (data[0] == FCGI_VERSION_1) {
        kind = DECODER_FCGI;
    } else if (data[0] >= '0' && data[0] <= '9') {
        kind = DECODER_SCGI;
    } else if (data[0] == 0) {
        kind = DECODER_UWSGI;
    }
    /* On a socket for uwsgi alone the first byte is a modifier. */
    if (d->kind == DECODER_UWSGI ||
        (kind != DECODER_AUTO &&
         (d->kind == kind || d->kind == DECODER_AUTO))) {
        d->kind = d->kind == DECODER_AUTO ? kind : d->kind;
        d->started = true;
        return DECODE_MORE;
    }
    return decoder_bad(d, "this looks like %s on %s socket (first byte 0x%02x)",
                       decoder_looks_like(data, len), sockets[d->kind],
                       (unsigned char)data[0]);
}

enum decode_event
decoder_feed(struct decoder *d, const char *data, size_t len, size_t *ret_used)
{
    *ret_used = 0;
    if (d->bad) {
        return DECODE_BAD;
    }
    if (!d->started) {
        if (len == 0) {
            return DECODE_MORE;
        }
        if (choose_kind(d, data, len) == DECODE_BAD) {
            return DECODE_BAD;
        }
    }
    if (d->kind == DECODER_FCGI) {
        return fcgi_feed(d, data, len, ret_used);
    }
    return d->kind == DECODER_SCGI ? scgi_feed(d, data, len, ret_used)
                                   : uwsgi_feed(d, data, len, ret_used);
}

struct request *
decoder_begin(struct decoder *d)
{
    unsigned i;

    for (i = 0; i < d->limits.mpx; i++) {
        struct request *r = d->slot[i];

        if (r == NULL) {
            r = malloc(sizeof(*r));
            if (r == NULL) {
                return NULL;
            }
            request_init(r, &d->limits);
            r->slot = (uint8_t)i;
            d->slot[i] = r;
        }
        if (!r->active) {
            r->active = true;
            d->active++;
            return r;
        }
    }
    return NULL;
}

enum decode_event
decoder_body(struct decoder *d, struct request *r, const char *data, size_t n)
{
    bool refused = r->refuse_status != 0;
    size_t give = request_take_body(r, &d->limits, n);

    if (give == 0 && refused == (r->refuse_status != 0)) {
        return DECODE_MORE;
    }
    d->req = r;
    d->data = data;
    d->data_len = give;
    return DECODE_BODY;
}

void
decoder_end(struct decoder *d, struct request *r)
{
    if (!r->active) {
        return;
    }
    request_clear(r);
    d->active--;
    if (d->kind == DECODER_SCGI) {
        scgi_ended(d);
    } else if (d->kind == DECODER_UWSGI) {
        uwsgi_ended(d);
    }
}

bool
decoder_is_idle(const struct decoder *d)
{
    if (d->bad || d->active > 0) {
        return false;
    }
    if (!d->started) {
        return true;
    }
    if (d->kind == DECODER_FCGI) {
        return d->fcgi.header_len == 0;
    }
    return d->kind == DECODER_SCGI ? scgi_is_idle(d) : uwsgi_is_idle(d);
}

/* Bytes up to the end of the record (SCGI: of the connection's only body) that
 * belong to the body of r. */
static uint64_t
body_bytes_next(const struct decoder *d, const struct request *r)
{
    if (d->bad || !d->started || !r->active || !r->head_done || r->body_done) {
        return 0;
    }
    return d->kind == DECODER_FCGI ? fcgi_body_next(d, r) : d->scgi.body_left;
}

size_t
decoder_direct(const struct decoder *d, const struct request *r)
{
    uint64_t next = body_bytes_next(d, r);
    uint64_t room = request_body_room(r, &d->limits);

    if (next > room) {
        next = room;
    }
    return next > SIZE_MAX ? SIZE_MAX : (size_t)next;
}

size_t
decoder_record_left(const struct decoder *d)
{
    return fcgi_record_left(d);
}

enum decoder_next
decoder_next(const struct decoder *d, const struct request *r, const char *data,
             size_t len)
{
    if (r->body_done) {
        return len > 0 ? DECODER_OTHERS : DECODER_WHOLE;
    }
    return fcgi_next(d, r, data, len);
}

size_t
decoder_expect(const struct decoder *d, const struct request *r, char *ret)
{
    if (d->kind != DECODER_FCGI || d->bad || !r->active || !r->head_done ||
        r->body_done) {
        return 0;
    }
    return fcgi_expect(d, r, ret);
}

void
decoder_skip(struct decoder *d, struct request *r, size_t len)
{
    if (len == 0) {
        return;
    }
    assert(len <= decoder_direct(d, r));
    request_take_body(r, &d->limits, len);
    if (d->kind == DECODER_FCGI) {
        fcgi_skip(d, len);
    } else {
        d->scgi.body_left -= len;
    }
}
