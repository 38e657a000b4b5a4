/* SPDX-License-Identifier: MIT
 *
 * One WSGI call, from the parameters of a request to the end of its response.
 * See wsgi.h and io.h. Worker process. There is no socket in here, and nothing
 * of a request outlives wsgi_run_nogil(): it reads top to bottom there.
 */
#include "python/wsgi.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "protocol/response.h"
#include "python/call.h"
#include "python/deadline.h"
#include "python/errors.h"
#include "python/input.h"
#include "python/interp.h"
#include "python/result.h"
#include "python/start_response.h"
#include "python/stream.h"

enum { WHO_BYTES = 400, CAUSES_MAX = 32 };

/* The request that runs on this thread. */
static __thread struct call *current;

struct call *
call_current(void)
{
    return current;
}

/* -- setup ---------------------------------------------------------------- */

int
wsgi_setup(const struct wsgi_config *config)
{
    struct state *s = state_get();
    PyObject *traceback;

    if (s == NULL || state_set_config(s, config) < 0) {
        return -1;
    }
    /* Loaded now, for the day when there is no memory or descriptor left. */
    traceback = PyImport_ImportModule("traceback");
    Py_XDECREF(traceback);
    return traceback != NULL ? 0 : -1;
}

int
wsgi_setup_worker(const struct wsgi_config *config)
{
    struct state *s = state_get();

    return s != NULL ? state_set_config(s, config) : -1;
}

struct wsgi_thread *
wsgi_thread_new(PyObject *app)
{
    struct state *s = state_get();
    struct wsgi_thread *t;

    if (s == NULL) {
        return NULL;
    }
    t = PyMem_Calloc(1, sizeof(*t));
    if (t == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    t->state = s;
    if (environ_cache_init(&t->environ, s) < 0) {
        PyMem_Free(t);
        return NULL;
    }
    /* start_response() refuses larger heads; behind a head there is room for a
     * small body and the headers that the server adds. */
    buf_init(&t->head, SIZE_MAX / 2);
    gate_init(&t->gate);
    t->app = Py_NewRef(app);
    t->pthread = pthread_self();
    t->ident = PyThread_get_thread_ident();
    t->is_main = getpid() == gettid();
    return t;
}

void
wsgi_thread_free(struct wsgi_thread *t)
{
    if (t == NULL) {
        return;
    }
    environ_cache_release(&t->environ);
    buf_release(&t->head);
    gate_release(&t->gate);
    PyMem_Free(t->ahead);
    Py_XDECREF(t->input);
    Py_XDECREF(t->data);
    Py_XDECREF(t->start_response);
    Py_XDECREF(t->write);
    Py_XDECREF(t->app);
    PyMem_Free(t);
}

/* -- failures ------------------------------------------------------------- */

/* The exception is the OSError that our read() or write() raised, or was raised
 * "from" it: the application passed on that the peer is gone. */
static bool
is_io_error(const struct call *c, PyObject *exception)
{
    PyObject *e = Py_NewRef(exception);
    bool found = false;

    for (int i = 0; e != NULL && c->io_error != NULL && i < CAUSES_MAX; i++) {
        PyObject *cause;

        if (e == c->io_error) {
            found = true;
            break;
        }
        cause = PyException_GetCause(e);
        Py_DECREF(e);
        e = cause;
    }
    Py_XDECREF(e);
    return found;
}

/* The client or the front end ended the request: that is no fault of the
 * application, and worth no traceback (wsgi checklist I8). What to answer; 0:
 * nobody is there. */
static int
explain_io_error(struct call *c)
{
    const char *what = "the request body ended early";
    char who[WHO_BYTES], then[32];
    char level = 'D';

    if (c->out.error != 0) {
        return 0;
    }
    if (c->io_status == 408) {
        level = 'I';
        what = "no byte of the request body came within body_timeout";
    } else if (c->io_status == 413) {
        level = 'I';
        what = "the request body is larger than max_body_size";
    } else if (!call_is_connected(c)) {
        c->out.error = -EPIPE;
        return 0;
    }
    snprintf(then, sizeof(then), "answered %d", c->io_status);
    errors_log(level, "%s: %s; %s", call_describe(c, who, sizeof(who)), what,
               c->out.head_sent ? "the response was broken off" : then);
    return c->io_status;
}

void
call_log_failure(struct call *c, const char *what)
{
    char line[WHO_BYTES + 100];
    size_t len;

    c->outcome->failed = true;
    c->outcome->no_memory = PyErr_ExceptionMatches(PyExc_MemoryError);
    if (PyErr_ExceptionMatches(PyExc_SystemExit) &&
        c->config->exit_on_system_exit) {
        c->outcome->exit_worker = true;
    }
    call_describe(c, line, WHO_BYTES);
    len = strlen(line);
    snprintf(line + len, sizeof(line) - len, ": %s", what);
    errors_log_exception(line);
}

/* The exception that is set ends the request: log it once, and answer if that
 * is still possible (wsgi checklist J1, J2). */
static void
fail(struct call *c, const char *what)
{
    PyObject *exception = py_take_exception();
    int status = 500;

    if (exception != NULL && is_io_error(c, exception)) {
        Py_DECREF(exception);
        status = explain_io_error(c);
    } else {
        if (exception != NULL) {
            if (PyErr_GivenExceptionMatches(exception,
                                            c->state->request_timeout)) {
                status = 504;
            }
            py_set_exception(exception);
        }
        call_log_failure(c, what);
    }
    if (!c->out.head_sent && c->out.error == 0 && status != 0) {
        output_simple(c, status);
    }
}

/* -- the call ------------------------------------------------------------- */

/* FastCGI 1.0, section 6.4: a filter gets a second stream. */
static int
add_data(struct call *c, PyObject *dict)
{
    struct wsgi_thread *t = c->thread;

    input_begin_data(c);
    if (bound_attach(&t->data, c->state->input_type, c, NULL) < 0) {
        return -1;
    }
    return PyDict_SetItem(dict, c->state->name.data, (PyObject *)t->data);
}

static PyObject *
new_environ(struct call *c)
{
    const char *why = NULL;
    char who[WHO_BYTES];
    int status;
    PyObject *dict =
        environ_new(&c->thread->environ, c->state, c->request, &status, &why);

    if (dict == NULL) {
        if (status == 0) {
            fail(c, "making the environ");
            return NULL;
        }
        errors_log('W', "%s: answered %d: %s",
                   call_describe(c, who, sizeof(who)), status, why);
        output_simple(c, status);
        return NULL;
    }
    if (bound_attach(&c->thread->input, c->state->input_type, c, NULL) < 0 ||
        bound_attach(&c->thread->start_response, c->state->start_response_type,
                     c, start_response_call) < 0 ||
        bound_attach(&c->thread->write, c->state->write_type, c, write_call) <
            0 ||
        PyDict_SetItem(dict, c->state->name.input,
                       (PyObject *)c->thread->input) < 0 ||
        (c->request->role == REQUEST_FILTER && add_data(c, dict) < 0)) {
        Py_DECREF(dict);
        fail(c, "making the environ");
        return NULL;
    }
    return dict;
}

/* Run the application and send its response. A small one, and one of the
 * server's own, is left pending where nothing of the application must run after
 * it. */
static void
run(struct call *c)
{
    PyObject *dict = new_environ(c);
    PyObject *arguments[3], *result;
    bool exhausted = false;

    if (dict == NULL) {
        return;
    }
    /* PEP 3333: "using positional (not keyword) arguments". The free place in
     * front lets a bound method be called without a copy. */
    arguments[0] = NULL;
    arguments[1] = dict;
    arguments[2] = (PyObject *)c->thread->start_response;
    result = PyObject_Vectorcall(c->thread->app, arguments + 1,
                                 2 | PY_VECTORCALL_ARGUMENTS_OFFSET, NULL);
    if (result == NULL) {
        fail(c, "the application raised");
        Py_DECREF(dict);
        return;
    }
    if (result_send(c, result, &exhausted) < 0) {
        fail(c, "the response failed");
    }
    if (c->out.pending &&
        !(PyList_CheckExact(result) || PyTuple_CheckExact(result))) {
        output_pending(c);
    }
    result_close(c, result, exhausted);
    Py_DECREF(result);
    Py_DECREF(dict);
}

/* Cut what the application may keep off this request. Waits for a thread of the
 * application that is just reading the body. */
static void
cut(struct call *c)
{
    struct wsgi_thread *t = c->thread;

    if (gate_enter(&t->gate) < 0) {
        Py_FatalError("forebay: a request ends inside its own gate");
    }
    bound_cut(&t->input);
    bound_cut(&t->data);
    bound_cut(&t->start_response);
    bound_cut(&t->write);
    input_end(c);
    gate_leave(&t->gate);
}

static void
begin(struct call *c)
{
    c->outer = current;
    current = c;
    input_begin(c);
    /* A fresh copy, so that a variable set in one request is not seen by the
     * next. */
    c->context = PyContext_CopyCurrent();
    if (c->context == NULL || PyContext_Enter(c->context) < 0) {
        Py_CLEAR(c->context);
        fail(c, "making a context");
    }
}

/* What dies with the context must not find the request any more. */
static void
leave_context(struct call *c)
{
    if (call_raise_interrupt(c) < 0) {
        call_log_failure(c, "a signal handler raised after the response");
    }
    if (c->context != NULL && PyContext_Exit(c->context) < 0) {
        call_log_failure(c, "leaving the context of the request");
    }
    current = c->outer;
    Py_CLEAR(c->context);
}

/* Nothing of the application can reach the connection any more: the server may
 * let it go before the work begins. */
static void
run_after(struct call *c)
{
    const struct wsgi_io_ops *ops = c->io->ops;

    if (ops->response_over_nogil != NULL) {
        PyThreadState *saved;

        c->over = true;
        saved = PyEval_SaveThread();
        ops->response_over_nogil(c->io);
        PyEval_RestoreThread(saved);
    }
    c->outcome->had_after_work = true;
    call_run_after(c);
}

static void
log_peer_gone(const struct call *c)
{
    char who[WHO_BYTES];

    call_describe(c, who, sizeof(who));
    if (c->out.head_bytes > CALL_HEAD_BYTES) {
        errors_log('I',
                   "%s: the front end closed the connection; perhaps %zu bytes "
                   "of response headers are too many for it",
                   who, c->out.head_bytes);
    } else {
        errors_log('D', "%s: the client went away", who);
    }
}

/* What was sent, in the words of the server. */
static void
conclude(struct call *c)
{
    struct wsgi_outcome *ret = c->outcome;
    const struct output *o = &c->out;
    char who[WHO_BYTES];

    ret->status = o->status;
    ret->body_bytes = o->sent;
    ret->complete = o->done && o->error == 0;
    ret->broken = !ret->complete;
    switch (o->error) {
    case 0:
        break;
    case -EPIPE:
        ret->peer_gone = true;
        log_peer_gone(c);
        return;
    case -ETIMEDOUT:
        ret->peer_gone = true;
        errors_log('I', "%s: the response was not taken within write_timeout",
                   call_describe(c, who, sizeof(who)));
        return;
    case -EIO:
        errors_log('E',
                   "%s: a file became shorter while it was sent; the response "
                   "was broken off",
                   call_describe(c, who, sizeof(who)));
        ret->failed = true;
        return;
    default:
        errors_log('E', "%s: the response cannot be sent: %s",
                   call_describe(c, who, sizeof(who)), strerror(-o->error));
        return;
    }
    if (output_is_short(o)) {
        ret->failed = true;
        errors_log('E',
                   "%s: the response has %llu bytes, fewer than its "
                   "Content-Length of %lld; it was broken off",
                   call_describe(c, who, sizeof(who)),
                   (unsigned long long)o->sent, (long long)o->length);
    }
}

/* A request that is refused before any Python. */
static void
refuse_nogil(struct call *c)
{
    output_simple(c, c->request->refuse_status);
    output_pending_nogil(c);
    conclude(c);
}

static bool
is_head(const struct request *r)
{
    const struct request_param *p;

    if (r->method < 0) {
        return false;
    }
    p = &r->param[r->method];
    return p->value_len == 4 &&
           memcmp(r->params.data + p->value, "HEAD", 4) == 0;
}

void
wsgi_run_nogil(struct wsgi_thread *t, struct request *request,
               struct wsgi_io *io, struct wsgi_outcome *ret)
{
    struct call c = {
        .thread = t,
        .state = t->state,
        .config = t->state->config,
        .request = request,
        .io = io,
        .outcome = ret,
        .out.length = -1,
        .out.head_only = is_head(request),
    };

    memset(ret, 0, sizeof(*ret));
    if (request->refuse_status != 0) {
        refuse_nogil(&c);
        return;
    }
    interp_acquire_nogil();
    begin(&c);
    deadline_begin(t);
    if (c.context != NULL) {
        run(&c);
    }
    deadline_end(t);
    Py_CLEAR(c.io_error);
    if (c.after != NULL && c.out.pending) {
        output_pending(&c);
    }
    cut(&c);
    if (c.after != NULL) {
        run_after(&c);
    }
    leave_context(&c);
    if (t->is_main) {
        interp_signal_rearm();
    }
    interp_release();
    stream_end_lines();
    if (c.out.pending) {
        output_pending_nogil(&c);
    }
    conclude(&c);
}
