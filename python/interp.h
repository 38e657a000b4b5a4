/* SPDX-License-Identifier: MIT
 *
 * The embedded interpreter: start, fork, threads of the server, orderly end.
 * Template and worker processes only. Functions ending in _nogil are called
 * without the GIL, the others with it (but interp_start, which begins with
 * none and returns holding it).
 */
#ifndef FOREBAY_PYTHON_INTERP_H
#define FOREBAY_PYTHON_INTERP_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* All strings are borrowed for the call. */
struct interp_config {
    const char *virtualenv;        /* folder or NULL */
    const char *python;            /* python executable to be sys.executable,
                                      or NULL: the virtualenv's, else the one
                                      that the build was made with */
    const char *const *pythonpath; /* NULL-terminated, or NULL */
    const char *app_dir;           /* comes first on sys.path behind
                                      pythonpath, or NULL */
    const char *app;               /* sys.argv = [app] */
    double switch_interval_s;      /* 0: CPython's own */
};

/* Start Python (wsgi checklist R1-R6, R23). Returns 0 holding the GIL, or -1
 * with one plain sentence in why. Checks the virtualenv first: that it exists,
 * can be read, is of this Python's version and made from this Python. Main
 * thread only, once per process. Reads no environment variable that selects
 * another Python (PYTHONHOME, VIRTUAL_ENV); honours PYTHONPATH and the
 * PYTHON* debugging variables. */
int interp_start(const struct interp_config *config, char *why, size_t size);

/* "3.11.2", static storage; needs no interpreter. */
const char *interp_version(void);

/* What an import left behind that makes forking unsafe: more than one thread,
 * connected sockets, files open for writing (but 0-2), child processes. Returns
 * true when there is something; report then names each ("2 threads (a, b),
 * a socket connected to ..."). Descriptors below first_fd or in the
 * -1-terminated list own are the server's and do not count. Linux /proc.
 * Called in the template. */
bool interp_unsafe_to_fork(const int *own, char *report, size_t size);

/* gc.collect(), gc.freeze(). Template, once, before the first fork. */
void interp_freeze(void);

/* fork() between PyOS_BeforeFork and PyOS_AfterFork_*. Template's main thread
 * with the GIL. Returns as fork(); the child holds the GIL. */
pid_t interp_fork(void);

/* Run handlers of signals that arrived (PyErr_CheckSignals). What one of them
 * raises is raised in the request that runs on this thread, once the write in
 * which this is called is over; without a request it is logged. Takes and drops
 * the GIL. Main thread; elsewhere it does nothing. */
void interp_check_signals_nogil(void);

/* A descriptor that becomes readable when a signal has arrived for which the
 * application has a handler; then call interp_check_signals_nogil(), which
 * empties it. Without it a signal that arrives just before the main thread goes
 * to sleep is handled only after the next event. For the epoll set of the main
 * thread, close-on-exec; made on the first call, in each worker after the fork
 * (the template must not call it). -1: none to be had (errno). GIL held. It is
 * the interpreter's wake-up descriptor (signal.set_wakeup_fd) while the
 * application sets no other. */
int interp_signal_fd(void);

/* Take that place again if the application has left it. Main thread, GIL held;
 * wsgi.c calls it when a request ends. */
void interp_signal_rearm(void);

/* Orderly end of a process that ran Python (checklist R27): threading shutdown,
 * atexit, flush of sys.stdout and sys.stderr. Does not exit; the caller calls
 * _exit. Never finalises the interpreter. GIL held. */
void interp_end(void);

/* GIL of the calling thread between requests. Each executor thread but the
 * main one first calls interp_thread_attach_nogil(), which leaves it holding
 * the GIL with a thread state of its own that lives as long as the thread. */
int interp_thread_attach_nogil(void);

/* Before there is another thread: the module threading takes whoever imports it
 * first for the main thread (CPython < 3.13), and at the end waits for that one
 * for ever. GIL held, main thread. 0, or -1 with an exception. */
int interp_before_threads(void);
void interp_release(void);       /* hold -> not hold; keeps the thread state */
void interp_acquire_nogil(void); /* not hold -> hold */

#endif
