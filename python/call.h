/* SPDX-License-Identifier: MIT
 *
 * One request while it runs: what wsgi.c, environ.c, input.c, start_response.c,
 * output.c and file_wrapper.c share. Internal to python/. Worker process.
 *
 * A struct call lives on the stack of wsgi_run_nogil(). Python objects that
 * point to it (struct bound) are cut off before it goes; each of their methods
 * begins with bound_enter() or a look at its call.
 */
#ifndef FOREBAY_PYTHON_CALL_H
#define FOREBAY_PYTHON_CALL_H

#include <pthread.h>

#include "protocol/buf.h"
#include "python/compat.h"
#include "python/environ.h"
#include "python/gate.h"
#include "python/output.h"
#include "python/state.h"

#include <structmember.h> /* behind Python.h */

enum {
    /* Bodies of lists up to this size leave as one piece with their head. */
    CALL_GATHER_BYTES = 32 * 1024,
    /* Body bytes read ahead for readline(). */
    CALL_AHEAD_BYTES = 64 * 1024,
    /* Status and headers of this size fit into every front end: nginx takes
     * one page unless it is told otherwise. */
    CALL_HEAD_BYTES = 4096,
};

/* The request body, or a filter's FCGI_DATA, as far as python/ knows it. Used
 * inside the gate. */
struct body {
    struct call *call;
    int64_t left;     /* bytes of its length not yet taken; -1: unknown */
    bool ended;       /* nothing follows */
    int error;        /* 0, or the negative errno that every read gives */
    const char *data; /* bytes read ahead and not yet taken ... */
    size_t len;       /* ... so many */
    PyObject *owner;  /* owned: what they stand in, or NULL: thread->ahead */
    bool dropped;     /* some of it, for FCGI_DATA to be read */
};

/* The response. status, length and head_ready are set by start_response(), the
 * rest by output.c. */
struct output {
    bool called;     /* start_response() was called, well or not */
    bool starting;   /* start_response() is at work */
    bool head_ready; /* thread->head holds status and headers */
    bool head_sent;
    bool head_only; /* the request is a HEAD */
    bool bodyless;  /* no body bytes may be sent: HEAD, 204, 304 */
    bool wrote;     /* write() was called with data */
    bool done;      /* last was said: the response is complete */
    bool pending;   /* thread->head holds all of it, to be sent when Python
                       is left */
    int status;
    size_t head_bytes; /* of status and headers */
    int64_t length;    /* Content-Length; -1: none was given */
    uint64_t sent;     /* body bytes given to the server */
    int error;         /* 0, or the negative errno of a write that failed */
};

struct bound;

struct wsgi_thread {
    struct state *state;
    /* Of deadline.c. */
    pthread_t pthread;
    unsigned long ident; /* threading.get_ident() */
    bool is_main;
    bool running;   /* a request is in the application's hands */
    bool timeout;   /* RequestTimeout is on its way to it */
    double until_s; /* monotonic: request_timeout of what runs; 0: none */

    PyObject *app;
    struct environ_cache environ;
    struct buf head; /* of the response, and a small body behind it */
    char *ahead;     /* CALL_AHEAD_BYTES, made when first needed */
    struct gate gate;
    /* Bound to one request after the other as long as nobody else keeps them;
     * NULL: to be made. */
    struct bound *input;
    struct bound *data; /* of a filter */
    struct bound *start_response;
    struct bound *write;
};

struct call {
    struct wsgi_thread *thread;
    struct state *state;
    const struct wsgi_config *config;
    struct request *request;
    struct wsgi_io *io;
    struct body body;
    struct body data; /* set with the role of a filter only */
    struct output out;
    struct wsgi_outcome *outcome;
    /* Owned. */
    PyObject *context;
    PyObject *after;     /* list of what after_response() was given, or NULL */
    PyObject *io_error;  /* the OSError that read() or write() raised last */
    int io_status;       /* what to answer when it is not caught */
    PyObject *interrupt; /* what a signal handler raised while bytes were sent;
                            not yet raised in the application */
    bool over;           /* the server has let the connection go */
    struct call *outer;  /* of the same thread; NULL but in tests */
};

/* The call that runs on this thread, or NULL. Borrowed. */
struct call *call_current(void);

/* -- objects bound to a request ------------------------------------------- */

struct bound {
    PyObject_HEAD vectorcallfunc vectorcall; /* of the callable ones */
    struct call *call;                       /* NULL once the request is over */
    struct gate *gate; /* of the thread; outlives the call */
};

/* Give *slot an object of type that is bound to the call: the one there when
 * nobody else has it, or a new one. 0, or -1 with an exception set. */
int bound_attach(struct bound **slot, PyTypeObject *type, struct call *c,
                 vectorcallfunc vectorcall) PY_RAISES_NEG;

/* Cut the object off its request and forget it if somebody else keeps it.
 * Inside the gate. */
void bound_cut(struct bound **slot);

void bound_dealloc(PyObject *self);

/* Py_tp_members of the callable ones: where vectorcall stands. */
extern PyMemberDef bound_members[];

/* Enter the gate of a bound object's request. NULL with an exception set: the
 * request is over (error with over as text), or RuntimeError. */
static inline struct call *
bound_enter(struct bound *b, PyObject *error, const char *over)
{
    if (b->call != NULL) {
        if (gate_enter(b->gate) < 0) {
            return NULL;
        }
        if (b->call != NULL) {
            return b->call;
        }
        gate_leave(b->gate);
    }
    PyErr_SetString(error, over);
    return NULL;
}

/* Remember an OSError that read() or write() raises now, so that it is known
 * again when the application does not catch it. status: what to answer then; 0:
 * the peer is gone. Leaves the exception set. */
void call_note_error(struct call *c, int status);

/* False once the peer is known to be gone. GIL held. */
bool call_is_connected(struct call *c);

/* A signal handler has raised while this thread waits in a write: keep the
 * exception that is set for the application. False when no request runs on this
 * thread, or one is kept already; then it is still set. */
bool call_keep_interrupt(void);

/* Set what was kept. 0, or -1 when an exception is set now. */
int call_raise_interrupt(struct call *c) PY_RAISES_NEG;

/* Run what after_response() was given, in order; exceptions are logged.
 * module.c. */
void call_run_after(struct call *c) PY_NEVER_RAISES;

/* Log the exception that is set as a failure of this request and clear it.
 * what: what was being done. wsgi.c. */
void call_log_failure(struct call *c, const char *what) PY_NEVER_RAISES;

/* Say who and what in front of a log line: "pool main: GET /x". Returns out. */
char *call_describe(const struct call *c, char *out, size_t size);

#endif
