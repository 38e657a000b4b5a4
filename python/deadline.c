/* SPDX-License-Identifier: MIT
 *
 * See deadline.h. Two signals: one makes a thread write its stack
 * (faulthandler, whose handler needs no GIL), the other wakes a main thread
 * that sleeps in a system call, so that Python's handler below can raise there.
 * Other threads get an asynchronous exception, which takes effect between two
 * bytecodes.
 */
#include "python/deadline.h"

#include <errno.h>
#include <signal.h>
#include <time.h>

#include "python/call.h"
#include "python/errors.h"

/* From the far end: applications that use real-time signals begin at RTMIN. */
#define SIGNAL_TRACE (SIGRTMAX - 3)
#define SIGNAL_RAISE (SIGRTMAX - 4)

int
deadline_trace(pthread_t thread)
{
    return -pthread_kill(thread, SIGNAL_TRACE);
}

/* The handler of SIGNAL_RAISE: runs in the main thread, between two bytecodes
 * or in place of the restart of a system call. A late signal finds no timeout
 * pending and does nothing. */
static PyObject *
on_raise(PyObject *self, PyObject *args)
{
    struct state *s = state_get();
    struct call *c = call_current();
    (void)self;
    (void)args;

    if (s == NULL) {
        return NULL;
    }
    if (c == NULL || !c->thread->timeout) {
        Py_RETURN_NONE;
    }
    c->thread->timeout = false;
    PyErr_SetString(s->request_timeout, "request_timeout has passed");
    return NULL;
}

static PyMethodDef on_raise_def = { "forebay_request_timeout", on_raise,
                                    METH_VARARGS, NULL };

/* faulthandler's handler leaves another errno behind, in whatever it came. */
static void (*dump)(int signo);

static void
on_trace(int signo)
{
    int saved = errno;

    dump(signo);
    errno = saved;
}

static int
wrap_dump(void)
{
    struct sigaction action;

    if (sigaction(SIGNAL_TRACE, NULL, &action) != 0) {
        PyErr_SetFromErrno(PyExc_OSError);
        return -1;
    }
    dump = action.sa_handler;
    action.sa_handler = on_trace;
    return sigaction(SIGNAL_TRACE, &action, NULL);
}

static int
register_stack(int trace_fd)
{
    PyObject *module = PyImport_ImportModule("faulthandler");
    PyObject *done = NULL;

    if (module != NULL) {
        done = PyObject_CallMethod(module, "register", "iiOO", SIGNAL_TRACE,
                                   trace_fd, Py_False, Py_False);
    }
    Py_XDECREF(module);
    Py_XDECREF(done);
    return done != NULL ? wrap_dump() : -1;
}

static int
register_raise(void)
{
    PyObject *module = PyImport_ImportModule("signal");
    PyObject *handler = PyCFunction_New(&on_raise_def, NULL);
    PyObject *done = NULL;

    if (module != NULL && handler != NULL) {
        done =
            PyObject_CallMethod(module, "signal", "iO", SIGNAL_RAISE, handler);
    }
    Py_XDECREF(module);
    Py_XDECREF(handler);
    Py_XDECREF(done);
    return done != NULL ? 0 : -1;
}

int
deadline_setup(int trace_fd)
{
    return register_stack(trace_fd) == 0 ? register_raise() : -1;
}

void
deadline_raise_nogil(struct wsgi_thread *t, bool (*is_meant)(void *ctx),
                     void *ctx)
{
    PyGILState_STATE gil = PyGILState_Ensure();

    if (t->running && is_meant(ctx)) {
        t->timeout = true;
        if (t->is_main) {
            pthread_kill(t->pthread, SIGNAL_RAISE);
        } else {
            PyThreadState_SetAsyncExc(t->ident, t->state->request_timeout);
        }
    }
    PyGILState_Release(gil);
}

static double
now_s(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

void
deadline_begin(struct wsgi_thread *t)
{
    uint64_t limit_ms = t->state->config->request_timeout_ms;

    t->until_s = limit_ms > 0 ? now_s() + (double)limit_ms / 1e3 : 0;
    t->running = true;
}

bool
deadline_left(const struct wsgi_thread *t, double *ret_s)
{
    if (t->until_s == 0) {
        return false;
    }
    *ret_s = t->until_s - now_s();
    return true;
}

void
deadline_end(struct wsgi_thread *t)
{
    t->running = false;
    if (t->timeout) {
        t->timeout = false;
        if (!t->is_main) {
            PyThreadState_SetAsyncExc(t->ident, NULL);
        }
    }
}
