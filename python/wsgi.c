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
#include "python/file_wrapper.h"
#include "python/input.h"
#include "python/interp.h"
#include "python/start_response.h"

enum { WHO_BYTES = 400, CAUSES_MAX = 32 };

/* The request that runs on this thread. */
static __thread struct call *current;

struct call *
call_current(void)
{
    return current;
}

/* -- setup -------------------------------------------------------------------
 */

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
    Py_XDECREF(t->start_response);
    Py_XDECREF(t->write);
    Py_XDECREF(t->app);
    PyMem_Free(t);
}

/* -- failures ----------------------------------------------------------------
 */

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
    char who[WHO_BYTES];

    call_describe(c, who, sizeof(who));
    if (c->out.error != 0) {
        return 0;
    }
    switch (c->io_status) {
    case 408:
        errors_log('I',
                   "%s: no byte of the request body came within "
                   "body_timeout; answered 408",
                   who);
        break;
    case 413:
        errors_log('I',
                   "%s: the request body is larger than max_body_size; "
                   "answered 413",
                   who);
        break;
    default:
        if (!call_is_connected(c)) {
            c->out.error = -EPIPE;
            return 0;
        }
        errors_log('D', "%s: the request body ended early; answered 400", who);
    }
    return c->io_status;
}

void
call_log_failure(struct call *c, const char *what)
{
    char line[WHO_BYTES + 100];
    size_t len;

    c->outcome->failed = true;
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

/* -- the body ----------------------------------------------------------------
 */

/* One chunk of an iterable. 1: go on, 0: no more is wanted, -1: an exception is
 * set. */
static int
take_chunk(struct call *c, PyObject *chunk)
{
    if (!PyBytes_Check(chunk)) {
        PyErr_Format(PyExc_TypeError,
                     "the response yielded an object of type %.100s; PEP 3333 "
                     "wants bytes",
                     Py_TYPE(chunk)->tp_name);
        return -1;
    }
    if (PyBytes_GET_SIZE(chunk) == 0) {
        if (call_is_connected(c)) {
            return 1;
        }
        c->out.error = c->out.error != 0 ? c->out.error : -EPIPE;
        return 0;
    }
    if (output_need_head(c) < 0) {
        return -1;
    }
    if (output_chunk(c, chunk) < 0 || c->out.done) {
        return 0;
    }
    return call_raise_interrupt(c) < 0 ? -1 : 1;
}

/* Each chunk leaves before the next one is asked for (PEP 3333, "Buffering and
 * Streaming"). *ret_exhausted: the iterator has ended by itself. */
static int
send_iterator(struct call *c, PyObject *iterator, bool *ret_exhausted)
{
    int rc = 1;

    while (rc > 0 && c->out.error == 0 && !c->out.done) {
        PyObject *chunk = Py_TYPE(iterator)->tp_iternext(iterator);

        if (chunk == NULL) {
            if (PyErr_Occurred()) {
                if (!PyErr_ExceptionMatches(PyExc_StopIteration)) {
                    return -1;
                }
                PyErr_Clear();
            }
            *ret_exhausted = true;
            break;
        }
        rc = take_chunk(c, chunk);
        Py_DECREF(chunk);
    }
    return rc < 0 ? -1 : output_end(c);
}

/* PEP 3333: "if the iterable returned by the application has a length of one,
 * the server can determine the content-length". 1, 0, or -1 with an exception
 * set. Never of a str or a dict (wsgi checklist H2). */
static int
has_one_item(PyObject *result)
{
    PySequenceMethods *sequence = Py_TYPE(result)->tp_as_sequence;
    PyMappingMethods *mapping = Py_TYPE(result)->tp_as_mapping;
    Py_ssize_t len;

    if (PyUnicode_Check(result) || PyDict_Check(result) ||
        ((sequence == NULL || sequence->sq_length == NULL) &&
         (mapping == NULL || mapping->mp_length == NULL))) {
        return 0;
    }
    len = PyObject_Size(result);
    if (len < 0) {
        if (!PyErr_ExceptionMatches(PyExc_Exception)) {
            return -1;
        }
        PyErr_Clear(); /* it is the iteration that counts */
    }
    return len == 1;
}

/* The one chunk of an iterable that says it has one. 0 or -1. */
static int
send_single(struct call *c, PyObject *iterator)
{
    PyObject *chunk = Py_TYPE(iterator)->tp_iternext(iterator);
    PyObject *items;
    int rc;

    if (chunk == NULL) {
        if (PyErr_Occurred()) {
            if (!PyErr_ExceptionMatches(PyExc_StopIteration)) {
                return -1;
            }
            PyErr_Clear();
        }
        return output_end(c);
    }
    items = PyTuple_Pack(1, chunk);
    Py_DECREF(chunk);
    if (items == NULL) {
        return -1;
    }
    rc = output_items(c, items);
    Py_DECREF(items);
    return rc < 0 ? -1 : output_end(c);
}

static int
send_wrapper(struct call *c, PyObject *wrapper)
{
    PyObject *bytes = NULL, *items;
    bool exhausted = false;
    uint64_t len = 0;
    off_t offset = 0;
    int fd = -1, rc;

    switch (
        file_wrapper_examine(c->state, wrapper, &fd, &offset, &len, &bytes)) {
    case FILE_WRAPPER_ERROR:
        return -1;
    case FILE_WRAPPER_ITERATE:
        return send_iterator(c, wrapper, &exhausted);
    case FILE_WRAPPER_DESCRIPTOR:
        rc = output_file(c, fd, offset, len);
        break;
    case FILE_WRAPPER_BYTES:
    default:
        items = PyTuple_Pack(1, bytes);
        Py_DECREF(bytes);
        rc = items != NULL ? output_items(c, items) : -1;
        Py_XDECREF(items);
    }
    return rc < 0 ? -1 : output_end(c);
}

static int
send_iterable(struct call *c, PyObject *result, bool *ret_exhausted)
{
    PyObject *iterator;
    int rc, single;

    if (result == Py_None ||
        (Py_TYPE(result)->tp_iter == NULL && !PySequence_Check(result))) {
        PyErr_Format(PyExc_TypeError,
                     "the application returned an object of type %.100s, which "
                     "is not iterable",
                     Py_TYPE(result)->tp_name);
        return -1;
    }
    iterator = PyObject_GetIter(result);
    if (iterator == NULL) {
        return -1;
    }
    single = c->out.wrote ? 0 : has_one_item(result);
    if (single < 0) {
        rc = -1;
    } else if (single > 0) {
        rc = send_single(c, iterator);
    } else {
        rc = send_iterator(c, iterator, ret_exhausted);
    }
    Py_DECREF(iterator);
    return rc;
}

/* Bytes instead of a list of bytes: as one chunk, and not byte by byte as
 * numbers. */
static int
send_bytes(struct call *c, PyObject *bytes)
{
    PyObject *items;
    int rc;

    if (!atomic_flag_test_and_set(&c->state->warned_bytes)) {
        errors_log('W',
                   "pool %s: the application returns bytes; PEP 3333 wants a "
                   "list of bytes. Sent as one chunk; said once",
                   c->config->pool);
    }
    items = PyTuple_Pack(1, bytes);
    if (items == NULL) {
        return -1;
    }
    rc = output_items(c, items);
    Py_DECREF(items);
    return rc < 0 ? -1 : output_end(c);
}

static int
send_result(struct call *c, PyObject *result, bool *ret_exhausted)
{
    if (PyList_CheckExact(result) || PyTuple_CheckExact(result)) {
        return output_items(c, result) < 0 ? -1 : output_end(c);
    }
    if (Py_TYPE(result) == c->state->file_wrapper_type) {
        return send_wrapper(c, result);
    }
    if (PyBytes_CheckExact(result)) {
        return send_bytes(c, result);
    }
    return send_iterable(c, result, ret_exhausted);
}

/* PEP 3333: close() "must be called once on completion of the current request,
 * whether it was completed normally, or terminated early". Of a generator that
 * has ended it does nothing. */
static void
close_result(struct call *c, PyObject *result, bool exhausted)
{
    PyObject *close = NULL, *closed;
    int rc;

    if (PyList_CheckExact(result) || PyTuple_CheckExact(result) ||
        PyBytes_CheckExact(result) || (exhausted && PyGen_CheckExact(result))) {
        return;
    }
    rc = py_optional_attr(result, c->state->name.close, &close);
    if (rc > 0) {
        closed = PyObject_CallNoArgs(close);
        rc = closed != NULL ? 0 : -1;
        Py_XDECREF(closed);
        Py_DECREF(close);
    }
    if (rc < 0) {
        call_log_failure(c, "close() of the response raised");
    }
}

/* -- the call ----------------------------------------------------------------
 */

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
                       (PyObject *)c->thread->input) < 0) {
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
    if (send_result(c, result, &exhausted) < 0) {
        fail(c, "the response failed");
    }
    if (c->out.pending &&
        !(PyList_CheckExact(result) || PyTuple_CheckExact(result))) {
        output_pending(c);
    }
    close_result(c, result, exhausted);
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
        c->over = true;
        Py_BEGIN_ALLOW_THREADS ops->response_over_nogil(c->io);
        Py_END_ALLOW_THREADS
    }
    c->outcome->had_after_work = true;
    call_run_after(c);
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
        errors_log('D', "%s: the client went away",
                   call_describe(c, who, sizeof(who)));
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
    interp_release();
    if (c.out.pending) {
        output_pending_nogil(&c);
    }
    conclude(&c);
}
