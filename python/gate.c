/* SPDX-License-Identifier: MIT
 *
 * See gate.h. Worker process.
 */
#include "python/gate.h"

void
gate_init(struct gate *g)
{
    atomic_init(&g->owner, 0);
    atomic_init(&g->waiting, 0);
    pthread_mutex_init(&g->mutex, NULL);
    pthread_cond_init(&g->left, NULL);
}

void
gate_release(struct gate *g)
{
    pthread_mutex_destroy(&g->mutex);
    pthread_cond_destroy(&g->left);
}

/* Either the owner sees us waiting, or we see that it has left: both sides
 * write their own variable before they read the other's. */
static void
wait_nogil(struct gate *g)
{
    pthread_mutex_lock(&g->mutex);
    atomic_fetch_add(&g->waiting, 1);
    while (atomic_load(&g->owner) != 0) {
        pthread_cond_wait(&g->left, &g->mutex);
    }
    atomic_fetch_sub(&g->waiting, 1);
    pthread_mutex_unlock(&g->mutex);
}

int
gate_enter_slow(struct gate *g)
{
    uintptr_t me = (uintptr_t)pthread_self();
    uintptr_t owner = 0;
    PyThreadState *saved;

    while (!atomic_compare_exchange_strong(&g->owner, &owner, me)) {
        if (owner == me) {
            PyErr_SetString(PyExc_RuntimeError,
                            "reentrant use of wsgi.input or write() in one "
                            "thread");
            return -1;
        }
        saved = PyEval_SaveThread();
        wait_nogil(g);
        PyEval_RestoreThread(saved);
        owner = 0;
    }
    return 0;
}

void
gate_wake(struct gate *g)
{
    pthread_mutex_lock(&g->mutex);
    pthread_cond_broadcast(&g->left);
    pthread_mutex_unlock(&g->mutex);
}
