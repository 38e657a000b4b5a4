/* SPDX-License-Identifier: MIT
 *
 * A FastCGI connection whose requests are worked on by several threads at once
 * (FastCGI 1.0, section 3: multiplexing). A connection becomes shared when
 * bytes of another request arrive while one runs, and is an ordinary one again
 * when none is left: whoever asks one thing at a time never comes here.
 *
 * Each request has a stream. Bytes are decoded by whichever thread is at hand,
 * under the connection's lock: heads become ready streams, which any thread of
 * the worker takes; body bytes are kept for their stream up to a limit (256 KB;
 * for those that wait for a thread 16 MB together). When
 * that is reached nothing more is read of the connection until the application
 * has read on, or until body_timeout has passed: then that body is given up.
 *
 * While a stream is ready or runs (busy) the connection is not closed. Its
 * ticket (conntable.h) is parked like that of any other; who owns it decides
 * about its end.
 *
 * Worker process, any executor thread; GIL not needed. Functions take c->lock
 * themselves.
 */
#ifndef FOREBAY_SERVER_MUX_H
#define FOREBAY_SERVER_MUX_H

#include "server/executor.h"

enum stream_state {
    STREAM_NONE,
    STREAM_BODY,    /* waits for enough of its body */
    STREAM_READY,   /* waits for a thread */
    STREAM_RUNNING, /* a thread works on it */
    STREAM_DISCARD, /* answered; the rest of its body, then END_REQUEST */
    STREAM_ENDING,  /* waits for a thread that sends END_REQUEST */
};

struct stream {
    enum stream_state state;
    struct connection *c;
    struct request *request;
    struct buf in;        /* body bytes that nobody has taken */
    int error;            /* 0, or what reading the body gives */
    bool aborted;         /* FCGI_ABORT_REQUEST */
    bool discard;         /* nobody wants the body any more */
    uint64_t deadline_ns; /* for the peer's next byte */
    struct stream *next;  /* of those that are ready */
};

/* What a stream's thread does when the application is done. */
enum mux_end {
    MUX_END_NOTHING, /* the connection is lost, or all was said */
    MUX_END_SEND,    /* send END_REQUEST now */
    MUX_END_LATER,   /* whoever reads the end of its body will see to that; the
                        stream is not the caller's any more */
};

/* What becomes of a shared connection (for the owner of its ticket). */
enum mux_next {
    MUX_WAIT,   /* park it */
    MUX_AGAIN,  /* there may be more: call again */
    MUX_OVER,   /* not shared any more: an ordinary connection, idle */
    MUX_LINGER, /* the same, and our side is to be shut */
    MUX_CLOSE,
};

/* -- the worker's ready streams ------------------------------------------- */

/* 0 or -errno. */
int mux_open(struct worker *w);

/* So many of the ready streams have nobody who has said he takes one. */
void mux_wake(struct worker *w, unsigned count);

/* One of them, now running, or NULL. */
struct stream *mux_take_ready(struct worker *w);

/* -- sharing and serving -------------------------------------------------- */

/* How an ordinary connection stands when it becomes shared. */
struct mux_start {
    struct request *request; /* of its only stream, */
    enum stream_state state; /* which is in this state */
    const char *slice;       /* body bytes that were decoded, not taken */
    size_t slice_len;
    bool turn;               /* its thread is within a record: the first turn
                                to write is its */
    bool event;              /* the decoder has just returned an event, */
    enum decode_event which; /* this one */
    const char *data;        /* bytes not yet decoded */
    size_t len;
};

/* Owner of the ticket: share it. Returns the stream, or NULL without memory
 * (nothing has changed then). *ready: how many became ready. */
struct stream *mux_share(struct executor *x, struct connection *c,
                         const struct mux_start *start, unsigned *ready);

/* Owner of the ticket: is it shared? */
static inline bool
mux_is_on(const struct connection *c)
{
    return c->shared;
}

/* The stream of a request whose thread does not own the ticket any more; NULL:
 * it is not shared (yet). */
struct stream *mux_stream(struct connection *c, const struct request *request);

/* Owner of the ticket: read and decode what is there. x->read is used. *ready
 * is added to; *deadline_ns is for MUX_WAIT. */
enum mux_next mux_look(struct executor *x, struct connection *c,
                       unsigned *ready, uint64_t *deadline_ns);

/* Owner of the ticket: end what waits for the peer for too long. */
void mux_expire(struct executor *x, struct connection *c, uint64_t now_ns,
                unsigned *ready);

/* Send answers to management records, unless somebody else is at it. */
void mux_flush(struct connection *c);

/* Nothing more can be done on the connection. */
void mux_kill(struct connection *c);

/* -- a stream's thread ---------------------------------------------------- */

/* The stream's request, as it stands: is its whole body here, is it refused. */
bool mux_body_done(struct stream *s);
bool mux_is_refused(struct stream *s);

/* The peer has given up the request or the connection (so far as it is known;
 * gone: also look at the socket). */
bool mux_gave_up(struct executor *x, struct stream *s, bool look);
bool mux_is_aborted(struct stream *s);

/* Body bytes: wait until there are some in s->request->kept, which is the
 * thread's own. > 0; 0: none will come; -ETIMEDOUT, -ECONNRESET, -EINTR. */
int mux_read(struct executor *x, struct stream *s, bool wait);

/* The body is not wanted any more. */
void mux_discard(struct executor *x, struct stream *s);

/* One block of whole records at a time, in the order of asking. */
void mux_turn_begin(struct connection *c);
void mux_turn_end(struct connection *c);

/* Within a turn: wait until the socket takes bytes again, reading on meanwhile.
 * After stall_ms the body of s is dropped if it is what keeps the connection
 * from being read: the peer may be one that reads only when all is written.
 * 0, -ETIMEDOUT or -EINTR. */
int mux_wait_writable(struct executor *x, struct connection *c,
                      struct stream *s, uint64_t timeout_ms, uint64_t stall_ms);

/* END_REQUEST was sent, but the request is still needed: its id is free. */
void mux_free_id(struct stream *s);

/* The answer is over; ended: END_REQUEST was sent; broken: it is not whole. */
enum mux_end mux_answered(struct executor *x, struct stream *s, bool ended,
                          bool broken);

/* The stream is no more, and the connection not the caller's. True: claim the
 * event (conntable.h), and serve the connection. */
bool mux_done(struct stream *s);

#endif
