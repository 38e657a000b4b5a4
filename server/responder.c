/* SPDX-License-Identifier: MIT
 *
 * See responder.h. Sharing of the connection, output (records, files), and the
 * calls of the server; input is responder_input.c.
 *
 * While an answer waits to be written the rest of the body is read on, since
 * some front ends write their whole request before they read a byte of the
 * answer: kept for the application up to a limit, dropped once it is done.
 */
#include "server/responder_parts.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/socket.h>

#include "protocol/fcgi.h"
#include "protocol/response.h"
#include "python/interp.h"
#include "server/clock.h"
#include "server/connection.h"
#include "server/log.h"
#include "server/lookout.h"

enum {
    TAIL_BYTES = FCGI_HEADER_LEN + sizeof(FCGI_EndRequestRecord),
    ERRORS_BYTES = 1 << 18, /* FCGI_STDERR between two writes of an answer */
    LOOK_MS = 200,          /* between two looks at a peer that we write to */
    STALL_MS = 5000,        /* neither side moves: then the body gives way */
    SEND_IOV = 64,          /* iovecs of one sendmsg */
    SMALL_BYTES = 4096,     /* of an answer that is copied together */
    SMALL_PIECES = 8,
    FILE_RECORD = 15 * 4096, /* of a file: whole pages */
    SEND_BUFFER = 425984,    /* asked for; the kernel takes wmem_max at most */
};

struct responder *
responder_of(struct wsgi_io *io)
{
    return (struct responder *)io;
}

int
responder_fail(struct responder *r, int error)
{
    if (r->error == 0) {
        r->error = error;
    }
    return r->error;
}

/* -- sharing ----------------------------------------------------------------
 *
 * While the application runs, a connection that may carry more requests is lent
 * (conntable.h): each function of the table owns it again for as long as it
 * works. When another thread has taken it over, what is here of the connection
 * is a stream of mux.h from then on.
 */

void
responder_enter(struct responder *r)
{
    if (worker_is_forked_child()) {
        r->lends = r->lent = false; /* nothing of it is ours here */
        r->stream = NULL;
        responder_fail(r, -EPIPE);
    }
    if (!r->lent) {
        return;
    }
    r->lent = false;
    while (!conntable_resume(r->c)) {
        r->stream = mux_stream(r->c, r->request);
        if (r->stream != NULL) {
            return;
        }
        sched_yield(); /* somebody looks at it, and gives it back */
    }
}

void
responder_leave(struct responder *r)
{
    struct connection *c = r->c;

    if (!r->lends || r->stream != NULL || r->complete || r->error != 0) {
        return;
    }
    c->lent_ns = r->watched ? clock_coarse_ns() : 0;
    r->lent = true;
    if (!conntable_lend(c) && !r->watched) {
        lookout_rearm(r->x->worker, c);
    }
}

void
responder_share(struct responder *r, bool event, enum decode_event which)
{
    struct executor *x = r->x;
    struct mux_start start = { .state = STREAM_RUNNING,
                               .event = event,
                               .which = which };
    unsigned ready = 0;

    start.turn = r->sending;
    responder_yield(r, &start);
    r->stream = mux_share(x, r->c, &start, &ready);
    if (r->stream == NULL) {
        log_error("out of memory for a shared connection; it is closed");
        responder_fail(r, -ECONNRESET);
        return;
    }
    r->turn = r->sending;
    r->c->runner = NULL;
    connection_look_after(x, r->c, ready);
    if (r->discard) {
        mux_discard(x, r->stream);
    }
}

void
responder_yield(struct responder *r, struct mux_start *ret)
{
    ret->request = r->request;
    ret->slice = r->slice;
    ret->slice_len = r->slice_len;
    ret->data = r->x->read + r->x->pos;
    ret->len = r->x->end - r->x->pos;
    r->slice_len = 0;
    r->x->pos = r->x->end = 0;
}

/* A block of whole records follows, or is through. */
static void
turn_begin(struct responder *r)
{
    if (r->stream != NULL && !r->turn) {
        mux_turn_begin(r->c);
        r->turn = true;
    }
}

/* A block that was broken off leaves nothing to be said on the connection. */
static int
turn_end(struct responder *r, int rc)
{
    if (r->turn) {
        if (rc < 0) {
            mux_kill(r->c);
        }
        r->turn = false;
        mux_turn_end(r->c);
    }
    return rc;
}

/* -- waiting ----------------------------------------------------------------
 */

int
responder_wait_for(struct responder *r, short events, uint64_t timeout_ms)
{
    struct pollfd p = { .fd = r->c->fd, .events = events };
    int timeout = timeout_ms > INT32_MAX ? INT32_MAX : (int)timeout_ms;
    int n = poll(&p, 1, timeout);

    if (n > 0) {
        return p.revents;
    }
    if (n == 0) {
        return -ETIMEDOUT;
    }
    return errno == EINTR ? -EINTR : -errno;
}

/* -- output -----------------------------------------------------------------
 */

/* Nothing of the answer is taken, and no more of the body can be kept: the
 * front end may be one that reads only when it has written everything
 * (mod_proxy_scgi, mod_fcgid, Caddy), and then neither side would ever move.
 * What is kept of the body stays; the application's read behind it fails. */
static void
drop_rest(struct responder *r)
{
    if (r->data_on) {
        log_warnx("the front end takes nothing of an answer before FCGI_DATA "
                  "is sent, which the application does not read: the rest of "
                  "it is dropped");
    } else {
        log_warnx("the front end takes nothing of an answer before the request "
                  "body is sent, which the application does not read: the body "
                  "is dropped behind %llu bytes",
                  (unsigned long long)(r->request->body_seen - r->slice_len));
    }
    r->dropped = r->discard = true;
    r->slice_len = 0;
}

static uint64_t
stall_ms(const struct responder *r)
{
    uint64_t write_timeout = r->x->worker->settings->write_timeout;

    return write_timeout / 2 < STALL_MS ? write_timeout / 2 : STALL_MS;
}

/* The same on a shared connection. */
static int
wait_shared(struct responder *r)
{
    struct executor *x = r->x;
    int rc;

    do {
        rc = mux_wait_writable(x, r->c, r->stream,
                               x->worker->settings->write_timeout, stall_ms(r));
        if (rc == -EINTR && x->main_thread) {
            interp_check_signals_nogil();
        }
    } while (rc == -EINTR);
    return rc < 0 ? responder_fail(r, rc) : 0;
}

static bool
may_read_on(struct responder *r)
{
    return !r->eof && !decoder_has_all(r->request) && responder_stash(r) &&
           r->stream == NULL && !decoder_has_all(r->request) && r->error == 0;
}

/* The socket is full. Wait for room, and meanwhile read the body on. */
static int
wait_writable(struct responder *r)
{
    struct executor *x = r->x;
    int rc;

    for (;;) {
        bool readable = r->stream == NULL && may_read_on(r);
        bool looks = readable || (r->lends && !r->eof && r->slice_len == 0);

        if (r->stream != NULL) {
            return wait_shared(r);
        }

        if (r->error != 0 && r->error != -ETIMEDOUT) {
            return r->error;
        }
        rc = responder_wait_for(r, looks ? POLLIN | POLLOUT : POLLOUT,
                                r->slice_len > 0
                                    ? stall_ms(r)
                                    : x->worker->settings->write_timeout);
        if (rc == -ETIMEDOUT && r->slice_len > 0) {
            drop_rest(r);
            continue;
        }
        if (rc == -EINTR) {
            if (x->main_thread) {
                interp_check_signals_nogil();
            }
            continue;
        }
        if (rc < 0) {
            return responder_fail(r, rc);
        }
        if (rc & (POLLOUT | POLLERR | POLLHUP)) {
            return 0;
        }
        if (!readable) {
            /* Others need not wait for us. */
            responder_share(r, false, DECODE_MORE);
            continue;
        }
        rc = (int)responder_read_more(r, NULL, 0);
        if (rc < 0 && rc != -EAGAIN && rc != -EINTR) {
            return rc;
        }
    }
}

/* The socket was full for the first time: a larger buffer lets the answer leave
 * with fewer waits, and an answer that fits into it frees this thread however
 * slowly the front end reads. TCP sizes its buffers itself. True when it is
 * worth another try; once for a connection. */
static bool
widen(struct responder *r)
{
    int domain = 0, bytes = SEND_BUFFER;
    socklen_t len = sizeof(domain);

    if (r->c->widened) {
        return false;
    }
    r->c->widened = true;
    if (getsockopt(r->c->fd, SOL_SOCKET, SO_DOMAIN, &domain, &len) == 0 &&
        domain == AF_UNIX) {
        setsockopt(r->c->fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes));
    }
    return true;
}

/* Send all of iov (which is used up). */
static int
send_all(struct responder *r, struct iovec *iov, int count, int flags)
{
    /* In a forked child the descriptor is closed, and may be another file. */
    int rc = worker_is_forked_child() ? responder_fail(r, -EPIPE) : 0;

    r->sending = true;
    while (count > 0 && rc == 0) {
        struct msghdr m = { .msg_iov = iov, .msg_iovlen = (size_t)count };
        ssize_t n = count == 1 ? send(r->c->fd, iov->iov_base, iov->iov_len,
                                      MSG_NOSIGNAL | flags)
                               : sendmsg(r->c->fd, &m, MSG_NOSIGNAL | flags);

        if (n < 0) {
            if (errno == EAGAIN) {
                if (widen(r)) {
                    continue;
                }
                scoreboard_set(r->x->score, SCORE_WRITING);
                rc = wait_writable(r);
                scoreboard_set(r->x->score, SCORE_RUNNING);
            } else if (errno != EINTR) {
                rc = responder_fail(r, -EPIPE);
            }
            continue;
        }
        r->begun = true;
        while (count > 0 && (size_t)n >= iov->iov_len) {
            n -= (ssize_t)iov->iov_len;
            iov++;
            count--;
        }
        if (count > 0 && n > 0) {
            iov->iov_base = (char *)iov->iov_base + n;
            iov->iov_len -= (size_t)n;
        }
    }
    r->sending = false;
    return rc;
}

/* With FastCGI END_REQUEST must wait, on a kept connection, until the body was
 * read: some front ends break or reuse the connection otherwise. */
static bool
may_end(const struct responder *r)
{
    if (r->stream != NULL) {
        return !r->request->keep_conn || mux_body_done(r->stream);
    }
    return r->request->protocol != REQUEST_FCGI || !r->request->keep_conn ||
           decoder_has_all(r->request);
}

static void
put_tail(char *out, unsigned id)
{
    fcgi_put_header(out, FCGI_STDOUT, id, 0, 0);
    fcgi_put_end(out + FCGI_HEADER_LEN, id, 0, FCGI_REQUEST_COMPLETE);
}

/* The pieces of one sendmsg: records around slices of the caller's iovec. */
struct gather {
    struct iovec iov[SEND_IOV];
    char head[SEND_IOV / 2][FCGI_HEADER_LEN];
    int count;
    int heads;
};

/* Take as much of *in (from *offset) as one record and the room allow. */
static void
gather_record(struct gather *g, unsigned id, const struct iovec **in,
              int *in_count, size_t *offset)
{
    char *head = g->head[g->heads++];
    size_t len = 0;

    g->iov[g->count++] = (struct iovec){ head, FCGI_HEADER_LEN };
    while (*in_count > 0 && g->count < SEND_IOV - 1 && len < FCGI_CONTENT_MAX) {
        size_t n = (*in)->iov_len - *offset;

        n = n < FCGI_CONTENT_MAX - len ? n : FCGI_CONTENT_MAX - len;
        if (n > 0) {
            g->iov[g->count++] =
                (struct iovec){ (char *)(*in)->iov_base + *offset, n };
        }
        len += n;
        *offset += n;
        if (*offset == (*in)->iov_len) {
            (*in)++;
            (*in_count)--;
            *offset = 0;
        }
    }
    if (len == 0) { /* an empty STDOUT record would end the stream */
        g->count--;
        g->heads--;
        return;
    }
    fcgi_put_header(head, FCGI_STDOUT, id, len, 0);
}

/* A small answer, copied together: that costs less than an iovec of three. */
static int
send_small(struct responder *r, const struct iovec *iov, int count,
           size_t total, bool end)
{
    char out[FCGI_HEADER_LEN + SMALL_BYTES + TAIL_BYTES];
    struct iovec whole = { out, FCGI_HEADER_LEN };

    fcgi_put_header(out, FCGI_STDOUT, r->request->id, total, 0);
    for (int i = 0; i < count; i++) {
        memcpy(out + whole.iov_len, iov[i].iov_base, iov[i].iov_len);
        whole.iov_len += iov[i].iov_len;
    }
    if (end) {
        put_tail(out + whole.iov_len, r->request->id);
        whole.iov_len += TAIL_BYTES;
    }
    turn_begin(r);
    return turn_end(r, send_all(r, &whole, 1, 0));
}

static size_t
iov_total(const struct iovec *iov, int count)
{
    size_t total = 0;

    for (int i = 0; i < count; i++) {
        total += iov[i].iov_len;
    }
    return total;
}

/* errors: records to go in front, or empty; used up. */
static int
send_records(struct responder *r, struct buf *errors, const struct iovec *iov,
             int count, bool end)
{
    char tail[TAIL_BYTES];
    size_t offset = 0;
    size_t total = count <= SMALL_PIECES ? iov_total(iov, count) : SIZE_MAX;

    if (total > 0 && total <= SMALL_BYTES && errors->len == 0) {
        return send_small(r, iov, count, total, end);
    }
    do {
        struct gather g;
        int rc;

        g.count = g.heads = 0;
        if (errors->len > 0) {
            g.iov[g.count++] = (struct iovec){ errors->data, errors->len };
        }
        while (count > 0 && g.count < SEND_IOV - 3) {
            gather_record(&g, r->request->id, &iov, &count, &offset);
        }
        if (end && count == 0) {
            put_tail(tail, r->request->id);
            g.iov[g.count++] = (struct iovec){ tail, sizeof(tail) };
        }
        turn_begin(r);
        rc = turn_end(r, send_all(r, g.iov, g.count, 0));
        buf_clear(errors);
        if (rc < 0) {
            return rc;
        }
    } while (count > 0);
    return 0;
}

/* The beginning of a response: over uwsgi a line of HTTP, as uWSGI sends it, in
 * place of Status. out has room for two; returns how many. */
static int
put_first(const struct responder *r, const struct iovec *in, struct iovec *out)
{
    static const char status[] = "Status: ", http[] = "HTTP/1.1 ";
    size_t n = sizeof(status) - 1;

    out[0] = *in;
    if (r->request->protocol != REQUEST_UWSGI || r->begun || in->iov_len < n ||
        memcmp(in->iov_base, status, n) != 0) {
        return 1;
    }
    out[0] = (struct iovec){ (void *)http, sizeof(http) - 1 };
    out[1] = (struct iovec){ (char *)in->iov_base + n, in->iov_len - n };
    return 2;
}

static int
send_plain(struct responder *r, const struct iovec *iov, int count)
{
    struct iovec copy[SEND_IOV + 1];

    while (count > 0) {
        int n = count < SEND_IOV ? count : SEND_IOV;
        int first = put_first(r, iov, copy);
        int rc;

        memcpy(copy + first, iov + 1, (size_t)(n - 1) * sizeof(*copy));
        rc = send_all(r, copy, n - 1 + first, 0);
        if (rc < 0) {
            return rc;
        }
        iov += n;
        count -= n;
    }
    return 0;
}

/* A peer that gave up (FCGI_ABORT_REQUEST) or left is noticed at the next
 * write; a look every LOOK_MS costs nothing and finds the rest. What else
 * stands there is the next request and stays. */
static void
look(struct responder *r)
{
    uint64_t now = clock_coarse_ns();
    unsigned char head[FCGI_HEADER_LEN];
    ssize_t n;

    if (r->stream != NULL) {
        if (mux_gave_up(r->x, r->stream, false)) {
            r->aborted = mux_is_aborted(r->stream);
            responder_fail(r, -EPIPE);
        }
        return;
    }
    if (now - r->looked_ns < (uint64_t)LOOK_MS * NS_PER_MS ||
        r->x->pos < r->x->end || r->request->protocol != REQUEST_FCGI) {
        return;
    }
    r->looked_ns = now;
    n = recv(r->c->fd, head, sizeof(head), MSG_PEEK | MSG_DONTWAIT);
    if (n == (ssize_t)sizeof(head) && head[1] == FCGI_ABORT_REQUEST &&
        (head[2] << 8 | head[3]) == r->request->id) {
        r->aborted = true;
        responder_fail(r, -EPIPE);
    }
}

void
responder_init_errors(struct buf *errors)
{
    buf_init(errors, ERRORS_BYTES);
}

/* One record for each line: front ends make an entry of each record. */
static void
error_text(struct wsgi_io *io, const char *text, size_t len)
{
    struct responder *r = responder_of(io);
    struct buf *errors = &r->x->errors;

    pthread_mutex_lock(&r->x->errors_lock);
    while (len > 0) {
        const char *end = memchr(text, '\n', len);
        size_t n = end != NULL ? (size_t)(end - text) + 1 : len;
        char head[FCGI_HEADER_LEN];

        n = n < FCGI_CONTENT_MAX ? n : FCGI_CONTENT_MAX;
        if (buf_reserve(errors, sizeof(head) + n) != 0) {
            break; /* it is in our own log */
        }
        fcgi_put_header(head, FCGI_STDERR, r->request->id, n, 0);
        buf_append(errors, head, sizeof(head));
        buf_append(errors, text, n);
        text += n;
        len -= n;
    }
    pthread_mutex_unlock(&r->x->errors_lock);
}

/* Take what is there; *ret is to be released. A thread of the application may
 * write the response while this one still adds. */
static void
take_errors(struct responder *r, struct buf *ret)
{
    pthread_mutex_lock(&r->x->errors_lock);
    *ret = r->x->errors;
    responder_init_errors(&r->x->errors);
    pthread_mutex_unlock(&r->x->errors_lock);
}

static int
write_records(struct responder *r, const struct iovec *iov, int count, bool end)
{
    struct buf errors = { 0 };
    int rc;

    if (r->io.ops->error_text != NULL) {
        take_errors(r, &errors);
    }
    rc = send_records(r, &errors, iov, count, end);
    buf_release(&errors);
    return rc;
}

static int
write_all(struct responder *r, const struct iovec *iov, int count, bool last)
{
    bool end = false;
    int rc;

    if (r->begun || r->stream != NULL) {
        look(r);
    }
    if (last) {
        responder_discard_body(r);
        end = may_end(r);
    }
    if (r->error != 0 && r->error != -ETIMEDOUT) {
        return r->error == -ECONNRESET ? -EPIPE : r->error;
    }
    if (r->request->protocol != REQUEST_FCGI) {
        rc = send_plain(r, iov, count);
    } else {
        rc = write_records(r, iov, count, end);
    }
    if (rc == 0 && last) {
        r->complete = true;
        r->ended = end;
    }
    if (last && r->x->worker->access != NULL) {
        r->answered_ns = clock_now_ns();
    }
    return rc;
}

static int
write_nogil(struct wsgi_io *io, const struct iovec *iov, int count, bool last)
{
    struct responder *r = responder_of(io);
    int rc;

    responder_enter(r);
    rc = write_all(r, iov, count, last);
    responder_leave(r);
    return rc;
}

/* len bytes of a file at *offset. 0, -EIO when the file ended early, or as
 * send_all. */
static int
send_file_bytes(struct responder *r, int fd, off_t *offset, uint64_t len)
{
    while (len > 0) {
        ssize_t n = sendfile(r->c->fd, fd, offset, len);
        int rc;

        if (n > 0) {
            len -= (uint64_t)n;
        } else if (n == 0) {
            return responder_fail(r, -EIO);
        } else if (errno == EAGAIN) {
            if (widen(r)) {
                continue;
            }
            r->sending = true;
            rc = wait_writable(r);
            r->sending = false;
            if (rc < 0) {
                return rc;
            }
        } else if (errno != EINTR) {
            return responder_fail(r, errno == EIO ? -EIO : -EPIPE);
        }
    }
    return 0;
}

static int64_t
send_file(struct responder *r, const struct iovec *head, int fd, off_t offset,
          uint64_t len, bool last)
{
    bool fcgi = r->request->protocol == REQUEST_FCGI;
    off_t at = offset;
    off_t end = offset + (off_t)len;
    size_t extra = head != NULL ? head->iov_len : 0;
    int rc = r->error == -ECONNRESET ? -EPIPE : r->error;

    if (last) {
        responder_discard_body(r);
    }
    if (extra > FCGI_CONTENT_MAX - FILE_RECORD) {
        rc = write_all(r, head, 1, false);
        extra = 0;
    }
    while (rc == 0 && (at < end || extra > 0)) {
        uint64_t chunk = (uint64_t)(end - at);
        char record[FCGI_HEADER_LEN];
        struct iovec iov[3];
        int n = 0;

        if (fcgi && chunk > FILE_RECORD) {
            chunk = FILE_RECORD;
        }
        if (fcgi) {
            fcgi_put_header(record, FCGI_STDOUT, r->request->id, chunk + extra,
                            0);
            iov[n++] = (struct iovec){ record, sizeof(record) };
        }
        if (extra > 0) {
            n += put_first(r, head, iov + n);
        }
        turn_begin(r);
        rc = send_all(r, iov, n, MSG_MORE);
        if (rc == 0) {
            rc = send_file_bytes(r, fd, &at, chunk);
        }
        turn_end(r, rc);
        extra = 0;
    }
    if (rc == 0 && last) {
        rc = write_all(r, NULL, 0, true);
    }
    return rc == 0 || rc == -EIO ? (int64_t)(at - offset) : rc;
}

static int64_t
sendfile_nogil(struct wsgi_io *io, const struct iovec *head, int fd,
               off_t offset, uint64_t len, bool last)
{
    struct responder *r = responder_of(io);
    int64_t rc;

    responder_enter(r);
    rc = send_file(r, head, fd, offset, len, last);
    responder_leave(r);
    return rc;
}

/* -- what the server calls --------------------------------------------------
 */

static bool
is_connected(struct responder *r)
{
    struct pollfd p = { .fd = r->c->fd, .events = POLLRDHUP };

    if (r->error != 0 || r->eof) {
        return false;
    }
    if (r->stream != NULL) {
        return !mux_gave_up(r->x, r->stream, true);
    }
    /* A front end that speaks SCGI may shut its side and still read (it has
     * said all); none that speaks FastCGI does. */
    if (poll(&p, 1, 0) > 0) {
        return (p.revents & (POLLHUP | POLLERR)) == 0 &&
               r->request->protocol != REQUEST_FCGI;
    }
    look(r);
    return r->error == 0;
}

static bool
connected(struct wsgi_io *io)
{
    struct responder *r = responder_of(io);
    bool yes;

    responder_enter(r);
    yes = is_connected(r);
    responder_leave(r);
    return yes;
}

/* On a shared connection only the request ends. */
static void
end_stream(struct responder *r)
{
    if (r->error == 0 && !r->ended && r->complete && may_end(r)) {
        r->ended = responder_end(r->x, r->c, r->request, r->stream) == 0;
    }
    if (r->ended) {
        mux_free_id(r->stream);
    }
}

/* Work after the response follows, perhaps long: the peer gets the end now, and
 * a kept connection is given up, since its next request would wait here. */
static void
response_over_nogil(struct wsgi_io *io)
{
    struct responder *r = responder_of(io);

    responder_enter(r);
    r->lends = false;
    if (r->stream != NULL) {
        end_stream(r);
        scoreboard_set(r->x->score, SCORE_AFTER);
        return;
    }
    if (r->error == 0 && r->begun && !r->ended && r->complete &&
        r->request->protocol == REQUEST_FCGI) {
        r->ended = responder_end(r->x, r->c, r->request, NULL) == 0;
    }
    shutdown(r->c->fd, SHUT_WR);
    scoreboard_set(r->x->score, SCORE_AFTER);
}

#define OPS                                                                    \
    .body_ready = responder_body_ready, .body_take = responder_body_take,      \
    .body_read_nogil = responder_body_read_nogil,                              \
    .data_read_nogil = responder_data_read_nogil, .write_nogil = write_nogil,  \
    .sendfile_nogil = sendfile_nogil, .connected = connected,                  \
    .response_over_nogil = response_over_nogil

static const struct wsgi_io_ops ops = { OPS };
/* FastCGI with fcgi_stderr. */
static const struct wsgi_io_ops ops_with_errors = { OPS,
                                                    .error_text = error_text };

static void
begin(struct responder *r, struct executor *x, struct connection *c,
      struct request *request, struct stream *stream)
{
    bool errors =
        x->worker->settings->fcgi_stderr && request->protocol == REQUEST_FCGI;

    buf_clear(&x->errors);
    *r = (struct responder){
        .io = { errors ? &ops_with_errors : &ops },
        .x = x,
        .c = c,
        .request = request,
        .stream = stream,
        .data = { .limit = SIZE_MAX },
    };
}

/* Bytes of another request must be able to wake another thread. */
static void
lend(struct responder *r)
{
    struct connection *c = r->c;
    struct executor *x = r->x;

    if (r->stream == NULL && r->request->protocol == REQUEST_FCGI &&
        r->request->role != REQUEST_FILTER && r->request->keep_conn &&
        c->decoder.limits.mpx > 1 && connection_register(x->worker, c)) {
        r->lends = true;
        c->runner = r;
        /* With the whole body at hand, what comes is another's. */
        c->force = decoder_next(&c->decoder, r->request, x->read + x->pos,
                                x->end - x->pos) == DECODER_WHOLE;
        r->watched = !c->force;
        if (r->watched) {
            lookout_watch(x->worker, c);
        }
        responder_leave(r);
        if (x->full && !r->watched) {
            lookout_rearm(x->worker, c); /* the socket may hold more */
        }
    }
}

/* All is over: the connection is ours again, or shared. */
static void
take_back(struct responder *r)
{
    struct connection *c = r->c;

    responder_enter(r);
    if (r->lends && r->stream == NULL) {
        c->runner = NULL;
        if (c->noted) {
            c->noted = false;
            conntable_note(c);
        }
    }
    r->lends = false;
}

void
responder_run(struct responder *r, struct executor *x, struct connection *c,
              struct request *request, struct stream *stream,
              struct wsgi_outcome *ret)
{
    begin(r, x, c, request, stream);
    r->looked_ns = clock_coarse_ns();
    lend(r);
    wsgi_run_nogil(x->wsgi, request, &r->io, ret);
    take_back(r);
    buf_release(&r->data);
}

/* What the access log says about an answer of the server's own. */
static void
note_own(struct responder *r, const struct buf *answer)
{
    const char *status = answer->data + sizeof("Status: ") - 1;
    const char *end = memmem(answer->data, answer->len, "\r\n\r\n", 4);

    if (end != NULL) {
        r->own_status = (int)strtol(status, NULL, 10);
        r->own_bytes = (uint64_t)(answer->data + answer->len - end - 4);
    }
}

void
responder_send_scratch(struct responder *r, struct executor *x,
                       struct connection *c, struct request *request,
                       struct stream *stream)
{
    struct iovec iov = { x->scratch.data, x->scratch.len };

    begin(r, x, c, request, stream);
    note_own(r, &x->scratch);
    write_nogil(&r->io, &iov, 1, true);
}

void
responder_answer(struct responder *r, struct executor *x, struct connection *c,
                 struct request *request, struct stream *stream, int status)
{
    begin(r, x, c, request, stream);
    if (response_simple(&x->scratch, status, false) != 0) {
        responder_fail(r, -ENOMEM);
        return;
    }
    responder_send_scratch(r, x, c, request, stream);
}

int
responder_end(struct executor *x, struct connection *c, struct request *request,
              struct stream *stream)
{
    char tail[TAIL_BYTES];
    struct iovec iov = { tail, sizeof(tail) };
    struct responder r;
    int rc;

    if (request->protocol != REQUEST_FCGI) {
        return 0;
    }
    begin(&r, x, c, request, stream);
    put_tail(tail, request->id);
    turn_begin(&r);
    rc = turn_end(&r, send_all(&r, &iov, 1, 0));
    buf_release(&r.data);
    return rc;
}
