/* SPDX-License-Identifier: MIT
 *
 * One thread at a time uses a struct wsgi_io: the executor, or a thread of the
 * application that reads the body or calls write(). Each executor thread has
 * one gate for all its requests.
 *
 * Never held while its owner waits for the GIL only to take it, and nobody
 * waits at a gate with the GIL held (wsgi checklist R16): who finds it closed
 * gives the GIL up first.
 */
#ifndef FOREBAY_PYTHON_GATE_H
#define FOREBAY_PYTHON_GATE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "python/pyref.h"

struct gate {
    _Atomic uintptr_t owner;  /* pthread_self() of who is inside, or 0 */
    _Atomic unsigned waiting; /* threads that wait for owner to be 0 */
    pthread_mutex_t mutex;
    pthread_cond_t left; /* owner became 0 */
};

void gate_init(struct gate *g);
void gate_release(struct gate *g);

/* Internal: the gate was closed. */
int gate_enter_slow(struct gate *g) PY_RAISES_NEG;
void gate_wake(struct gate *g);

/* Enter if nobody is inside. GIL not needed. */
static inline bool
gate_try(struct gate *g)
{
    uintptr_t nobody = 0;

    return atomic_compare_exchange_strong(&g->owner, &nobody,
                                          (uintptr_t)pthread_self());
}

/* GIL held; given up while another thread is inside. 0, or -1 with RuntimeError
 * when this thread is inside already (a signal handler reads the body in the
 * middle of a read). What was checked before must be checked again: the request
 * may have ended meanwhile. */
static inline int
gate_enter(struct gate *g)
{
    return gate_try(g) ? 0 : gate_enter_slow(g);
}

/* With or without the GIL. */
static inline void
gate_leave(struct gate *g)
{
    atomic_store(&g->owner, 0);
    if (atomic_load(&g->waiting) > 0) {
        gate_wake(g);
    }
}

#endif
