/* SPDX-License-Identifier: MIT
 *
 * The bytes of one connection into requests, whichever protocol it speaks.
 * Pure: bytes in, events out; no descriptor, no clock, no logging. Any process,
 * GIL not needed.
 *
 *     while (n > 0 || first) {
 *         ev = decoder_feed(&d, p, n, &used);   p += used, n -= used
 *         ... look at ev, d.req, d.data ...
 *     }
 *
 * FastCGI 1.0: protocol/fcgi.c; SCGI: protocol/scgi.c; uwsgi: protocol/uwsgi.c.
 * With DECODER_AUTO the first byte of the connection decides (1: FastCGI, a
 * digit: SCGI, 0: uwsgi).
 */
#ifndef FOREBAY_PROTOCOL_DECODER_H
#define FOREBAY_PROTOCOL_DECODER_H

#include "protocol/request.h"

enum decoder_kind { DECODER_AUTO, DECODER_FCGI, DECODER_SCGI, DECODER_UWSGI };

enum decode_event {
    DECODE_MORE,     /* everything was taken; feed more when it is there */
    DECODE_HEAD,     /* d->req: all its parameters are here */
    DECODE_BODY,     /* d->req has body bytes: d->data, d->data_len, inside the
                        buffer that was fed; never past CONTENT_LENGTH. Look at
                        refuse_status each time: once it is 413 the body has
                        grown over the limit, and no more of it is given out
                        (data_len is 0 when not even one byte had room) */
    DECODE_BODY_END, /* d->req: its body ended (d->req->body_done) */
    DECODE_DATA,     /* filter role: as DECODE_BODY, of the FCGI_DATA stream */
    DECODE_DATA_END, /* filter role: FCGI_DATA ended */
    DECODE_ABORT,    /* d->req: the peer gave the request up, perhaps before
                        its DECODE_HEAD (d->req->head_done is false then) */
    DECODE_REPLY,    /* send d->reply, d->reply_len on the connection, whole
                        and between records; go on feeding, or close it
                        afterwards when d->reply_closes is set */
    DECODE_BUSY,     /* with limits.mpx > 1: a request begins under the id of
                        d->req, which is whole but not answered. Feed the rest
                        once decoder_end() was called for it */
    DECODE_BAD,      /* not understood, d->why (a sentence, outside bytes are
                        escaped) says why; close. The decoder takes no more */
};

enum { DECODER_MAX_MPX = 64, DECODER_REPLY_MAX = 160, DECODER_WHY_MAX = 200 };

/* Where a FastCGI decoder, and one of SCGI or uwsgi, stands between two feeds.
 */
struct fcgi_state {
    unsigned char header[8]; /* of the current record, header_len bytes seen */
    unsigned char header_len;
    unsigned char padding_left;
    uint16_t id;
    uint16_t content_left;
    unsigned char small_len; /* begin body collected so far */
    unsigned char small[8];
    struct buf values; /* content of FCGI_GET_VALUES, limited */
    unsigned refused;  /* BEGINs refused with FCGI_CANT_MPX_CONN */
};

struct scgi_state {
    int phase;          /* enum scgi_phase of scgi.c, 0 at first */
    uint32_t block_len; /* length of the header block */
    uint32_t block_seen;
    uint64_t body_left;
    unsigned char head[4]; /* uwsgi: before the block */
    unsigned char head_len;
};

struct decoder {
    enum decoder_kind kind; /* AUTO until the first byte was seen */
    struct request_limits limits;

    /* The event. */
    struct request *req;
    const char *data;
    size_t data_len;
    const char *why;
    char why_text[DECODER_WHY_MAX]; /* what why points to, where it is not a
                                       constant */
    char reply[DECODER_REPLY_MAX];
    size_t reply_len;
    bool reply_closes; /* the reply ends a request whose peer did not ask to
                          keep the connection, and no other one is active */

    /* Requests begun and not yet ended, limits.mpx at most. slot[0] is
     * embedded; more are allocated when they are first needed. */
    struct request first;
    struct request *slot[DECODER_MAX_MPX];
    unsigned active; /* how many of them are active */

    struct fcgi_state fcgi;
    struct scgi_state scgi;
    bool started; /* the first byte of the connection was seen */
    bool bad;
};

void decoder_init(struct decoder *d, enum decoder_kind kind,
                  const struct request_limits *limits);
void decoder_release(struct decoder *d);

/* For the next connection in the same memory: as after decoder_init(). */
void decoder_clear(struct decoder *d, enum decoder_kind kind);

/* Take bytes up to the next event. *ret_used is how many were taken, at most
 * len. data may be reused on return (DECODE_BODY points into it). Call again
 * with the rest after every event but DECODE_MORE and DECODE_BAD. Feeding zero
 * bytes is allowed and gives an event that needs no byte (the end of a SCGI
 * body), or DECODE_MORE. */
enum decode_event decoder_feed(struct decoder *d, const char *data, size_t len,
                               size_t *ret_used);

/* The request was answered. FastCGI: records for its id that still arrive are
 * skipped from now on, and the id may be used again (FastCGI 1.0, section
 * 3.3). The memory is kept for the next one. */
void decoder_end(struct decoder *d, struct request *r);

/* Nothing is half-received and no request is active: a clean place to end. */
bool decoder_is_idle(const struct decoder *d);

/* Body bytes of the current record of r that may be read straight from the
 * descriptor, past this decoder (0 when the next byte is no body byte of r).
 * After doing so tell decoder_skip() how many; it counts them in body_seen as
 * if they had been fed and given out by DECODE_BODY. body_given is the
 * caller's. */
size_t decoder_direct(const struct decoder *d, const struct request *r);
void decoder_skip(struct decoder *d, struct request *r, size_t len);

/* FastCGI: bytes up to the end of the current record (of its header, while that
 * is not whole); 0 between two records. */
size_t decoder_record_left(const struct decoder *d);

/* FastCGI: what the bytes are that come next. */
enum decoder_next {
    DECODER_OTHERS, /* not, or not only, the body of r */
    DECODER_PART,   /* some of it */
    DECODER_WHOLE,  /* all of it, its end included, and nothing else */
};
enum decoder_next decoder_next(const struct decoder *d, const struct request *r,
                               const char *data, size_t len);

/* All that belongs to r has come: its body, and a filter's FCGI_DATA. */
static inline bool
decoder_has_all(const struct request *r)
{
    return r->body_done && (r->role != REQUEST_FILTER || r->data_done);
}

/* Internal to protocol/: give up on the connection. */
enum decode_event decoder_bad(struct decoder *d, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* Internal to protocol/: n body bytes of r arrived at data. DECODE_BODY, or
 * DECODE_MORE when none of them is to be given out. */
enum decode_event decoder_body(struct decoder *d, struct request *r,
                               const char *data, size_t n);
/* Internal to protocol/: a slot for a new request, set active; NULL when
 * limits.mpx are active or memory is short. */
struct request *decoder_begin(struct decoder *d);

/* The header that a further record of the body of r most likely has: that of
 * the current or last one once more (FastCGI without padding; front ends send a
 * body in equal records). ret has 8 bytes; returns the record's content length,
 * 0 when nothing can be expected. Only a guess: what comes is to be compared.
 */
size_t decoder_expect(const struct decoder *d, const struct request *r,
                      char *ret);

/* What the first bytes of a connection look like when they are neither: one
 * phrase for the log ("an HTTP request", "a TLS hello", "the uwsgi protocol",
 * "none of FastCGI, SCGI and uwsgi"), or "FastCGI", "SCGI". Needs len >= 1. */
const char *decoder_looks_like(const char *data, size_t len);

#endif
