/* SPDX-License-Identifier: MIT
 *
 * See connection.h. The way of a request: connection_serve() reads, advance()
 * decodes, run() lets responder.c call the application, after_answer() says
 * what becomes of the connection.
 */
#include "server/connection.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "server/access_log.h"
#include "server/address.h"
#include "server/clock.h"
#include "server/handover.h"
#include "server/log.h"
#include "server/lookout.h"
#include "server/mux.h"
#include "server/pool_page.h"
#include "server/reserve.h"
#include "server/responder.h"

/* Once our side is shut, input is dropped this long and this far (front ends
 * that write their whole body before they read need it); then we close. */
enum { LINGER_MS = 30000, RETRY_MS = 10 };

/* What a request without memory counts, against 1 of each that went well, and
 * when the worker is given up: after 5 in a row, or when every second one
 * fails. */
enum { STARVED_EACH = 2, STARVED_MAX = 10 };
#define LINGER_BYTES ((size_t)1 << 30)

enum next {
    NEXT_READ, /* look at the socket again */
    NEXT_WAIT, /* everything is decoded: wait for the peer */
    NEXT_CLOSE,
    NEXT_HELD,   /* only reserved slots are left: it is reserve.h's now */
    NEXT_SHARED, /* it is shared now: see to what became ready */
    NEXT_GONE,   /* it is not this thread's any more */
};

static const char *
peer_name(const struct connection *c, char *out, size_t size)
{
    struct sockaddr_storage sa;
    socklen_t len = sizeof(sa);

    if (getpeername(c->fd, (struct sockaddr *)&sa, &len) != 0) {
        return "a peer that is gone";
    }
    return address_format((struct sockaddr *)&sa, len, out, size);
}

static void
close_connection(struct executor *x, struct connection *c)
{
    x->pos = x->end = 0;
    if (c->request != NULL) {
        decoder_end(&c->decoder, c->request);
        c->request = NULL;
    }
    conntable_close(&x->worker->conns, c);
}

static int
end_request(struct executor *x, struct connection *c)
{
    return responder_end(x, c, c->request, NULL);
}

/* What becomes of the connection now that its request was answered. */
static enum next
after_answer(struct executor *x, struct connection *c, bool ended, bool keep)
{
    bool whole = decoder_has_all(c->request);
    bool all_read = whole && x->pos == x->end;

    c->served = true;
    if (!keep) {
        if (!ended && end_request(x, c) != 0) {
            return NEXT_CLOSE;
        }
        if (all_read) {
            return NEXT_CLOSE;
        }
        /* Closing with unread input makes the kernel send a reset, and the
         * peer may lose the answer. */
        shutdown(c->fd, SHUT_WR);
        x->pos = x->end = 0;
        c->phase = CONN_LINGER;
        return NEXT_READ;
    }
    if (!ended && !whole) {
        c->phase = CONN_DISCARD;
        return NEXT_WAIT;
    }
    /* The last of it came while the answer was sent. */
    if (!ended && end_request(x, c) != 0) {
        return NEXT_CLOSE;
    }
    decoder_end(&c->decoder, c->request);
    c->request = NULL;
    c->phase = CONN_HEAD;
    c->waits_since_ns = 0;
    return NEXT_WAIT;
}

static void
show_begin(struct executor *x, const struct request *r, uint64_t now_ns)
{
    const struct request_param *p;
    const char *method = "", *uri = "";
    size_t method_len = 0, uri_len = 0;

    if (r->method >= 0) {
        p = &r->param[r->method];
        method = r->params.data + p->value;
        method_len = p->value_len;
    }
    if (r->uri >= 0) {
        p = &r->param[r->uri];
        uri = r->params.data + p->value;
        uri_len = p->value_len;
    }
    scoreboard_begin(x->score, method, method_len, uri, uri_len, now_ns);
}

/* -- slots kept for short requests (reserve.h) -------------------------------
 */

static enum next
hold(struct executor *x, struct connection *c)
{
    x->pos = x->end = 0;
    reserve_hold(x, c);
    return NEXT_HELD;
}

/* It has waited for longer than queue_timeout. */
static void
refuse_late(struct request *r)
{
    r->refuse_status = 503;
    snprintf(r->refuse_why, sizeof(r->refuse_why),
             "a request has waited for longer than queue_timeout");
}

/* The bytes that were only looked at so far: from now on they are read. */
static bool
take_peeked(struct executor *x, struct connection *c)
{
    size_t n = c->peeked;

    c->peeked = 0;
    /* The same bytes to the same place. */
    return recv(c->fd, x->read, n, 0) == (ssize_t)n;
}

/* An event of bytes that are still in the socket. A request that may not begin
 * leaves them there, for whoever takes the connection. A head that is not
 * complete does not: a sender of small pieces waits until they are read. */
static enum next
on_peeked(struct executor *x, struct connection *c, enum decode_event event)
{
    struct request *r = c->decoder.req;

    if (event == DECODE_HEAD && r->refuse_status == 0 &&
        !reserve_has_room(x->worker, r)) {
        if (!reserve_is_late(x->worker, c)) {
            decoder_clear(&c->decoder, c->decoder.kind);
            c->peeked = 0;
            return hold(x, c);
        }
        refuse_late(r);
    }
    return take_peeked(x, c) ? NEXT_WAIT : NEXT_CLOSE;
}

/* May the request run, which has been read? Else it waits here, what was read
 * with it. */
static enum next
enter(struct executor *x, struct connection *c)
{
    struct request *r = c->request;

    if (r->refuse_status == 0 && !reserve_enter(x, r)) {
        if (!reserve_is_late(x->worker, c)) {
            c->saved_len = x->end - x->pos;
            c->saved = malloc(c->saved_len + 1);
            if (c->saved == NULL) {
                log_error("out of memory for a request that has to wait; "
                          "connection closed");
                return NEXT_CLOSE;
            }
            memcpy(c->saved, x->read + x->pos, c->saved_len);
            return hold(x, c);
        }
        refuse_late(r);
    }
    c->held_ns = 0;
    x->resumed = false;
    return NEXT_WAIT;
}

/* As recv(), of a worker with reserved slots: the beginning of a request is
 * only looked at. */
static ssize_t
peek(struct executor *x, struct connection *c, size_t size)
{
    bool begins = c->phase == CONN_HEAD && decoder_is_idle(&c->decoder);
    ssize_t n = recv(c->fd, x->read, size, begins ? MSG_PEEK : 0);

    c->peeked = begins && n > 0 ? (size_t)n : 0;
    return n;
}

/* What enter() has put aside is read again. */
static ssize_t
restore(struct executor *x, struct connection *c)
{
    ssize_t n = (ssize_t)c->saved_len;

    memcpy(x->read, c->saved, c->saved_len);
    free(c->saved);
    c->saved = NULL;
    return n;
}

/* -- a request --------------------------------------------------------------
 */

/* A line about a request that was answered, or should have been. */
static void
note_access(const struct responder *r, const struct wsgi_outcome *outcome,
            uint64_t begun_ns)
{
    struct access_entry e = {
        .request = r->request,
        .status = outcome->status,
        .body_bytes = outcome->body_bytes,
        .client_closed = outcome->peer_gone,
    };

    if (r->own_status != 0) {
        e.status = r->own_status;
        e.body_bytes = r->own_bytes;
        e.client_closed = r->error != 0;
    }
    access_log_write(r->x->worker->access, &e, begun_ns,
                     r->answered_ns != 0 ? r->answered_ns : clock_now_ns());
}

/* A request may want more memory than there is (a large upload); the next ones
 * do not. When many of them do not get what they need, the worker has used up
 * its limit (RLIMIT_AS, ulimit -v) and will not recover: another one is better
 * off. */
static void
look_at_memory(struct worker *w, const struct wsgi_outcome *outcome)
{
    int starved = atomic_load_explicit(&w->starved, memory_order_relaxed);

    if (!outcome->no_memory) {
        if (starved > 0) {
            atomic_fetch_sub(&w->starved, 1);
        }
        return;
    }
    starved = atomic_fetch_add(&w->starved, STARVED_EACH) + STARVED_EACH;
    if (starved >= STARVED_MAX && starved - STARVED_EACH < STARVED_MAX) {
        log_error("too many requests have ended with MemoryError: this worker "
                  "ends, and a new one takes its place");
        executor_stop(w);
    }
}

/* Answer a request, on this thread. */
static void
answer_request(struct executor *x, struct connection *c,
               struct request *request, struct stream *stream,
               struct responder *r, struct wsgi_outcome *outcome)
{
    bool refused =
        stream != NULL ? mux_is_refused(stream) : request->refuse_status != 0;
    uint64_t begun_ns = clock_now_ns();

    show_begin(x, request, begun_ns);
    lookout_begin(x->worker);
    if (refused && request->refuse_status == 503) {
        log_debug("%s: answered 503", request->refuse_why);
        responder_answer(r, x, c, request, stream, 503);
    } else if (refused) {
        log_warnx("%s: answered %d, not run", request->refuse_why,
                  request->refuse_status);
        responder_answer(r, x, c, request, stream, request->refuse_status);
    } else if (pool_page(x->worker, request, &x->scratch)) {
        responder_send_scratch(r, x, c, request, stream);
    } else {
        responder_run(r, x, c, request, stream, outcome);
    }
    if (worker_is_forked_child()) {
        _exit(EXIT_FAILURE); /* the application let its child come back here */
    }
    if (x->worker->access != NULL) {
        note_access(r, outcome, begun_ns);
    }
    scoreboard_end(x->score, outcome->failed);
    reserve_leave(x);
    x->answered++;
    look_at_memory(x->worker, outcome);
    if (outcome->exit_worker) {
        log_info("the application asked this worker to end (SystemExit)");
        executor_stop(x->worker);
    }
}

/* A shared connection, after its stream's thread has let go of it: somebody has
 * to look at it if nobody owns it. */
static void
look_again(struct executor *x, uint64_t event)
{
    struct connection *c = conntable_claim(&x->worker->conns, event);

    if (c != NULL) {
        connection_look_after(x, c, 0);
    }
}

static void
finish_stream(struct executor *x, struct stream *s, bool ended, bool broken)
{
    struct connection *c = s->c;
    uint64_t event = conntable_event(c);

    switch (mux_answered(x, s, ended, broken)) {
    case MUX_END_SEND:
        responder_end(x, c, s->request, s);
        break;
    case MUX_END_LATER:
        look_again(x, event);
        return;
    default:
        break;
    }
    if (mux_done(s)) {
        look_again(x, event);
    }
}

void
connection_run_stream(struct executor *x, struct stream *s)
{
    struct wsgi_outcome outcome = { 0 };
    struct responder r = { .ended = false };
    bool broken = false;

    if (s->state == STREAM_RUNNING && !mux_gave_up(x, s, false)) {
        if (x->worker->reserve != NULL) {
            reserve_enter(x, s->request); /* it counts, and does not wait */
        }
        answer_request(x, s->c, s->request, s, &r, &outcome);
        broken = outcome.broken && !r.aborted;
    }
    finish_stream(x, s, r.ended, broken);
}

/* May other requests come on the connection while this one runs? */
static bool
may_share(const struct connection *c)
{
    return c->decoder.limits.mpx > 1 && c->request->protocol == REQUEST_FCGI &&
           c->request->role != REQUEST_FILTER && c->request->keep_conn;
}

/* Make the connection a shared one; the decoder's last event (when event is
 * set) and what is left in x->read go to whom they belong. 0 or -1. */
static int
share(struct executor *x, struct connection *c, enum stream_state state,
      bool event, enum decode_event which, unsigned *ready)
{
    struct mux_start start = {
        .request = c->request,
        .state = state,
        .event = event,
        .which = which,
        .data = x->read + x->pos,
        .len = x->end - x->pos,
    };

    if (mux_share(x, c, &start, ready) == NULL) {
        log_error("out of memory for a shared connection; it is closed");
        return -1;
    }
    x->pos = x->end = 0;
    return 0;
}

static enum next
run(struct executor *x, struct connection *c)
{
    struct request *request = c->request;
    struct wsgi_outcome outcome = { 0 };
    struct responder r;
    bool keep, late;

    if (x->worker->reserve != NULL) {
        enum next next = enter(x, c);

        if (next != NEXT_WAIT) {
            return next;
        }
    }
    /* Another request stands behind this one: it must not wait. */
    if (x->pos < x->end && may_share(c) &&
        decoder_next(&c->decoder, request, x->read + x->pos, x->end - x->pos) ==
            DECODER_OTHERS) {
        struct stream *s;
        unsigned ready = 0;

        if (share(x, c, STREAM_RUNNING, false, DECODE_MORE, &ready) != 0) {
            return NEXT_CLOSE;
        }
        s = mux_stream(c, request);
        connection_look_after(x, c, ready);
        connection_run_stream(x, s);
        return NEXT_GONE;
    }
    answer_request(x, c, request, NULL, &r, &outcome);
    if (r.stream != NULL) {
        finish_stream(x, r.stream, r.ended, outcome.broken && !r.aborted);
        return NEXT_GONE;
    }
    /* "The application ... responds with FCGI_END_REQUEST as soon as it can"
     * (FastCGI 1.0, section 5.4); what was sent so far is of no interest. */
    if (r.aborted && !r.eof) {
        return end_request(x, c) == 0
                   ? after_answer(x, c, true, request->keep_conn)
                   : NEXT_CLOSE;
    }
    /* A body that did not come in time may have been answered all the same. */
    late = r.error == -ETIMEDOUT && r.complete;
    if ((r.error != 0 && !late) || outcome.broken || outcome.peer_gone) {
        return NEXT_CLOSE;
    }
    keep = request->keep_conn && !r.eof && !late &&
           request->refuse_status == 0 && !outcome.had_after_work &&
           !outcome.exit_worker &&
           (!atomic_load_explicit(&x->worker->stopping, memory_order_relaxed) ||
            atomic_load(&x->worker->siblings));
    return after_answer(x, c, r.ended, keep);
}

/* Bytes that wait in the socket. */
static uint64_t
waiting_bytes(int fd)
{
    int n;

    return ioctl(fd, FIONREAD, &n) == 0 && n > 0 ? (uint64_t)n : 0;
}

/* Enough of the body is here to occupy a thread with the request. Bytes still
 * undecoded in x->read count: the application then reads them from there; so do
 * those that wait behind a first, small read: they are read straight into the
 * application's memory (with the headers of their records, which is near
 * enough). */
static bool
may_run(const struct executor *x, const struct connection *c)
{
    const struct request *r = c->request;
    uint64_t want = x->worker->settings->body_buffer;
    uint64_t have = r->kept.len + (x->end - x->pos);

    if (r->body_done || r->content_length == 0 || r->refuse_status != 0 ||
        x->resumed) {
        return true;
    }
    if (r->content_length > 0 && (uint64_t)r->content_length < want) {
        want = (uint64_t)r->content_length;
    }
    if (have < want && x->full && x->end == EXECUTOR_HEAD_BYTES) {
        have += waiting_bytes(c->fd);
    }
    return have >= want;
}

/* Body bytes that came before the application runs. */
static enum next
keep_body(struct connection *c)
{
    struct request *r = c->decoder.req;

    if (c->phase == CONN_BODY &&
        buf_append(&r->kept, c->decoder.data, c->decoder.data_len) != 0) {
        log_error("out of memory for a request body; connection closed");
        return NEXT_CLOSE;
    }
    return NEXT_WAIT;
}

/* The peer gave up a request that does not run (yet, or any more). */
static enum next
aborted(struct executor *x, struct connection *c)
{
    bool keep;

    c->request = c->decoder.req; /* perhaps before its head was complete */
    keep = c->request->keep_conn;
    if (end_request(x, c) != 0) {
        return NEXT_CLOSE;
    }
    return after_answer(x, c, true, keep);
}

/* The end of the body, or of FCGI_DATA. */
static enum next
input_ended(struct executor *x, struct connection *c)
{
    if (c->phase == CONN_DISCARD) {
        if (!decoder_has_all(c->request)) {
            return NEXT_WAIT;
        }
        return end_request(x, c) != 0 ? NEXT_CLOSE
                                      : after_answer(x, c, true, true);
    }
    return c->phase == CONN_BODY ? run(x, c) : NEXT_WAIT;
}

/* A management answer is small; a peer that does not read even that is
 * dropped. */
static enum next
reply(struct connection *c)
{
    const struct decoder *d = &c->decoder;
    ssize_t n = send(c->fd, d->reply, d->reply_len, MSG_NOSIGNAL);

    return n == (ssize_t)d->reply_len && !d->reply_closes ? NEXT_WAIT
                                                          : NEXT_CLOSE;
}

static enum next
malformed(const struct connection *c)
{
    char peer[128];

    log_warnx("connection from %s closed: %s", peer_name(c, peer, sizeof(peer)),
              c->decoder.why);
    return NEXT_CLOSE;
}

/* An event of another request than the one that waits for its body. */
static bool
is_of_another(const struct connection *c, enum decode_event event)
{
    return c->request != NULL && c->decoder.req != c->request &&
           c->decoder.limits.mpx > 1 &&
           (event == DECODE_HEAD || event == DECODE_BODY ||
            event == DECODE_BODY_END || event == DECODE_ABORT);
}

static enum next
on_event(struct executor *x, struct connection *c, enum decode_event event)
{
    if (is_of_another(c, event)) {
        return NEXT_SHARED;
    }
    switch (event) {
    case DECODE_HEAD:
        c->request = c->decoder.req;
        c->phase = CONN_BODY;
        /* With everything at hand the body is read in place. The end of the
         * body may stand in the buffer as well: look before running, so that
         * END_REQUEST can go out with the answer. */
        if (x->pos < x->end && c->request->content_length <= 0) {
            return NEXT_WAIT;
        }
        return may_run(x, c) ? run(x, c) : NEXT_WAIT;
    case DECODE_BODY:
        return keep_body(c);
    case DECODE_BODY_END:
    case DECODE_DATA_END:
        return input_ended(x, c);
    case DECODE_ABORT:
        return aborted(x, c);
    case DECODE_REPLY:
        return reply(c);
    case DECODE_BAD:
        return malformed(c);
    case DECODE_BUSY:
        log_warnx("connection closed: a request begins under the id of one "
                  "that is not over");
        return NEXT_CLOSE;
    default:
        return NEXT_WAIT; /* FCGI_DATA that nobody has read */
    }
}

/* Requests of the connection are beside each other before one of them runs. */
static enum next
share_waiting(struct executor *x, struct connection *c, enum decode_event event)
{
    enum stream_state state =
        c->phase == CONN_DISCARD ? STREAM_DISCARD : STREAM_BODY;
    unsigned ready = 0;

    if (share(x, c, state, true, event, &ready) != 0) {
        return NEXT_CLOSE;
    }
    connection_look_after(x, c, ready);
    return NEXT_GONE;
}

/* Decode what is in x->read and do what it says, up to its end. */
static enum next
advance(struct executor *x, struct connection *c)
{
    for (;;) {
        enum decode_event event;
        enum next next;
        size_t used;

        if (c->phase == CONN_LINGER) {
            c->lingered += x->end - x->pos;
            x->pos = x->end = 0;
            return c->lingered > LINGER_BYTES ? NEXT_CLOSE : NEXT_READ;
        }
        event =
            decoder_feed(&c->decoder, x->read + x->pos, x->end - x->pos, &used);
        x->pos += used;
        if (c->peeked > 0) {
            next = on_peeked(x, c, event);
            if (next != NEXT_WAIT) {
                return next;
            }
        }
        if (event == DECODE_MORE) {
            if (c->phase != CONN_BODY || !may_run(x, c)) {
                return NEXT_WAIT;
            }
            next = run(x, c);
        } else {
            next = on_event(x, c, event);
        }
        if (next == NEXT_SHARED) {
            return share_waiting(x, c, event);
        }
        if (next != NEXT_WAIT) {
            return next;
        }
    }
}

static uint64_t
wait_ms(struct connection *c, const struct pool_settings *s, uint64_t now)
{
    switch (c->phase) {
    case CONN_HEAD:
        if (c->served && decoder_is_idle(&c->decoder)) {
            c->waits_since_ns = 0;
            return s->keepalive_timeout;
        }
        if (c->waits_since_ns == 0) {
            c->waits_since_ns = now;
        }
        return s->header_timeout;
    case CONN_LINGER:
        return LINGER_MS;
    default:
        return s->body_timeout;
    }
}

int
connection_give_away(struct worker *w, struct connection *c)
{
    int rc = handover_send(w->queue_out, c->fd, c->decoder.kind);

    if (rc == 0) {
        /* The open file lives on elsewhere: closing our descriptor does not
         * take it out of our epoll set (epoll(7)). */
        if (c->registered) {
            epoll_ctl(w->epoll_fd, EPOLL_CTL_DEL, c->fd, NULL);
        }
        conntable_close(&w->conns, c);
    }
    return rc;
}

bool
connection_is_idle(const struct connection *c)
{
    return !mux_is_on(c) && c->phase == CONN_HEAD &&
           decoder_is_idle(&c->decoder);
}

/* rearm: there may be bytes whose edge has been used up. 0 or -errno. */
static int
watch(struct worker *w, struct connection *c, bool rearm)
{
    struct epoll_event ev = {
        .events = EPOLLIN | EPOLLRDHUP | EPOLLET,
        .data.u64 = conntable_event(c),
    };
    int op = c->registered ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;

    if (c->registered && !rearm && !c->poked) {
        return 0;
    }
    if (epoll_ctl(w->epoll_fd, op, c->fd, &ev) != 0) {
        return -errno;
    }
    c->poked = false;
    if (!c->registered) {
        c->registered = true;
        lookout_parked(w);
    }
    return 0;
}

bool
connection_register(struct worker *w, struct connection *c)
{
    return watch(w, c, false) == 0;
}

/* Put it into the epoll set until deadline_ns. False: still owned, look again
 * (or it cannot be watched, and is closed by whoever reads it: -errno). */
static int
put_back(struct worker *w, struct connection *c, bool rearm,
         uint64_t deadline_ns)
{
    int rc;

    atomic_store_explicit(&c->deadline_ns, deadline_ns, memory_order_relaxed);
    c->hangup = false;
    rc = watch(w, c, rearm);
    if (rc < 0) {
        log_error("epoll_ctl: %s; connection closed", strerror(-rc));
        return rc;
    }
    if (conntable_park(c)) {
        if (deadline_ns != UINT64_MAX) {
            executor_deadline(w, deadline_ns);
        }
        return 1;
    }
    return 0;
}

/* Give the connection back to the epoll set. False: still owned, look again.
 * The deadline of a head runs from its first byte, the others from now. rearm:
 * there may be bytes whose edge has been used up. */
static bool
park(struct executor *x, struct connection *c, bool rearm)
{
    struct worker *w = x->worker;
    uint64_t now = clock_coarse_ns();
    uint64_t wait = wait_ms(c, w->settings, now) * NS_PER_MS;
    uint64_t from = c->phase == CONN_HEAD && c->waits_since_ns != 0
                        ? c->waits_since_ns
                        : now;
    int rc;

    x->pos = x->end = 0;
    if (atomic_load_explicit(&w->stopping, memory_order_relaxed) &&
        c->phase == CONN_HEAD && decoder_is_idle(&c->decoder)) {
        rc = atomic_load(&w->siblings) ? connection_give_away(w, c) : -1;
        if (rc != -EAGAIN) {
            if (rc != 0) {
                close_connection(x, c);
            }
            return true;
        }
        wait = (uint64_t)RETRY_MS * NS_PER_MS; /* the queue is full */
    }
    rc = put_back(w, c, rearm, from + wait);
    if (rc < 0) {
        close_connection(x, c);
    }
    return rc != 0;
}

/* Shared: decode what is there; park or close it. False: it is an ordinary one
 * again, and still owned. */
static bool
serve_shared(struct executor *x, struct connection *c, unsigned *ready)
{
    for (;;) {
        uint64_t deadline;
        enum mux_next next = mux_look(x, c, ready, &deadline);
        int rc = 0;

        switch (next) {
        case MUX_CLOSE:
            close_connection(x, c);
            return true;
        case MUX_LINGER:
            shutdown(c->fd, SHUT_WR);
            c->phase = CONN_LINGER;
            return false;
        case MUX_OVER:
            return false;
        default:
            mux_flush(c);
            rc =
                next == MUX_AGAIN ? 0 : put_back(x->worker, c, false, deadline);
        }
        if (rc > 0) {
            return true;
        }
        if (rc < 0) {
            mux_kill(c);
        }
    }
}

void
connection_look_after(struct executor *x, struct connection *c, unsigned ready)
{
    if (!serve_shared(x, c, &ready)) {
        /* What stands in the socket is an event for whoever is free. */
        while (!park(x, c, true)) {
        }
    }
    mux_wake(x->worker, ready);
}

/* An event of a connection whose thread is in the application: share it, if
 * what has come can be of another request. Else it is given back. */
static bool
take_over(struct executor *x, struct connection *c)
{
    struct responder *r = c->runner;
    struct mux_start start = { .state = STREAM_RUNNING };
    unsigned ready = 0;

    if (!r->request->body_done && !c->force) {
        c->noted = true;
        conntable_lend(c);
        return false;
    }
    c->runner = NULL;
    responder_yield(r, &start);
    if (mux_share(x, c, &start, &ready) == NULL) {
        log_error("out of memory for a shared connection");
        c->runner = r;
        r->slice_len = start.slice_len;
        r->x->end = r->x->pos + start.len;
        c->noted = true;
        conntable_lend(c);
        return false;
    }
    mux_wake(x->worker, ready);
    return true;
}

/* End of file, or an error that says as much. */
static void
peer_left(struct executor *x, struct connection *c)
{
    char peer[128];

    if (c->phase == CONN_BODY ||
        (c->phase == CONN_HEAD && !decoder_is_idle(&c->decoder))) {
        log_info("the front end (%s) closed its connection within a request; "
                 "nothing was run",
                 peer_name(c, peer, sizeof(peer)));
    } else if (!c->served && c->phase == CONN_HEAD) {
        log_debug("a connection (%s) was closed without a request",
                  peer_name(c, peer, sizeof(peer)));
    }
    close_connection(x, c);
}

/* With threads a body is read before the GIL is taken, to take it only once.
 * Without, it is left in the socket until the application says where to. */
static size_t
read_size(const struct executor *x, const struct connection *c)
{
    return c->phase == CONN_HEAD && x->worker->settings->threads == 1
               ? EXECUTOR_HEAD_BYTES
               : sizeof(x->read);
}

/* A connection of which other threads may have a part. False: it is an ordinary
 * one, and owned. */
static bool
serve_with_others(struct executor *x, struct connection *c)
{
    unsigned ready = 0;
    struct stream *s;

    if (c->runner != NULL && !take_over(x, c)) {
        return true;
    }
    if (!mux_is_on(c) || !serve_shared(x, c, &ready)) {
        return false;
    }
    if (ready > 0) {
        mux_wake(x->worker, ready - 1);
        s = mux_take_ready(x->worker);
        if (s != NULL) {
            connection_run_stream(x, s);
        }
    }
    return true;
}

void
connection_serve(struct executor *x, struct connection *c)
{
    unsigned long answered = x->answered;
    bool yielded = false;

    if ((c->runner != NULL || mux_is_on(c)) && serve_with_others(x, c)) {
        return;
    }
    for (;;) {
        size_t size = read_size(x, c);
        bool resumed = c->saved != NULL;
        ssize_t n = resumed ? restore(x, c)
                    : x->worker->reserve != NULL
                        ? peek(x, c, size)
                        : recv(c->fd, x->read, size, 0);
        enum next next;
        bool again;

        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0 && errno == EAGAIN) {
            /* Woken by its connect(), we are often here before the front end
             * could send: let it run once. That is cheaper than epoll_ctl, to
             * sleep and to be woken again. */
            if (!c->registered && !yielded) {
                yielded = true;
                sched_yield();
            } else if (park(x, c, false)) {
                return;
            }
            continue;
        }
        if (n <= 0 && !resumed) {
            peer_left(x, c);
            return;
        }
        x->pos = 0;
        x->end = (size_t)n;
        x->full = (size_t)n == size && !resumed;
        x->resumed = resumed;
        next = advance(x, c);
        if (next == NEXT_HELD || next == NEXT_GONE) {
            return;
        }
        if (next == NEXT_CLOSE) {
            close_connection(x, c);
            return;
        }
        /* A short read has emptied the socket: the next byte is a new edge.
         * After a full one, or a hang-up, there is none; read on. But a peer
         * that sends one request after the other must not keep this thread
         * from the others: after an answer it waits its turn. */
        again = x->full || c->hangup;
        if (next == NEXT_WAIT && (!again || x->answered != answered) &&
            park(x, c, again)) {
            return;
        }
        answered = x->answered;
    }
}

void
connection_expire(struct executor *x, struct connection *c, uint64_t now_ns)
{
    bool stopping = atomic_load(&x->worker->stopping);
    bool idle = connection_is_idle(c);
    struct wsgi_outcome outcome = { 0 };
    struct responder r;
    char peer[128];

    if (mux_is_on(c) &&
        (stopping || atomic_load_explicit(&c->deadline_ns,
                                          memory_order_relaxed) <= now_ns)) {
        unsigned ready = 0;

        mux_expire(x, c, now_ns, &ready);
        connection_look_after(x, c, ready);
        return;
    }
    if (stopping && idle) {
        connection_serve(x, c); /* one last look: a request may be there */
        return;
    }
    if (atomic_load_explicit(&c->deadline_ns, memory_order_relaxed) > now_ns) {
        if (!conntable_park(c)) {
            connection_serve(x, c);
        }
        return;
    }
    if (c->phase == CONN_BODY) {
        log_warnx("no body byte from %s within body_timeout; answered 408",
                  peer_name(c, peer, sizeof(peer)));
        responder_answer(&r, x, c, c->request, NULL, 408);
        if (x->worker->access != NULL) {
            note_access(&r, &outcome,
                        now_ns - x->worker->settings->body_timeout * NS_PER_MS);
        }
        if (r.error == 0 && after_answer(x, c, r.ended, false) == NEXT_READ) {
            connection_serve(x, c);
            return;
        }
    } else if (!idle) {
        log_warnx(
            "connection from %s closed: %s", peer_name(c, peer, sizeof(peer)),
            c->phase == CONN_HEAD ? "no complete request within header_timeout"
                                  : "it did not end within its deadline");
    } else if (!c->served) {
        log_debug("connection from %s closed: silent for header_timeout",
                  peer_name(c, peer, sizeof(peer)));
    }
    close_connection(x, c);
}
