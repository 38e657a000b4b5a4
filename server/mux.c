/* SPDX-License-Identifier: MIT
 *
 * See mux.h. Locks: c->lock guards decoder, streams and what is read of the
 * socket; the ready list has its own, taken inside; the turn to write is taken
 * outside of both.
 */
#include "server/mux.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "protocol/fcgi.h"
#include "server/clock.h"
#include "server/log.h"

enum {
    BODY_BYTES = 256 * 1024, /* kept of a body; a read of the socket more */
    ALL_BYTES = 16 * 1024 * 1024, /* of all bodies of a connection together,
                                     while requests wait for a thread */
    REPLY_BYTES = 4096,           /* answers to management records that wait */
    ROUNDS = 16,                  /* reads before others have their turn */
    SLICE_MS = 100, /* a writer waits while another thread reads */
};

/* Why nothing more is decoded, though there may be bytes. */
enum blocked {
    BLOCKED_NOT,
    BLOCKED_BODY, /* full has as much as is kept */
    BLOCKED_ID,   /* a request begins under an id that is not answered yet */
    BLOCKED_STOP, /* the worker stops: what begins now is for a sibling */
};

struct turn {
    pthread_mutex_t lock;
    pthread_cond_t moved;
    unsigned next, serving;
};

struct mux {
    unsigned busy; /* streams that are ready, running or ending */
    bool dead;     /* an error: nothing is sent or decoded any more */
    bool eof;      /* the peer has shut its side */
    bool closing;  /* a request without FCGI_KEEP_CONN has begun */
    bool hangup;   /* read on until the end of file */
    bool reader;   /* a stream's thread waits for bytes, and will read them */
    enum blocked blocked;
    struct stream *full;
    uint64_t blocked_until_ns;
    uint64_t head_since_ns; /* a head or record is half there since; 0: no */
    pthread_cond_t changed; /* anything of the above, or a stream */
    struct buf pending;     /* read, not decoded: blocked */
    size_t pending_used;
    struct buf replies;
    _Atomic bool replies_wait;
    struct turn turn;
    struct stream stream[DECODER_MAX_MPX];
};

/* One go at decoding. */
struct pump {
    struct executor *x;
    struct connection *c;
    struct mux *m;
    uint64_t now;
    unsigned ready; /* streams that became ready */
    bool more;      /* stopped before the socket was empty */
};

/* -- the worker's ready streams ------------------------------------------- */

int
mux_open(struct worker *w)
{
    pthread_mutex_init(&w->ready_lock, NULL);
    w->ready_first = NULL;
    w->ready_last = &w->ready_first;
    w->ready_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK | EFD_SEMAPHORE);
    return w->ready_fd >= 0 ? 0 : -errno;
}

void
mux_wake(struct worker *w, unsigned count)
{
    uint64_t n = count;
    ssize_t rc = 0;

    if (count > 0) {
        do {
            rc = write(w->ready_fd, &n, sizeof(n));
        } while (rc < 0 && errno == EINTR);
    }
}

static void
put_ready(struct pump *p, struct stream *s, enum stream_state state)
{
    struct worker *w = p->x->worker;

    s->state = state;
    s->deadline_ns = UINT64_MAX;
    s->next = NULL;
    p->m->busy++;
    p->ready++;
    pthread_mutex_lock(&w->ready_lock);
    *w->ready_last = s;
    w->ready_last = &s->next;
    pthread_mutex_unlock(&w->ready_lock);
}

struct stream *
mux_take_ready(struct worker *w)
{
    struct stream *s;

    pthread_mutex_lock(&w->ready_lock);
    s = w->ready_first;
    if (s != NULL) {
        w->ready_first = s->next;
        if (w->ready_first == NULL) {
            w->ready_last = &w->ready_first;
        }
    }
    pthread_mutex_unlock(&w->ready_lock);
    if (s != NULL) {
        pthread_mutex_lock(&s->c->lock);
        if (s->state == STREAM_READY) {
            s->state = s->aborted ? STREAM_ENDING : STREAM_RUNNING;
        }
        pthread_mutex_unlock(&s->c->lock);
    }
    return s;
}

/* -- the turn to write ---------------------------------------------------- */

static void
turn_init(struct turn *t)
{
    pthread_mutex_init(&t->lock, NULL);
    pthread_cond_init(&t->moved, NULL);
    t->next = t->serving = 0;
}

static bool
turn_try(struct turn *t)
{
    bool free;

    pthread_mutex_lock(&t->lock);
    free = t->next == t->serving;
    if (free) {
        t->next++;
    }
    pthread_mutex_unlock(&t->lock);
    return free;
}

void
mux_turn_begin(struct connection *c)
{
    struct turn *t = &c->mux->turn;
    unsigned mine;

    pthread_mutex_lock(&t->lock);
    mine = t->next++;
    while (mine != t->serving) {
        pthread_cond_wait(&t->moved, &t->lock);
    }
    pthread_mutex_unlock(&t->lock);
}

static void
turn_end(struct turn *t)
{
    pthread_mutex_lock(&t->lock);
    t->serving++;
    pthread_cond_broadcast(&t->moved);
    pthread_mutex_unlock(&t->lock);
}

/* Replies that came during the turn had to wait for it. */
void
mux_turn_end(struct connection *c)
{
    turn_end(&c->mux->turn);
    mux_flush(c);
}

/* A peer that does not even read that is dropped. */
void
mux_flush(struct connection *c)
{
    struct mux *m = c->mux;

    while (atomic_load(&m->replies_wait) && turn_try(&m->turn)) {
        char bytes[REPLY_BYTES];
        size_t len;

        pthread_mutex_lock(&c->lock);
        len = m->dead ? 0 : m->replies.len;
        if (len > 0) {
            memcpy(bytes, m->replies.data, len);
        }
        buf_clear(&m->replies);
        atomic_store(&m->replies_wait, false);
        pthread_mutex_unlock(&c->lock);
        if (len > 0 && send(c->fd, bytes, len, MSG_NOSIGNAL) != (ssize_t)len) {
            mux_kill(c);
        }
        turn_end(&m->turn);
    }
}

/* -- decoding -------------------------------------------------------------- */

static void
die(struct connection *c)
{
    if (!c->mux->dead) {
        c->mux->dead = true;
        shutdown(c->fd, SHUT_RDWR); /* who waits for the socket wakes up */
        pthread_cond_broadcast(&c->mux->changed);
    }
}

void
mux_kill(struct connection *c)
{
    pthread_mutex_lock(&c->lock);
    die(c);
    pthread_mutex_unlock(&c->lock);
}

static uint64_t
body_deadline(const struct pump *p)
{
    return p->now + p->x->worker->settings->body_timeout * NS_PER_MS;
}

/* Enough of the body is here to occupy a thread with the request. */
static bool
is_enough(const struct pump *p, const struct stream *s)
{
    const struct request *r = s->request;
    uint64_t want = p->x->worker->settings->body_buffer;

    if (r->body_done || r->content_length == 0 || r->refuse_status != 0) {
        return true;
    }
    if (r->content_length > 0 && (uint64_t)r->content_length < want) {
        want = (uint64_t)r->content_length;
    }
    return s->in.len >= want;
}

static struct stream *
begin_stream(struct pump *p, struct request *r, enum stream_state state)
{
    struct stream *s = &p->m->stream[r->slot];

    s->state = state;
    s->c = p->c;
    s->request = r;
    s->error = 0;
    s->aborted = false;
    s->discard = false;
    s->deadline_ns = body_deadline(p);
    buf_clear(&s->in);
    return s;
}

/* As much is kept of the body as may be. Nobody reads that of a request which
 * waits for a thread, and the threads may wait for what stands behind it. */
static bool
is_full(const struct mux *m, const struct stream *s)
{
    size_t all = 0;

    if (s->in.len < BODY_BYTES || s->error != 0 || s->discard) {
        return false;
    }
    for (unsigned i = 0; s->state == STREAM_READY && i < DECODER_MAX_MPX; i++) {
        all += m->stream[i].in.len;
    }
    return s->state == STREAM_RUNNING || all >= ALL_BYTES;
}

static void
on_body(struct pump *p, struct stream *s, const char *data, size_t len)
{
    if (s->state == STREAM_DISCARD || s->state == STREAM_ENDING || s->discard ||
        s->error != 0) {
        s->deadline_ns = body_deadline(p);
        return;
    }
    if (buf_append(&s->in, data, len) != 0) {
        log_error("out of memory for a request body; connection closed");
        die(p->c);
        return;
    }
    if (s->state == STREAM_BODY) {
        s->deadline_ns = body_deadline(p);
        if (is_enough(p, s)) {
            put_ready(p, s, STREAM_READY);
        }
    } else if (is_full(p->m, s)) {
        p->m->blocked = BLOCKED_BODY;
        p->m->full = s;
        p->m->blocked_until_ns = body_deadline(p);
    }
}

static void
on_abort(struct pump *p, struct request *r)
{
    struct stream *s = &p->m->stream[r->slot];

    if (s->state == STREAM_NONE) { /* before its head was complete */
        s = begin_stream(p, r, STREAM_BODY);
    }
    s->aborted = true;
    s->error = -ECONNRESET;
    buf_clear(&s->in);
    if (s->state == STREAM_BODY || s->state == STREAM_DISCARD) {
        put_ready(p, s, STREAM_ENDING);
    }
}

static void
on_reply(struct pump *p)
{
    const struct decoder *d = &p->c->decoder;

    if (buf_append(&p->m->replies, d->reply, d->reply_len) != 0) {
        log_warnx("connection closed: its peer sends management records and "
                  "does not read the answers");
        die(p->c);
    }
    atomic_store(&p->m->replies_wait, true);
}

static void
on_head(struct pump *p, struct request *r)
{
    struct stream *s = begin_stream(p, r, STREAM_BODY);

    p->m->closing = p->m->closing || !r->keep_conn;
    if (is_enough(p, s)) {
        put_ready(p, s, STREAM_READY);
    }
}

static void
on_body_end(struct pump *p, struct stream *s)
{
    if (s->state == STREAM_BODY) {
        put_ready(p, s, STREAM_READY);
    } else if (s->state == STREAM_DISCARD) {
        put_ready(p, s, STREAM_ENDING);
    }
}

/* An event of this request. */
static void
on_request(struct pump *p, struct request *r, enum decode_event event)
{
    const struct decoder *d = &p->c->decoder;

    switch (event) {
    case DECODE_HEAD:
        on_head(p, r);
        break;
    case DECODE_BODY:
        on_body(p, &p->m->stream[r->slot], d->data, d->data_len);
        break;
    case DECODE_BODY_END:
        on_body_end(p, &p->m->stream[r->slot]);
        break;
    case DECODE_ABORT:
        on_abort(p, r);
        break;
    case DECODE_BUSY:
        p->m->blocked = BLOCKED_ID;
        break;
    default:
        break; /* FCGI_DATA */
    }
}

static void
on_event(struct pump *p, enum decode_event event)
{
    struct decoder *d = &p->c->decoder;

    if (event == DECODE_REPLY) {
        on_reply(p);
    } else if (event == DECODE_BAD) {
        log_warnx("connection closed within requests: %s", d->why);
        die(p->c);
    } else if (d->req != NULL) {
        on_request(p, d->req, event);
    }
}

/* Returns how many bytes were used: all, unless it is blocked now. */
static size_t
decode(struct pump *p, const char *data, size_t len)
{
    size_t pos = 0;

    while (p->m->blocked == BLOCKED_NOT && !p->m->dead) {
        size_t used;
        enum decode_event event =
            decoder_feed(&p->c->decoder, data + pos, len - pos, &used);

        pos += used;
        if (event == DECODE_MORE) {
            break;
        }
        on_event(p, event);
    }
    return pos;
}

static void
keep_rest(struct pump *p, const char *data, size_t len)
{
    if (len > 0 && !p->m->dead && buf_append(&p->m->pending, data, len) != 0) {
        log_error("out of memory; connection closed");
        die(p->c);
    }
}

static bool
wants_input(const struct decoder *d)
{
    for (unsigned i = 0; i < DECODER_MAX_MPX && d->slot[i] != NULL; i++) {
        if (d->slot[i]->active && !d->slot[i]->body_done) {
            return true;
        }
    }
    return false;
}

/* While the worker stops, a request that has not begun is left in the socket
 * for whoever is given the connection. Returns how many bytes may be read; 0:
 * none. */
static size_t
may_receive(struct pump *p)
{
    const struct decoder *d = &p->c->decoder;
    size_t left = decoder_record_left(d);
    unsigned char head[FCGI_HEADER_LEN];
    ssize_t n;

    if (!atomic_load_explicit(&p->x->worker->stopping, memory_order_relaxed)) {
        return sizeof(p->x->read);
    }
    if (left > 0 || wants_input(d)) {
        left = left > 0 ? left : FCGI_HEADER_LEN;
        return left < sizeof(p->x->read) ? left : sizeof(p->x->read);
    }
    n = recv(p->c->fd, head, sizeof(head), MSG_PEEK | MSG_DONTWAIT);
    if (n == 1 || (n > 1 && head[1] == FCGI_BEGIN_REQUEST)) {
        p->m->blocked = BLOCKED_STOP;
        return 0;
    }
    return FCGI_HEADER_LEN;
}

/* Read and decode until nothing is left, or something blocks. */
static void
pump(struct pump *p)
{
    struct mux *m = p->m;
    struct executor *x = p->x;
    int rounds = ROUNDS;

    p->more = false;
    if (m->dead || (m->blocked == BLOCKED_BODY && is_full(m, m->full))) {
        return;
    }
    m->blocked = BLOCKED_NOT;
    m->pending_used +=
        decode(p, m->pending.len > 0 ? m->pending.data + m->pending_used : "",
               m->pending.len - m->pending_used);
    if (m->pending_used == m->pending.len) {
        buf_clear(&m->pending);
        m->pending_used = 0;
    }
    while (m->blocked == BLOCKED_NOT && !m->dead && !m->eof) {
        size_t room = may_receive(p), used;
        ssize_t n;

        if (room == 0) {
            break;
        }
        if (rounds-- == 0) {
            p->more = true;
            break;
        }
        n = recv(p->c->fd, x->read, room, MSG_DONTWAIT);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0 && errno == EAGAIN) {
            break;
        }
        if (n <= 0) {
            m->eof = true;
            if (n < 0) {
                die(p->c);
            }
            break;
        }
        used = decode(p, x->read, (size_t)n);
        keep_rest(p, x->read + used, (size_t)n - used);
        if ((size_t)n < room && !m->hangup) {
            break;
        }
    }
    pthread_cond_broadcast(&m->changed);
}

static struct pump
new_pump(struct executor *x, struct connection *c)
{
    return (struct pump){ .x = x, .c = c, .m = c->mux, .now = clock_now_ns() };
}

/* For a stream's own thread: nobody has said he takes what became ready. */
static void
pump_and_wake(struct executor *x, struct connection *c)
{
    struct pump p = new_pump(x, c);

    do {
        pump(&p);
    } while (p.more);
    mux_wake(x->worker, p.ready);
}

/* -- sharing --------------------------------------------------------------- */

static struct mux *
new_mux(const struct executor *x)
{
    struct mux *m = calloc(1, sizeof(*m));
    pthread_condattr_t attr;
    size_t most = x->worker->settings->body_buffer;

    if (m == NULL) {
        return NULL;
    }
    most = most > ALL_BYTES ? most : ALL_BYTES;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&m->changed, &attr);
    pthread_condattr_destroy(&attr);
    turn_init(&m->turn);
    buf_init(&m->pending, sizeof(x->read));
    buf_init(&m->replies, REPLY_BYTES);
    for (unsigned i = 0; i < DECODER_MAX_MPX; i++) {
        buf_init(&m->stream[i].in, most + sizeof(x->read));
    }
    return m;
}

struct stream *
mux_share(struct executor *x, struct connection *c,
          const struct mux_start *start, unsigned *ready)
{
    struct request *r = start->request;
    struct pump p;
    struct stream *s;
    struct mux *m;
    size_t used;

    pthread_mutex_lock(&c->lock);
    if (c->mux == NULL) {
        c->mux = new_mux(x);
    }
    m = c->mux;
    if (m == NULL || buf_reserve(&m->pending, start->len) != 0) {
        pthread_mutex_unlock(&c->lock);
        return NULL;
    }
    m->dead = m->eof = m->closing = m->reader = m->hangup = false;
    m->blocked = BLOCKED_NOT;
    m->head_since_ns = 0;
    m->busy = start->state == STREAM_RUNNING;
    c->shared = true;
    c->noted = false;
    if (start->turn) {
        turn_try(&m->turn);
    }
    p = new_pump(x, c);
    s = begin_stream(&p, r, start->state);
    if (start->state == STREAM_BODY) {
        on_body(&p, s, r->kept.data, r->kept.len);
        buf_clear(&r->kept);
    }
    if (start->slice_len > 0) {
        on_body(&p, s, start->slice, start->slice_len);
    }
    if (start->event) {
        on_event(&p, start->which);
    }
    used = decode(&p, start->data, start->len);
    keep_rest(&p, start->data + used, start->len - used);
    pthread_cond_broadcast(&m->changed);
    *ready += p.ready;
    pthread_mutex_unlock(&c->lock);
    return s;
}

struct stream *
mux_stream(struct connection *c, const struct request *request)
{
    struct stream *s = NULL;

    pthread_mutex_lock(&c->lock);
    if (c->shared) {
        s = &c->mux->stream[request->slot];
    }
    pthread_mutex_unlock(&c->lock);
    return s;
}

/* No stream is left: the connection is an ordinary one again. Memory of bodies
 * is given back. */
static void
stop_sharing(struct connection *c)
{
    struct mux *m = c->mux;

    for (unsigned i = 0; i < DECODER_MAX_MPX; i++) {
        buf_release(&m->stream[i].in);
        m->stream[i].state = STREAM_NONE;
    }
    buf_release(&m->pending);
    m->pending_used = 0;
    buf_clear(&m->replies);
    atomic_store(&m->replies_wait, false);
    c->shared = false;
    c->request = NULL;
    c->phase = CONN_HEAD;
    c->served = true;
    c->waits_since_ns = 0;
}

static uint64_t
earlier(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* A head, or a record, is half there. */
static bool
head_is_open(const struct decoder *d)
{
    for (unsigned i = 0; i < DECODER_MAX_MPX && d->slot[i] != NULL; i++) {
        if (d->slot[i]->active && !d->slot[i]->head_done &&
            !d->slot[i]->aborted) {
            return true;
        }
    }
    return decoder_record_left(d) > 0;
}

static uint64_t
next_deadline(const struct pump *p)
{
    struct mux *m = p->m;
    uint64_t next = UINT64_MAX;

    for (unsigned i = 0; i < DECODER_MAX_MPX; i++) {
        if (m->stream[i].state == STREAM_BODY ||
            m->stream[i].state == STREAM_DISCARD) {
            next = earlier(next, m->stream[i].deadline_ns);
        }
    }
    if (m->blocked == BLOCKED_BODY) {
        next = earlier(next, m->blocked_until_ns);
    }
    if (m->head_since_ns != 0) {
        next = earlier(next,
                       m->head_since_ns +
                           p->x->worker->settings->header_timeout * NS_PER_MS);
    }
    return next;
}

static enum mux_next
what_next(struct pump *p)
{
    struct connection *c = p->c;
    struct mux *m = p->m;

    if (m->busy > 0) {
        return p->more ? MUX_AGAIN : MUX_WAIT;
    }
    if (m->eof && !m->dead && c->decoder.active > 0) {
        log_info("the front end closed its connection within %u requests; "
                 "nothing was run of them",
                 c->decoder.active);
    }
    if (m->dead || m->eof) {
        stop_sharing(c);
        return MUX_CLOSE;
    }
    if (c->decoder.active == 0 && m->pending.len == 0 && !p->more &&
        !atomic_load(&m->replies_wait)) {
        stop_sharing(c);
        return m->closing ? MUX_LINGER : MUX_OVER;
    }
    return p->more ? MUX_AGAIN : MUX_WAIT;
}

enum mux_next
mux_look(struct executor *x, struct connection *c, unsigned *ready,
         uint64_t *deadline_ns)
{
    struct pump p = new_pump(x, c);
    enum mux_next next;

    pthread_mutex_lock(&c->lock);
    p.m->hangup = p.m->hangup || c->hangup;
    if (!p.m->reader) {
        pump(&p);
    }
    if (!head_is_open(&c->decoder) || p.m->blocked != BLOCKED_NOT) {
        p.m->head_since_ns = 0;
    } else if (p.m->head_since_ns == 0) {
        p.m->head_since_ns = p.now;
    }
    *ready += p.ready;
    *deadline_ns = next_deadline(&p);
    next = what_next(&p);
    pthread_mutex_unlock(&c->lock);
    return next;
}

/* The application of a full stream does not read on: its body is given up, so
 * that the others go on. */
static void
give_up_full(struct mux *m, uint64_t now_ns)
{
    if (m->blocked == BLOCKED_BODY && m->blocked_until_ns <= now_ns &&
        is_full(m, m->full)) {
        log_warnx("an application has not read on in its request body within "
                  "body_timeout while other requests of the connection wait "
                  "behind it: the rest of that body is dropped, reading it "
                  "fails");
        m->full->error = -ETIMEDOUT;
        buf_release(&m->full->in);
        pthread_cond_broadcast(&m->changed);
    }
}

void
mux_expire(struct executor *x, struct connection *c, uint64_t now_ns,
           unsigned *ready)
{
    struct pump p = new_pump(x, c);
    struct mux *m = c->mux;

    pthread_mutex_lock(&c->lock);
    give_up_full(m, now_ns);
    for (unsigned i = 0; i < DECODER_MAX_MPX; i++) {
        struct stream *s = &m->stream[i];

        if (s->deadline_ns > now_ns) {
            continue;
        }
        if (s->state == STREAM_BODY) {
            request_refuse(s->request, 408, "no body byte within body_timeout");
            put_ready(&p, s, STREAM_READY);
        } else if (s->state == STREAM_DISCARD) {
            log_warnx("connection closed: the body of an answered request did "
                      "not end within body_timeout");
            die(c);
        }
    }
    if (m->head_since_ns != 0 &&
        m->head_since_ns + x->worker->settings->header_timeout * NS_PER_MS <=
            now_ns) {
        log_warnx("connection closed: no complete request within "
                  "header_timeout");
        die(c);
    }
    *ready += p.ready;
    pthread_mutex_unlock(&c->lock);
}

/* -- a stream's thread ----------------------------------------------------- */

bool
mux_body_done(struct stream *s)
{
    bool done;

    pthread_mutex_lock(&s->c->lock);
    done = s->request->body_done;
    pthread_mutex_unlock(&s->c->lock);
    return done;
}

bool
mux_is_refused(struct stream *s)
{
    bool refused;

    pthread_mutex_lock(&s->c->lock);
    refused = s->request->refuse_status != 0;
    pthread_mutex_unlock(&s->c->lock);
    return refused;
}

bool
mux_is_aborted(struct stream *s)
{
    bool aborted;

    pthread_mutex_lock(&s->c->lock);
    aborted = s->aborted;
    pthread_mutex_unlock(&s->c->lock);
    return aborted;
}

bool
mux_gave_up(struct executor *x, struct stream *s, bool look)
{
    struct mux *m = s->c->mux;
    bool gone;

    pthread_mutex_lock(&s->c->lock);
    if (look && !m->reader && !m->eof) {
        pump_and_wake(x, s->c);
    }
    gone = s->aborted || m->dead || (look && m->eof);
    pthread_mutex_unlock(&s->c->lock);
    if (look) {
        mux_flush(s->c);
    }
    return gone;
}

/* The thread's own buffer is empty: give it what has come. */
static void
swap_in(struct stream *s)
{
    struct buf *kept = &s->request->kept;
    struct buf old = *kept;

    kept->data = s->in.data;
    kept->len = s->in.len;
    kept->cap = s->in.cap;
    s->in.data = old.data;
    s->in.len = 0;
    s->in.cap = old.cap;
    s->request->kept_used = 0;
}

/* Nothing is there: wait until something changes. As the only one that waits,
 * by reading; else by being told. 0 or -EINTR. */
static int
wait_changed(struct executor *x, struct connection *c, uint64_t until_ns)
{
    struct mux *m = c->mux;
    struct pollfd pfd = { .fd = c->fd, .events = POLLIN };
    uint64_t now = clock_now_ns();
    int rc;

    if (m->reader || m->blocked != BLOCKED_NOT) {
        struct timespec t;

        if (m->blocked == BLOCKED_BODY) {
            until_ns = earlier(until_ns, m->blocked_until_ns);
        }
        t.tv_sec = (time_t)(until_ns / 1000 / NS_PER_MS);
        t.tv_nsec = (long)(until_ns % (1000ull * NS_PER_MS));
        pthread_cond_timedwait(&m->changed, &c->lock, &t);
        give_up_full(m, clock_now_ns());
        return 0;
    }
    m->reader = true;
    pthread_mutex_unlock(&c->lock);
    now = until_ns > now ? (until_ns - now) / NS_PER_MS + 1 : 0;
    rc = poll(&pfd, 1, now > INT32_MAX ? INT32_MAX : (int)now);
    rc = rc < 0 && errno == EINTR ? -EINTR : 0;
    pthread_mutex_lock(&c->lock);
    m->reader = false;
    pump_and_wake(x, c);
    pthread_cond_broadcast(&m->changed); /* somebody else may read now */
    return rc;
}

/* Whether more may come: 1; else as mux_read(). */
static int
may_come(const struct stream *s)
{
    const struct request *r = s->request;
    const struct mux *m = s->c->mux;

    if (s->error != 0) {
        return s->error;
    }
    if (r->body_done || r->refuse_status == 413 ||
        (r->content_length >= 0 &&
         r->body_seen >= (uint64_t)r->content_length)) {
        return 0;
    }
    return m->dead || m->eof ? -ECONNRESET : 1;
}

int
mux_read(struct executor *x, struct stream *s, bool wait)
{
    uint64_t until = UINT64_MAX;
    struct connection *c = s->c;
    int rc;

    pthread_mutex_lock(&c->lock);
    for (;;) {
        rc = s->in.len > 0 ? 2 : may_come(s);
        if (rc != 1 || !wait) {
            break;
        }
        if (until == UINT64_MAX) {
            until =
                clock_now_ns() + x->worker->settings->body_timeout * NS_PER_MS;
        } else if (until <= clock_now_ns()) {
            rc = -ETIMEDOUT;
            break;
        }
        rc = wait_changed(x, c, until);
        if (rc < 0) {
            break;
        }
    }
    if (rc == 2) {
        swap_in(s);
        if (c->mux->blocked == BLOCKED_BODY && c->mux->full == s &&
            !c->mux->reader) {
            pump_and_wake(x, c);
        }
    }
    pthread_mutex_unlock(&c->lock);
    mux_flush(c);
    return rc == 1 ? 0 : rc;
}

void
mux_discard(struct executor *x, struct stream *s)
{
    struct mux *m = s->c->mux;

    pthread_mutex_lock(&s->c->lock);
    s->discard = true;
    buf_clear(&s->in);
    buf_clear(&s->request->kept);
    s->request->kept_used = 0;
    if (m->blocked == BLOCKED_BODY && m->full == s && !m->reader) {
        pump_and_wake(x, s->c);
    }
    pthread_mutex_unlock(&s->c->lock);
    mux_flush(s->c);
}

int
mux_wait_writable(struct executor *x, struct connection *c, struct stream *s,
                  uint64_t timeout_ms, uint64_t stall_ms)
{
    uint64_t stalls = clock_now_ns() + stall_ms * NS_PER_MS;
    uint64_t until = clock_now_ns() + timeout_ms * NS_PER_MS;
    struct mux *m = c->mux;

    for (;;) {
        struct pollfd p = { .fd = c->fd, .events = POLLOUT };
        uint64_t now = clock_now_ns();
        uint64_t wait;
        bool reads;
        int n;

        if (now >= until) {
            return -ETIMEDOUT;
        }
        pthread_mutex_lock(&c->lock);
        if (m->dead) {
            pthread_mutex_unlock(&c->lock);
            return -EPIPE;
        }
        if (now >= stalls && m->blocked == BLOCKED_BODY && m->full == s) {
            log_warnx("the peer takes nothing of an answer before it has sent "
                      "a request body which the application does not read: "
                      "the rest of that body is dropped");
            s->error = -ENOBUFS;
            pump_and_wake(x, c);
        }
        reads = !m->reader && !m->eof && m->blocked == BLOCKED_NOT;
        pthread_mutex_unlock(&c->lock);
        wait = (until - now) / NS_PER_MS + 1;
        if (reads) {
            p.events |= POLLIN;
        } else if (wait > SLICE_MS) {
            wait = SLICE_MS;
        }
        n = poll(&p, 1, wait > INT32_MAX ? INT32_MAX : (int)wait);
        if (n < 0) {
            return errno == EINTR ? -EINTR : -EPIPE;
        }
        if (p.revents & (POLLOUT | POLLERR | POLLHUP)) {
            return 0;
        }
        if (p.revents & POLLIN) {
            pthread_mutex_lock(&c->lock);
            if (!m->reader) {
                pump_and_wake(x, c);
            }
            pthread_mutex_unlock(&c->lock);
        }
    }
}

void
mux_free_id(struct stream *s)
{
    pthread_mutex_lock(&s->c->lock);
    s->request->id = FCGI_NULL_REQUEST_ID;
    pthread_mutex_unlock(&s->c->lock);
}

enum mux_end
mux_answered(struct executor *x, struct stream *s, bool ended, bool broken)
{
    struct connection *c = s->c;
    struct mux *m = c->mux;
    enum mux_end end = MUX_END_SEND;

    pthread_mutex_lock(&c->lock);
    if (ended || m->dead || broken) {
        /* A response that was broken off is never ended as if it were whole;
         * no front end reads another protocol status as that. So it is not
         * ended until the connection is: when no other request is left. */
        m->closing = m->closing || broken;
        end = MUX_END_NOTHING;
    } else if (!s->aborted && !s->request->body_done && s->request->keep_conn) {
        s->state = STREAM_DISCARD;
        s->discard = true;
        s->deadline_ns =
            clock_now_ns() + x->worker->settings->body_timeout * NS_PER_MS;
        m->busy--;
        end = MUX_END_LATER;
    }
    pthread_mutex_unlock(&c->lock);
    return end;
}

bool
mux_done(struct stream *s)
{
    struct connection *c = s->c;
    struct mux *m = c->mux;
    bool look;

    pthread_mutex_lock(&c->lock);
    m->busy--;
    s->state = STREAM_NONE;
    buf_clear(&s->in);
    decoder_end(&c->decoder, s->request);
    look = m->busy == 0 || m->blocked != BLOCKED_NOT;
    pthread_mutex_unlock(&c->lock);
    return look;
}
