/* SPDX-License-Identifier: MIT
 *
 * The request's body, and a filter's FCGI_DATA behind it, on their way to the
 * application: out of x->read, or from the socket straight into its memory. See
 * responder_parts.h. Worker process, by the thread that runs the request.
 */
#include "server/responder_parts.h"

#include <errno.h>
#include <poll.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "protocol/fcgi.h"
#include "server/connection.h"
#include "server/log.h"

enum {
    KEEP_BYTES = 1024 * 1024, /* of a body, read while an answer is written */
    DIRECT_BYTES = 1024,      /* reads from this size on go past x->read */
    SCATTER_RECORDS = 8,      /* expected in one such read */
    SCATTER_TAIL = 24,        /* behind the body: padding, the end of STDIN */
};

/* An event of the decoder that is no body byte. */
static void
other_event(struct responder *r, enum decode_event event)
{
    struct decoder *d = &r->c->decoder;

    switch (event) {
    case DECODE_ABORT:
        if (d->req == r->request) {
            r->aborted = !r->sending; /* within a record it cannot be ended */
            responder_fail(r, -ECONNRESET);
        }
        return;
    case DECODE_REPLY:
        /* Between two records of ours it may go out at once; within one
         * (sending) the connection is given up: no front end does this. */
        if (r->sending || send(r->c->fd, d->reply, d->reply_len,
                               MSG_NOSIGNAL) != (ssize_t)d->reply_len) {
            responder_fail(r, -ECONNRESET);
        }
        return;
    case DECODE_BUSY:
        log_warnx("connection closed: a request begins under the id of one "
                  "that is not over");
        responder_fail(r, -ECONNRESET);
        return;
    case DECODE_BAD:
        log_warnx("connection closed within a request: %s", d->why);
        responder_fail(r, -ECONNRESET);
        return;
    default:
        return;
    }
}

/* An event of another request that the connection carries as well. */
static bool
is_of_another(const struct responder *r, enum decode_event event)
{
    return r->c->decoder.req != r->request &&
           (event == DECODE_HEAD || event == DECODE_BODY ||
            event == DECODE_BODY_END || event == DECODE_ABORT ||
            event == DECODE_BUSY);
}

/* Nothing follows of the stream that is read. */
static bool
has_ended(const struct responder *r)
{
    return r->request->body_done && (!r->data_on || r->request->data_done);
}

/* A filter's second stream; not on a connection that was shared. */
static bool
has_data(const struct responder *r)
{
    return r->request->role == REQUEST_FILTER && r->stream == NULL;
}

/* Make r->slice the next body bytes of x->read. False when there are none. What
 * stands behind the end of the body belongs to the next request and is left. */
static bool
next_slice(struct responder *r)
{
    struct executor *x = r->x;
    struct decoder *d = &r->c->decoder;

    while (r->stream == NULL && r->slice_len == 0 && !has_ended(r) &&
           r->error == 0) {
        size_t used;
        enum decode_event event =
            decoder_feed(d, x->read + x->pos, x->end - x->pos, &used);

        x->pos += used;
        if (event == (r->data_on ? DECODE_DATA : DECODE_BODY) &&
            d->req == r->request) {
            r->slice = d->data;
            r->slice_len = r->discard ? 0 : d->data_len;
        } else if (event == DECODE_MORE) {
            return false;
        } else if (r->lends && is_of_another(r, event)) {
            responder_share(r, true, event);
            return false;
        } else {
            other_event(r, event);
        }
    }
    return r->slice_len > 0;
}

static size_t
ready(struct responder *r, const char **ret)
{
    struct request *q = r->request;

    if (q->kept_used < q->kept.len) {
        *ret = q->kept.data + q->kept_used;
        return q->kept.len - q->kept_used;
    }
    if (r->stream == NULL && !r->data_on &&
        (r->slice_len > 0 || next_slice(r))) {
        *ret = r->slice;
        return r->slice_len;
    }
    if (r->stream != NULL && mux_read(r->x, r->stream, false) > 0) {
        *ret = q->kept.data;
        return q->kept.len;
    }
    return 0;
}

size_t
responder_body_ready(struct wsgi_io *io, const char **ret)
{
    struct responder *r = responder_of(io);
    size_t n;

    responder_enter(r);
    n = ready(r, ret);
    responder_leave(r);
    return n;
}

static void
take(struct responder *r, size_t n)
{
    struct request *q = r->request;

    if (q->kept_used < q->kept.len) {
        q->kept_used += n;
        if (q->kept_used == q->kept.len) {
            buf_clear(&q->kept);
            q->kept_used = 0;
        }
        return;
    }
    if (r->stream != NULL) { /* it was shared since ready() */
        if (mux_read(r->x, r->stream, false) > 0) {
            q->kept_used = n;
        }
        return;
    }
    r->slice += n;
    r->slice_len -= n;
}

void
responder_body_take(struct wsgi_io *io, size_t n)
{
    struct responder *r = responder_of(io);

    responder_enter(r);
    take(r, n);
    responder_leave(r);
}

/* One read of body bytes straight into the application's memory. Behind the
 * rest of the current record more records of the same size are expected, the
 * last one with what is left: their headers are read into head, their contents
 * where they belong. Where the body ends a little more is read, so that its end
 * is known when the answer is written. */
struct scatter {
    struct iovec iov[2 * SCATTER_RECORDS + 2];
    char head[SCATTER_RECORDS][FCGI_HEADER_LEN];
    char expected[SCATTER_RECORDS][FCGI_HEADER_LEN];
    char tail[SCATTER_TAIL];
    size_t total;
    int count; /* even ones are body, odd ones headers, or the tail */
    int records;
};

static void
scatter_add(struct scatter *s, void *data, size_t len)
{
    s->iov[s->count++] = (struct iovec){ data, len };
    s->total += len;
}

/* The header and up to len bytes of one more record of at most record bytes. */
static void
scatter_record(struct scatter *s, const char *header, size_t record,
               uint64_t left, char *out, size_t len)
{
    size_t content = record < left ? record : (size_t)left;
    char *expected = s->expected[s->records];

    memcpy(expected, header, FCGI_HEADER_LEN);
    expected[4] = (char)(content >> 8);
    expected[5] = (char)content;
    scatter_add(s, s->head[s->records++], FCGI_HEADER_LEN);
    scatter_add(s, out, len);
}

/* What was guessed wrongly has to fit into x->read. count stays 0 when nothing
 * can be read that way. */
static void
scatter_fill(struct scatter *s, const struct responder *r, char *out,
             size_t len)
{
    char header[FCGI_HEADER_LEN];
    size_t at = decoder_direct(&r->c->decoder, r->request);
    size_t record = decoder_expect(&r->c->decoder, r->request, header);
    size_t room = sizeof(r->x->read) - SCATTER_TAIL;
    uint64_t left = UINT64_MAX;

    if (r->request->content_length >= 0) {
        left = (uint64_t)r->request->content_length - r->request->body_seen;
    }
    len = len < left ? len : (size_t)left;
    at = at < len ? at : len;
    if (at == 0 && record == 0) {
        return;
    }
    scatter_add(s, out, at);
    while (record > 0 && at < len && s->records < SCATTER_RECORDS) {
        size_t n = record < len - at ? record : len - at;

        if (n + FCGI_HEADER_LEN > room) {
            return;
        }
        scatter_record(s, header, record, left - at, out + at, n);
        room -= n + FCGI_HEADER_LEN;
        at += n;
    }
    if (at == left) {
        scatter_add(s, s->tail, sizeof(s->tail));
    }
}

/* The guess was wrong from piece i on, or this is the tail: n bytes go to where
 * they would have been read without it. */
static void
scatter_undo(const struct scatter *s, struct executor *x, int i, size_t n)
{
    x->pos = x->end = 0;
    for (; n > 0 && i < s->count; i++) {
        size_t part = n < s->iov[i].iov_len ? n : s->iov[i].iov_len;

        memcpy(x->read + x->end, s->iov[i].iov_base, part);
        x->end += part;
        n -= part;
    }
}

/* Account for n bytes that were read. Returns how many body bytes are in the
 * application's memory, in one piece from its start. */
static size_t
scatter_take(const struct scatter *s, struct responder *r, size_t n)
{
    struct decoder *d = &r->c->decoder;
    size_t body = 0, used;

    for (int i = 0; n > 0 && i < s->count; i++) {
        size_t part = n < s->iov[i].iov_len ? n : s->iov[i].iov_len;

        if (i % 2 == 0) {
            decoder_skip(d, r->request, part);
            body += part;
        } else if (i / 2 < s->records &&
                   memcmp(s->head[i / 2], s->expected[i / 2], part) == 0) {
            decoder_feed(d, s->iov[i].iov_base, part, &used);
        } else {
            scatter_undo(s, r->x, i, n);
            break;
        }
        n -= part;
    }
    return body;
}

ssize_t
responder_read_more(struct responder *r, char *out, size_t len)
{
    struct executor *x = r->x;
    struct scatter s;
    ssize_t n;

    s.count = s.records = 0;
    s.total = 0;

    if (worker_is_forked_child()) {
        return responder_fail(r, -ECONNRESET);
    }
    x->pos = x->end = 0;
    if (len >= DIRECT_BYTES && !r->discard) {
        scatter_fill(&s, r, out, len);
    }
    if (s.count > 0) {
        n = readv(r->c->fd, s.iov, s.count);
        x->full = n == (ssize_t)s.total;
    } else {
        n = recv(r->c->fd, x->read, sizeof(x->read), 0);
        x->full = n == (ssize_t)sizeof(x->read);
    }
    if (n < 0) {
        return errno == EAGAIN || errno == EINTR
                   ? -errno
                   : responder_fail(r, -ECONNRESET);
    }
    if (n == 0) {
        r->eof = true;
        return responder_fail(r, -ECONNRESET);
    }
    if (s.count > 0) {
        return (ssize_t)scatter_take(&s, r, (size_t)n);
    }
    x->end = (size_t)n;
    return 0;
}

/* All bytes that the application may have of the body were handed out. */
static bool
body_at_end(const struct responder *r)
{
    const struct request *q = r->request;

    return q->content_length >= 0 &&
           q->body_seen >= (uint64_t)q->content_length;
}

static ssize_t
body_end(struct responder *r)
{
    const struct request *q = r->request;

    if (q->refuse_status == 413) {
        return -EFBIG;
    }
    if (q->content_length > 0 && q->body_seen < (uint64_t)q->content_length) {
        log_info("the front end ended a request body at %llu of %lld bytes",
                 (unsigned long long)q->body_seen,
                 (long long)q->content_length);
        return responder_fail(r, -ECONNRESET);
    }
    return 0;
}

/* The same of a shared connection. */
static ssize_t
stream_end(struct responder *r)
{
    ssize_t rc;

    pthread_mutex_lock(&r->c->lock);
    rc = body_end(r);
    pthread_mutex_unlock(&r->c->lock);
    return rc;
}

/* As read_body(), of a shared connection. > 0: look at ready(). */
static ssize_t
read_stream(struct responder *r)
{
    int rc;

    if (worker_is_forked_child()) {
        return responder_fail(r, -ECONNRESET);
    }
    scoreboard_set(r->x->score, SCORE_READING);
    rc = mux_read(r->x, r->stream, true);
    scoreboard_set(r->x->score, SCORE_RUNNING);
    if (rc == -ECONNRESET && mux_is_aborted(r->stream)) {
        r->aborted = true;
    }
    return rc < 0 && rc != -EINTR ? responder_fail(r, rc) : rc;
}

/* As responder_read_more(), but waits where that has nothing yet. */
static ssize_t
read_or_wait(struct responder *r, char *out, size_t len)
{
    ssize_t rc = responder_read_more(r, out, len);

    if (rc == -EAGAIN) {
        scoreboard_set(r->x->score, SCORE_READING);
        rc =
            responder_wait_for(r, POLLIN, r->x->worker->settings->body_timeout);
        scoreboard_set(r->x->score, SCORE_RUNNING);
        if (rc >= 0) {
            return 0;
        }
    }
    return rc == -ETIMEDOUT ? responder_fail(r, -ETIMEDOUT) : rc;
}

static ssize_t
read_body(struct responder *r, char *out, size_t len)
{
    for (;;) {
        const char *bytes;
        size_t n = ready(r, &bytes);
        ssize_t rc;

        if (n > 0) {
            n = n < len ? n : len;
            memcpy(out, bytes, n);
            take(r, n);
            return (ssize_t)n;
        }
        if (r->error != 0) {
            return r->error;
        }
        if (r->dropped) {
            return -ENOBUFS;
        }
        if (r->stream != NULL) {
            rc = read_stream(r);
            if (rc <= 0) {
                return rc < 0 ? rc : stream_end(r);
            }
            continue;
        }
        if (r->request->body_done || body_at_end(r) ||
            r->request->refuse_status == 413) {
            return body_end(r);
        }
        rc = read_or_wait(r, out, len);
        if (rc != 0) {
            return rc;
        }
    }
}

ssize_t
responder_body_read_nogil(struct wsgi_io *io, char *out, size_t len)
{
    struct responder *r = responder_of(io);
    ssize_t n;

    responder_enter(r);
    n = read_body(r, out, len);
    responder_leave(r);
    return n;
}

/* From now on FCGI_DATA is read: what is left of the body is dropped. */
static void
begin_data(struct responder *r)
{
    if (!r->data_on) {
        r->data_on = true;
        r->slice_len = 0;
        buf_clear(&r->request->kept);
        r->request->kept_used = 0;
    }
}

/* Bytes of FCGI_DATA that are at hand, copied. 0: none. */
static size_t
copy_data(struct responder *r, char *out, size_t len)
{
    size_t n = r->data.len - r->data_used;

    if (n > 0) {
        n = n < len ? n : len;
        memcpy(out, r->data.data + r->data_used, n);
        r->data_used += n;
        if (r->data_used == r->data.len) {
            buf_clear(&r->data);
            r->data_used = 0;
        }
        return n;
    }
    if (r->slice_len > 0 || next_slice(r)) {
        n = r->slice_len < len ? r->slice_len : len;
        memcpy(out, r->slice, n);
        r->slice += n;
        r->slice_len -= n;
    }
    return n;
}

static ssize_t
read_data(struct responder *r, char *out, size_t len)
{
    begin_data(r);
    for (;;) {
        size_t n = copy_data(r, out, len);
        ssize_t rc;

        if (n > 0) {
            return (ssize_t)n;
        }
        if (r->error != 0) {
            return r->error;
        }
        if (r->dropped) {
            return -ENOBUFS;
        }
        if (r->request->data_done) {
            return 0;
        }
        rc = read_or_wait(r, NULL, 0);
        if (rc < 0) {
            return rc;
        }
    }
}

ssize_t
responder_data_read_nogil(struct wsgi_io *io, char *out, size_t len)
{
    struct responder *r = responder_of(io);
    ssize_t n;

    responder_enter(r);
    n = has_data(r) ? read_data(r, out, len) : -EOPNOTSUPP;
    responder_leave(r);
    return n;
}

/* Keep the slices of the current stream. */
static bool
stash(struct responder *r, struct buf *b, size_t used)
{
    while (r->slice_len > 0 || next_slice(r)) {
        if (!r->discard && (b->len - used + r->slice_len > KEEP_BYTES ||
                            buf_append(b, r->slice, r->slice_len) != 0)) {
            return false;
        }
        r->slice_len = 0;
    }
    return true;
}

bool
responder_stash(struct responder *r)
{
    if (!r->data_on && !stash(r, &r->request->kept, r->request->kept_used)) {
        return false;
    }
    if (r->request->body_done && has_data(r)) {
        r->data_on = true;
    }
    return !r->data_on || stash(r, &r->data, r->data_used);
}

void
responder_discard_body(struct responder *r)
{
    r->discard = true;
    if (r->stream != NULL) {
        mux_discard(r->x, r->stream);
        return;
    }
    r->slice_len = 0;
    buf_clear(&r->request->kept);
    r->request->kept_used = 0;
    r->data_on = has_data(r);
    next_slice(r);
}
