/* SPDX-License-Identifier: MIT
 *
 * Requests that take too long: where they are, and ending them. Worker.
 */
#ifndef FOREBAY_PYTHON_DEADLINE_H
#define FOREBAY_PYTHON_DEADLINE_H

#include <pthread.h>
#include <stdbool.h>

struct wsgi_thread;

/* Once per worker, after fork, GIL held: a signal (real-time, far from those
 * that applications use) makes the thread that gets it write its Python stack
 * to trace_fd, from a path that is safe whatever holds the GIL (faulthandler).
 * 0, or -1 with an exception set. */
int deadline_setup(int trace_fd);

/* Ask a thread for its stack: some text appears on trace_fd soon, unless the
 * application has blocked the signal. GIL not needed. 0 or -errno. */
int deadline_trace(pthread_t thread);

/* Raise forebay.RequestTimeout (a BaseException, so that `except Exception`
 * does not swallow it) in the request that t runs; a main thread that sleeps in
 * a system call is woken. Waits for the GIL, so it is called from a thread that
 * may wait; by then another request may run there: is_meant(ctx), called with
 * the GIL, tells. Answered with 504 when nothing was sent yet. */
void deadline_raise_nogil(struct wsgi_thread *t, bool (*is_meant)(void *ctx),
                          void *ctx);

/* wsgi.c: a request begins and ends on its thread, GIL held. What has not been
 * raised when it ends is taken back: never in the next one. */
void deadline_begin(struct wsgi_thread *t);
void deadline_end(struct wsgi_thread *t);

/* Seconds that the running request has left (negative: it is late). False: the
 * pool has no request_timeout. */
bool deadline_left(const struct wsgi_thread *t, double *ret_s);

#endif
