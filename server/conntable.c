/* SPDX-License-Identifier: MIT
 *
 * See conntable.h.
 */
#include "server/conntable.h"

#include <stdlib.h>
#include <unistd.h>

enum { OWNER_BITS = 8, OWNER_MASK = 0xff };
#define INDEX_NONE UINT32_MAX

void
conntable_init(struct conntable *t, const struct request_limits *limits)
{
    for (unsigned i = 0; i < CONN_CHUNKS; i++) {
        atomic_init(&t->chunk[i], NULL);
    }
    pthread_mutex_init(&t->lock, NULL);
    t->chunks = 0;
    t->free = INDEX_NONE;
    atomic_init(&t->open, 0);
    t->limits = *limits;
}

static struct connection *
at(struct conntable *t, uint32_t index)
{
    struct connection *chunk;

    if (index / CONN_PER_CHUNK >= CONN_CHUNKS) {
        return NULL;
    }
    chunk = atomic_load_explicit(&t->chunk[index / CONN_PER_CHUNK],
                                 memory_order_acquire);
    return chunk != NULL ? &chunk[index % CONN_PER_CHUNK] : NULL;
}

/* Add one chunk to the free list; the caller holds the lock. */
static int
grow(struct conntable *t)
{
    struct connection *chunk;
    uint32_t base = t->chunks * CONN_PER_CHUNK;

    if (t->chunks == CONN_CHUNKS) {
        return -1;
    }
    chunk = calloc(CONN_PER_CHUNK, sizeof(*chunk));
    if (chunk == NULL) {
        return -1;
    }
    for (uint32_t i = CONN_PER_CHUNK; i-- > 0;) {
        chunk[i].index = base + i;
        chunk[i].fd = -1;
        pthread_mutex_init(&chunk[i].lock, NULL);
        atomic_init(&chunk[i].ticket, CONN_FREE);
        decoder_init(&chunk[i].decoder, DECODER_AUTO, &t->limits);
        chunk[i].next_free = t->free;
        t->free = base + i;
    }
    atomic_store_explicit(&t->chunk[t->chunks], chunk, memory_order_release);
    t->chunks++;
    return 0;
}

struct connection *
conntable_open(struct conntable *t, int fd, enum decoder_kind kind)
{
    struct connection *c = NULL;
    uint64_t number;

    pthread_mutex_lock(&t->lock);
    if (t->free != INDEX_NONE || grow(t) == 0) {
        c = at(t, t->free);
        t->free = c->next_free;
    }
    pthread_mutex_unlock(&t->lock);
    if (c == NULL) {
        return NULL;
    }
    decoder_clear(&c->decoder, kind);
    c->fd = fd;
    c->registered = false;
    c->hangup = false;
    c->served = false;
    c->widened = false;
    c->phase = CONN_HEAD;
    c->lingered = 0;
    c->waits_since_ns = 0;
    c->request = NULL;
    c->held_ns = 0;
    c->peeked = 0;
    c->saved = NULL;
    c->runner = NULL;
    c->noted = c->force = c->poked = false;
    c->shared = false;
    number =
        atomic_load_explicit(&c->ticket, memory_order_relaxed) >> OWNER_BITS;
    atomic_store_explicit(&c->ticket, ((number + 1) << OWNER_BITS) | CONN_OWNED,
                          memory_order_release);
    atomic_fetch_add_explicit(&t->open, 1, memory_order_relaxed);
    return c;
}

void
conntable_close(struct conntable *t, struct connection *c)
{
    uint64_t number =
        atomic_load_explicit(&c->ticket, memory_order_relaxed) >> OWNER_BITS;

    /* Freed before the descriptor is closed: an event that another thread has
     * just fetched for it then finds nothing. */
    atomic_store_explicit(&c->ticket, (number << OWNER_BITS) | CONN_FREE,
                          memory_order_release);
    close(c->fd);
    c->fd = -1;
    pthread_mutex_lock(&t->lock);
    c->next_free = t->free;
    t->free = c->index;
    pthread_mutex_unlock(&t->lock);
    atomic_fetch_sub_explicit(&t->open, 1, memory_order_relaxed);
}

/* 32 bits of the number are enough: an event would have to stay fetched while
 * its place is used four thousand million times. */
uint64_t
conntable_event(const struct connection *c)
{
    uint64_t number =
        atomic_load_explicit(&c->ticket, memory_order_relaxed) >> OWNER_BITS;

    return number << 32 | c->index;
}

struct connection *
conntable_claim(struct conntable *t, uint64_t event)
{
    struct connection *c = at(t, (uint32_t)event);
    uint64_t ticket;

    if (c == NULL) {
        return NULL;
    }
    ticket = atomic_load_explicit(&c->ticket, memory_order_acquire);
    for (;;) {
        uint64_t number = ticket >> OWNER_BITS;
        enum conn_owner owner = ticket & OWNER_MASK;
        enum conn_owner next;

        if ((uint32_t)number != (uint32_t)(event >> 32)) {
            return NULL;
        }
        if (owner == CONN_PARKED || owner == CONN_LENT) {
            next = CONN_OWNED;
        } else if (owner == CONN_OWNED) {
            next = CONN_NOTED;
        } else {
            return NULL;
        }
        if (atomic_compare_exchange_weak_explicit(
                &c->ticket, &ticket, number << OWNER_BITS | next,
                memory_order_acq_rel, memory_order_acquire)) {
            return next == CONN_OWNED ? c : NULL;
        }
    }
}

static bool
let_go(struct connection *c, enum conn_owner next)
{
    uint64_t number =
        atomic_load_explicit(&c->ticket, memory_order_relaxed) >> OWNER_BITS;
    uint64_t expected = number << OWNER_BITS | CONN_OWNED;

    if (atomic_compare_exchange_strong_explicit(
            &c->ticket, &expected, number << OWNER_BITS | next,
            memory_order_acq_rel, memory_order_acquire)) {
        return true;
    }
    atomic_store_explicit(&c->ticket, number << OWNER_BITS | CONN_OWNED,
                          memory_order_release);
    return false;
}

bool
conntable_park(struct connection *c)
{
    return let_go(c, CONN_PARKED);
}

bool
conntable_try_lend(struct connection *c)
{
    return let_go(c, CONN_LENT);
}

bool
conntable_lend(struct connection *c)
{
    bool quiet = true;

    while (!let_go(c, CONN_LENT)) {
        c->noted = true;
        quiet = false;
    }
    return quiet;
}

void
conntable_note(struct connection *c)
{
    uint64_t number =
        atomic_load_explicit(&c->ticket, memory_order_relaxed) >> OWNER_BITS;

    atomic_store_explicit(&c->ticket, number << OWNER_BITS | CONN_NOTED,
                          memory_order_release);
}

bool
conntable_resume(struct connection *c)
{
    uint64_t number =
        atomic_load_explicit(&c->ticket, memory_order_relaxed) >> OWNER_BITS;
    uint64_t expected = number << OWNER_BITS | CONN_LENT;

    return atomic_compare_exchange_strong_explicit(
        &c->ticket, &expected, number << OWNER_BITS | CONN_OWNED,
        memory_order_acq_rel, memory_order_acquire);
}

struct connection *
conntable_claim_lent(struct conntable *t, uint64_t event, bool *ret_stays)
{
    struct connection *c = at(t, (uint32_t)event);
    uint64_t ticket = atomic_load_explicit(&c->ticket, memory_order_acquire);
    enum conn_owner owner = ticket & OWNER_MASK;

    *ret_stays = (uint32_t)(ticket >> OWNER_BITS) == (uint32_t)(event >> 32) &&
                 owner != CONN_FREE && owner != CONN_PARKED;
    if (!*ret_stays || owner != CONN_LENT) {
        return NULL;
    }
    return conntable_resume(c) ? c : NULL;
}

void
conntable_each_parked(struct conntable *t,
                      void (*fn)(struct connection *c, void *ctx), void *ctx)
{
    for (uint32_t i = 0;; i++) {
        struct connection *c = at(t, i);
        uint64_t ticket;

        if (c == NULL) {
            return;
        }
        ticket = atomic_load_explicit(&c->ticket, memory_order_acquire);
        if ((ticket & OWNER_MASK) == CONN_PARKED &&
            atomic_compare_exchange_strong_explicit(
                &c->ticket, &ticket,
                (ticket & ~(uint64_t)OWNER_MASK) | CONN_OWNED,
                memory_order_acq_rel, memory_order_acquire)) {
            fn(c, ctx);
        }
    }
}

uint64_t
conntable_next_deadline(struct conntable *t)
{
    uint64_t next = UINT64_MAX;

    for (uint32_t i = 0;; i++) {
        struct connection *c = at(t, i);
        uint64_t deadline;

        if (c == NULL) {
            return next;
        }
        if ((atomic_load_explicit(&c->ticket, memory_order_acquire) &
             OWNER_MASK) != CONN_PARKED) {
            continue;
        }
        deadline = atomic_load_explicit(&c->deadline_ns, memory_order_relaxed);
        next = deadline < next ? deadline : next;
    }
}

void
conntable_each_open(struct conntable *t,
                    void (*fn)(struct connection *c, void *ctx), void *ctx)
{
    for (uint32_t i = 0;; i++) {
        struct connection *c = at(t, i);

        if (c == NULL) {
            return;
        }
        if ((atomic_load(&c->ticket) & OWNER_MASK) != CONN_FREE) {
            fn(c, ctx);
        }
    }
}
