/* SPDX-License-Identifier: MIT
 *
 * The open connections of one worker process, and who owns each of them.
 *
 * A connection is either parked (it waits in the epoll set for its peer and
 * belongs to nobody) or owned by exactly one executor thread. Ownership moves
 * by compare-and-swap of its ticket, never by a lock. epoll is edge-triggered,
 * so a thread that sees an event of a connection it does not own must leave a
 * note: the owner then looks again before it parks (no event is lost, and no
 * epoll_ctl is needed per request).
 *
 * While its owner is in the application and neither reads nor writes, a
 * connection that may carry several requests at once is lent: who sees an event
 * of it may take it over (mux.h).
 *
 * An epoll event carries the ticket's number, so an event that was fetched just
 * before its connection was closed and the memory used again is recognised.
 * Memory of connections is never given back to the allocator.
 *
 * Worker process, any executor thread; GIL not needed.
 */
#ifndef FOREBAY_SERVER_CONNTABLE_H
#define FOREBAY_SERVER_CONNTABLE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "protocol/decoder.h"

enum conn_owner {
    CONN_FREE,   /* not in use */
    CONN_PARKED, /* waits in the epoll set */
    CONN_OWNED,  /* one thread works on it */
    CONN_NOTED,  /* owned, and an event came meanwhile */
    CONN_LENT,   /* its owner is away, in the application */
};

/* What a connection waits for. */
enum conn_phase {
    CONN_HEAD,    /* the head of a request (or nothing: kept and idle) */
    CONN_BODY,    /* enough of the body to occupy a thread with it */
    CONN_DISCARD, /* answered; the rest of the body, then END_REQUEST */
    CONN_LINGER,  /* our side is shut; end of file */
};

struct connection {
    _Atomic uint64_t ticket; /* number << 8 | enum conn_owner */
    uint32_t index;          /* place in the table, for ever */
    uint32_t next_free;

    /* The rest is the owner's. */
    int fd;
    bool registered; /* is in the epoll set */
    bool hangup;     /* epoll told of a shutdown or an error: read on until
                        end of file although a read came up short */
    bool served;     /* has answered at least one request */
    bool widened;    /* its send buffer has been made larger */
    enum conn_phase phase;
    uint64_t waits_since_ns;      /* for the head of its next request; 0: it is
                                     not waiting for one that has begun */
    _Atomic uint64_t deadline_ns; /* while parked; the sweep reads it */
    size_t lingered;              /* bytes read and dropped in CONN_LINGER */
    struct connection *next_deferred; /* lookout.c */
    struct connection *next_held;     /* reserve.c */
    uint64_t held_ns;         /* since when it is held back (reserve.h); or 0 */
    size_t peeked;            /* bytes decoded that are still in the socket */
    char *saved;              /* while it is held back within a request: what */
    size_t saved_len;         /* was read with it; or NULL */
    struct request *request;  /* begun and not yet ended, or NULL */
    struct responder *runner; /* lent: what its thread works with, or NULL */
    uint64_t lent_ns;         /* and since when (coarse) */
    bool noted;               /* an event came that nobody has followed */
    bool force; /* what comes is not, or not only, for its request */
    bool poked; /* armed so that any state of the socket is an event */
    struct decoder decoder;

    /* Shared by several threads: mux.h. */
    pthread_mutex_t lock;
    bool shared; /* changed by the owner under lock */
    struct mux *mux;
};

enum { CONN_PER_CHUNK = 128, CONN_CHUNKS = 8192 };

struct conntable {
    struct connection *_Atomic chunk[CONN_CHUNKS];
    pthread_mutex_t lock; /* guards the free list and growth */
    unsigned chunks;
    uint32_t free; /* index of the first free one, or UINT32_MAX */
    _Atomic unsigned open;
    struct request_limits limits;
};

void conntable_init(struct conntable *t, const struct request_limits *limits);

/* A connection owned by the caller, or NULL (no memory). The descriptor is the
 * connection's from now on. */
struct connection *conntable_open(struct conntable *t, int fd,
                                  enum decoder_kind kind);

/* Owner: close the descriptor and give the place back. Closing takes the
 * descriptor out of the epoll set. */
void conntable_close(struct conntable *t, struct connection *c);

/* What goes into epoll_event.data for c. */
uint64_t conntable_event(const struct connection *c);

/* An event came: the connection, now owned by the caller, or NULL when it is
 * somebody else's (who has been left a note) or gone. */
struct connection *conntable_claim(struct conntable *t, uint64_t event);

/* Owner: give it back to the epoll set. False when an event came meanwhile:
 * then the caller still owns it and must look again. */
bool conntable_park(struct connection *c);

/* Owner: lend it. Returns false when an event came meanwhile: it is lent all
 * the same, and c->noted says so. */
bool conntable_lend(struct connection *c);

/* The same; but after an event false comes back and nothing has changed. */
bool conntable_try_lend(struct connection *c);

/* Owner: as if an event had come. */
void conntable_note(struct connection *c);

/* Who has lent it: own it again. False when it was taken over, or is just being
 * looked at. */
bool conntable_resume(struct connection *c);

/* A connection that is lent, now owned by the caller; or NULL, with *ret_stays
 * whether its owner is still at work on it. */
struct connection *conntable_claim_lent(struct conntable *t, uint64_t event,
                                        bool *ret_stays);

/* For every connection that is parked: own it and call fn, which parks or
 * closes it. */
void conntable_each_parked(struct conntable *t,
                           void (*fn)(struct connection *c, void *ctx),
                           void *ctx);

/* In a forked child, where nothing else runs: fn for every one that is open. */
void conntable_each_open(struct conntable *t,
                         void (*fn)(struct connection *c, void *ctx),
                         void *ctx);

/* The earliest deadline of the parked connections, UINT64_MAX when none. */
uint64_t conntable_next_deadline(struct conntable *t);

#endif
