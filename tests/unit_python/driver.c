/* SPDX-License-Identifier: MIT
 *
 * The test driver of python/: starts the interpreter as a template does, offers
 * the built-in module `driver`, and runs the test file that is named, which is
 * written in Python (driver FILE [unittest options]). Tests run requests
 * through wsgi_run_nogil() with driver.run(), on the main thread, with their
 * application inline. With --python ARGS... nothing but the start is done by
 * the file itself.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "fake_io.h"
#include "python/app.h"
#include "python/errors.h"
#include "python/interp.h"
#include "python/module.h"
#include "python/pyvenv.h"
#include "python/wsgi.h"

enum { PIECES_MAX = 4096 };

static const struct request_limits limits = {
    .params_bytes = 64 << 20,
    .params_count = 1 << 20,
    .mpx = 1,
};

/* What is logged, as (level, text) items once the GIL is held. */
static struct {
    pthread_mutex_t mutex;
    struct buf text; /* level, length, bytes; one after the other */
} logged = { PTHREAD_MUTEX_INITIALIZER, { NULL, 0, 0, SIZE_MAX / 2 } };

static struct wsgi_config config;
static struct fake_io *running; /* of the request that runs now */

static void
keep_log(char level, const char *text, size_t len)
{
    pthread_mutex_lock(&logged.mutex);
    buf_append(&logged.text, &level, 1);
    buf_append(&logged.text, &len, sizeof(len));
    buf_append(&logged.text, text, len);
    pthread_mutex_unlock(&logged.mutex);
}

/* log() -> [(level, text)], and forget them. */
static PyObject *
driver_log(PyObject *self, PyObject *ignored)
{
    PyObject *list = PyList_New(0);
    const char *p, *end;

    (void)self;
    (void)ignored;
    pthread_mutex_lock(&logged.mutex);
    p = logged.text.data;
    end = p + logged.text.len;
    while (list != NULL && p < end) {
        PyObject *item;
        size_t len;
        char level = *p++;

        memcpy(&len, p, sizeof(len));
        p += sizeof(len);
        item = Py_BuildValue("(Cs#)", level, p, (Py_ssize_t)len);
        p += len;
        if (item == NULL || PyList_Append(list, item) < 0) {
            Py_CLEAR(list);
        }
        Py_XDECREF(item);
    }
    buf_clear(&logged.text);
    pthread_mutex_unlock(&logged.mutex);
    return list;
}

/* setup(**settings): the configuration of the pool from now on. */
static PyObject *
driver_setup(PyObject *self, PyObject *args, PyObject *keywords)
{
    static char *names[] = { "mount",
                             "path_from_uri",
                             "multithread",
                             "multiprocess",
                             "pass_http_proxy",
                             "drop_hop_by_hop",
                             "exit_on_system_exit",
                             "url_scheme",
                             "server_name",
                             "server_port",
                             "max_response_headers",
                             "learned_names",
                             "worker_id",
                             "redirect_authorization",
                             NULL };
    const char *mount = "", *scheme = NULL, *name = NULL, *port = NULL;
    int from_uri = 0, threads = 0, processes = 0, proxy = 0, hop = 0, ends = 0;
    int max_headers = 65536, learned = 100, id = 7, redirect = 0;

    (void)self;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "|sppppppzzziiip", names,
                                     &mount, &from_uri, &threads, &processes,
                                     &proxy, &hop, &ends, &scheme, &name, &port,
                                     &max_headers, &learned, &id, &redirect)) {
        return NULL;
    }
    /* The strings of a test live as long as the program: it is short. */
    config = (struct wsgi_config){
        .pool = "testpool",
        .mount = strdup(mount),
        .path_from_uri = from_uri,
        .multithread = threads,
        .multiprocess = processes,
        .pass_http_proxy = proxy,
        .redirect_authorization = redirect,
        .drop_hop_by_hop = hop,
        .exit_on_system_exit = ends,
        .url_scheme = scheme != NULL ? strdup(scheme) : NULL,
        .server_name = name != NULL ? strdup(name) : NULL,
        .server_port = port != NULL ? strdup(port) : NULL,
        .max_response_headers = (size_t)max_headers,
        .learned_names = (unsigned)learned,
        .worker_id = id,
    };
    if (wsgi_setup_worker(&config) != 0) {
        return NULL;
    }
    Py_RETURN_NONE;
}

/* -- threads -------------------------------------------------------------- */

static const char thread_capsule[] = "driver.thread";

static void
free_thread(PyObject *capsule)
{
    wsgi_thread_free(PyCapsule_GetPointer(capsule, thread_capsule));
}

/* thread(app) -> what run() takes. */
static PyObject *
driver_thread(PyObject *self, PyObject *app)
{
    struct wsgi_thread *t = wsgi_thread_new(app);

    (void)self;
    return t != NULL ? PyCapsule_New(t, thread_capsule, free_thread) : NULL;
}

/* -- requests ------------------------------------------------------------- */

/* scgi: each name and value has a NUL behind it. */
static int
add_param(struct request *r, PyObject *pair, int scgi)
{
    const char *name, *value;
    Py_ssize_t name_len, value_len;
    size_t gap = scgi ? 1 : 0;
    uint32_t at = (uint32_t)r->params.len;

    if (!PyArg_ParseTuple(pair, "y#y#", &name, &name_len, &value, &value_len)) {
        return -1;
    }
    if (buf_append(&r->params, name, (size_t)name_len) < 0 ||
        buf_append(&r->params, "", gap) < 0 ||
        buf_append(&r->params, value, (size_t)value_len) < 0 ||
        buf_append(&r->params, "", gap) < 0 ||
        request_add_param(r, &limits, at, (uint32_t)name_len,
                          at + (uint32_t)(name_len + (Py_ssize_t)gap),
                          (uint32_t)value_len) < 0) {
        PyErr_NoMemory();
        return -1;
    }
    return 0;
}

static int
fill_request(struct request *r, PyObject *params, int role, int scgi)
{
    Py_ssize_t n = PySequence_Size(params);

    request_init(r, &limits);
    r->role = (enum request_role)role;
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *pair = PySequence_GetItem(params, i);
        int rc = pair != NULL ? add_param(r, pair, scgi) : -1;

        Py_XDECREF(pair);
        if (rc < 0) {
            return -1;
        }
    }
    request_end_params(r, &limits);
    return n < 0 ? -1 : 0;
}

/* bytes, ("error", errno), ("signal", number), ("fd", number). */
static int
parse_piece(PyObject *o, struct fake_piece *p)
{
    const char *kind;

    memset(p, 0, sizeof(*p));
    if (PyBytes_Check(o)) {
        p->kind = FAKE_BYTES;
        p->data = PyBytes_AS_STRING(o);
        p->len = (size_t)PyBytes_GET_SIZE(o);
        return 0;
    }
    if (!PyArg_ParseTuple(o, "si", &kind, &p->number)) {
        return -1;
    }
    p->kind = strcmp(kind, "signal") == 0 ? FAKE_SIGNAL
              : strcmp(kind, "fd") == 0   ? FAKE_FD
                                          : FAKE_ERROR;
    if (p->kind == FAKE_ERROR) {
        p->number = -p->number;
    }
    return 0;
}

static int
fill_pieces(struct fake_io *f, PyObject *pieces, struct fake_piece *out)
{
    Py_ssize_t n = PyTuple_GET_SIZE(pieces);

    if (n > PIECES_MAX) {
        PyErr_SetString(PyExc_ValueError, "too many pieces");
        return -1;
    }
    for (Py_ssize_t i = 0; i < n; i++) {
        if (parse_piece(PyTuple_GET_ITEM(pieces, i), &out[i]) < 0) {
            return -1;
        }
    }
    f->piece = out;
    f->pieces = (size_t)n;
    return 0;
}

/* [bytes of each write] */
static PyObject *
writes_of(const struct fake_io *f)
{
    size_t n = f->cuts.len / sizeof(size_t), begin = 0;
    PyObject *list = PyList_New((Py_ssize_t)n);

    for (size_t i = 0; list != NULL && i < n; i++) {
        size_t end;
        PyObject *piece;

        memcpy(&end, f->cuts.data + i * sizeof(end), sizeof(end));
        piece = PyBytes_FromStringAndSize(f->out.data + begin,
                                          (Py_ssize_t)(end - begin));
        if (piece == NULL) {
            Py_CLEAR(list);
            break;
        }
        PyList_SET_ITEM(list, (Py_ssize_t)i, piece);
        begin = end;
    }
    return list;
}

#define FLAG(x) ((x) ? Py_True : Py_False)

static PyObject *
result_of(const struct fake_io *f, const struct wsgi_outcome *o)
{
    return Py_BuildValue(
        "{s:y#,s:N,s:i,s:i,s:i,s:i,s:K,s:i,s:K,s:O,s:O,s:O,s:O,s:O,s:O}", "raw",
        f->out.data != NULL ? f->out.data : "", (Py_ssize_t)f->out.len,
        "writes", writes_of(f), "write_calls", (int)f->writes, "sendfiles",
        (int)f->sendfiles, "lasts", (int)f->lasts, "reads", (int)f->reads,
        "file_bytes", (unsigned long long)f->file_bytes, "status", o->status,
        "body_bytes", (unsigned long long)o->body_bytes, "complete",
        FLAG(o->complete), "broken", FLAG(o->broken), "peer_gone",
        FLAG(o->peer_gone), "failed", FLAG(o->failed), "had_after_work",
        FLAG(o->had_after_work), "exit_worker", FLAG(o->exit_worker));
}

/* run(thread, params, ready=b"", pieces=(), ...) -> dict of what was seen. */
static PyObject *
driver_run(PyObject *self, PyObject *args, PyObject *keywords)
{
    static char *names[] = {
        "thread",    "params",          "ready", "pieces", "fail_after",
        "fail_with", "connected_calls", "keep",  "role",   "resize",
        "scgi",      "write_signal",    NULL
    };
    struct fake_piece *pieces = calloc(PIECES_MAX, sizeof(*pieces));
    PyObject *capsule, *params, *piece_list = NULL, *tuple = NULL;
    PyObject *result = NULL;
    const char *ready = "";
    Py_ssize_t ready_len = 0;
    struct wsgi_outcome outcome;
    struct wsgi_thread *thread;
    struct request request;
    struct fake_io f, *outer = running;
    long long fail_after = -1, resize = -1;
    int fail_with = EPIPE, connected_calls = -1, keep = 1, role = 1, scgi = 0;
    int write_signal = 0;

    (void)self;
    request_init(&request, &limits);
    fake_io_init(&f);
    if (pieces == NULL ||
        !PyArg_ParseTupleAndKeywords(
            args, keywords, "OO|y#OLiipiLpi", names, &capsule, &params, &ready,
            &ready_len, &piece_list, &fail_after, &fail_with, &connected_calls,
            &keep, &role, &resize, &scgi, &write_signal)) {
        goto out;
    }
    thread = PyCapsule_GetPointer(capsule, thread_capsule);
    tuple = piece_list != NULL ? PySequence_Tuple(piece_list) : PyTuple_New(0);
    if (thread == NULL || tuple == NULL ||
        fill_request(&request, params, role, scgi) < 0 ||
        fill_pieces(&f, tuple, pieces) < 0) {
        goto out;
    }
    f.ready = ready;
    f.ready_len = (size_t)ready_len;
    f.fail_after = fail_after;
    f.fail_with = -fail_with;
    f.connected_calls = connected_calls;
    f.keep_out = keep != 0;
    f.resize = resize;
    f.write_signal = write_signal;
    running = &f;
    interp_release();
    wsgi_run_nogil(thread, &request, &f.io, &outcome);
    interp_acquire_nogil();
    running = outer;
    result = result_of(&f, &outcome);
out:
    free(pieces);
    Py_XDECREF(tuple);
    request_release(&request);
    fake_io_release(&f);
    return result;
}

/* sent() -> bytes sent so far by the request that runs now. */
static PyObject *
driver_sent(PyObject *self, PyObject *ignored)
{
    (void)self;
    (void)ignored;
    return PyLong_FromUnsignedLongLong(running->out_bytes);
}

/* over() -> whether the server was told that the response is over. */
static PyObject *
driver_over(PyObject *self, PyObject *ignored)
{
    (void)self;
    (void)ignored;
    return PyLong_FromUnsignedLong(running->overs);
}

/* bench(thread, params, count) -> nanoseconds of one request. The last digit of
 * the last parameter changes each time, as REMOTE_PORT would. */
static PyObject *
driver_bench(PyObject *self, PyObject *args)
{
    PyObject *capsule, *params;
    struct wsgi_outcome outcome;
    struct wsgi_thread *thread;
    struct timespec begin, end;
    struct request request;
    struct fake_io f;
    unsigned long count;

    (void)self;
    if (!PyArg_ParseTuple(args, "OOk", &capsule, &params, &count)) {
        return NULL;
    }
    thread = PyCapsule_GetPointer(capsule, thread_capsule);
    if (thread == NULL || fill_request(&request, params, 1, 0) < 0) {
        return NULL;
    }
    fake_io_init(&f);
    f.keep_out = false;
    interp_release();
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &begin);
    for (unsigned long i = 0; i < count; i++) {
        request.params.data[request.params.len - 1] = (char)('0' + i % 10);
        wsgi_run_nogil(thread, &request, &f.io, &outcome);
    }
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &end);
    interp_acquire_nogil();
    request_release(&request);
    fake_io_release(&f);
    return PyFloat_FromDouble(((double)(end.tv_sec - begin.tv_sec) * 1e9 +
                               (double)(end.tv_nsec - begin.tv_nsec)) /
                              (double)count);
}

/* -- several executor threads --------------------------------------------- */

struct executor {
    struct wsgi_thread *wsgi; /* what it ran with */
    pthread_t thread;
    PyObject *app; /* borrowed */
    int number, requests;
    struct buf out; /* length and bytes of each response */
    int failed;
};

static void
add_text_param(struct request *r, const char *name, const char *value)
{
    uint32_t at = (uint32_t)r->params.len;
    uint32_t name_len = (uint32_t)strlen(name);

    buf_append_str(&r->params, name);
    buf_append_str(&r->params, value);
    request_add_param(r, &limits, at, name_len, at + name_len,
                      (uint32_t)strlen(value));
}

static void
execute_one(struct executor *x, struct wsgi_thread *t, int i)
{
    struct wsgi_outcome outcome;
    struct request request;
    struct fake_io f;
    char who[64];

    request_init(&request, &limits);
    fake_io_init(&f);
    snprintf(who, sizeof(who), "%d-%d", x->number, i);
    add_text_param(&request, "REQUEST_METHOD", "GET");
    add_text_param(&request, "PATH_INFO", "/");
    add_text_param(&request, "WHO", who);
    request_end_params(&request, &limits);
    f.ready = who;
    f.ready_len = strlen(who);
    wsgi_run_nogil(t, &request, &f.io, &outcome);
    x->failed += !outcome.complete;
    buf_append(&x->out, &f.out.len, sizeof(f.out.len));
    buf_append(&x->out, f.out.data, f.out.len);
    request_release(&request);
    fake_io_release(&f);
}

static void *
execute(void *arg)
{
    struct executor *x = arg;
    struct wsgi_thread *t;

    if (interp_thread_attach_nogil() != 0) {
        x->failed = 1;
        return NULL;
    }
    t = wsgi_thread_new(x->app);
    interp_release();
    for (int i = 0; i < x->requests && t != NULL; i++) {
        execute_one(x, t, i);
    }
    x->failed += t == NULL;
    x->wsgi = t;
    return NULL;
}

static int
add_responses(PyObject *list, const struct executor *x)
{
    const char *p = x->out.data, *end = p + x->out.len;

    while (p < end) {
        PyObject *item;
        size_t len;
        int rc;

        memcpy(&len, p, sizeof(len));
        p += sizeof(len);
        item = Py_BuildValue("(iy#)", x->number, p, (Py_ssize_t)len);
        p += len;
        rc = item != NULL ? PyList_Append(list, item) : -1;
        Py_XDECREF(item);
        if (rc < 0) {
            return -1;
        }
    }
    return 0;
}

/* threaded(app, threads, requests) -> [(thread, response)]: run WHO=thread-n on
 * executor threads at once. */
static PyObject *
driver_threaded(PyObject *self, PyObject *args)
{
    PyObject *app, *list = NULL;
    struct executor x[32];
    int threads, requests, failed = 0;

    (void)self;
    if (!PyArg_ParseTuple(args, "Oii", &app, &threads, &requests) ||
        threads > 32) {
        return NULL;
    }
    memset(x, 0, sizeof(x));
    interp_release();
    for (int i = 0; i < threads; i++) {
        x[i].app = app;
        x[i].number = i;
        x[i].requests = requests;
        buf_init(&x[i].out, SIZE_MAX / 2);
        pthread_create(&x[i].thread, NULL, execute, &x[i]);
    }
    for (int i = 0; i < threads; i++) {
        pthread_join(x[i].thread, NULL);
        failed += x[i].failed;
    }
    interp_acquire_nogil();
    list = PyList_New(0);
    for (int i = 0; i < threads; i++) {
        /* Only now: others may have called write() of its last request. */
        wsgi_thread_free(x[i].wsgi);
        if (list != NULL && (failed || add_responses(list, &x[i]) < 0)) {
            Py_CLEAR(list);
        }
        buf_release(&x[i].out);
    }
    if (failed) {
        PyErr_Format(PyExc_RuntimeError, "%d requests failed", failed);
    }
    return list;
}

/* -- loading and the rest of the layer ------------------------------------ */

/* parse_app(text) -> dict, or ValueError with the sentence. */
static PyObject *
driver_parse_app(PyObject *self, PyObject *args)
{
    const char *text;
    struct app_name *name;
    PyObject *result = NULL;
    char why[1024];

    (void)self;
    if (!PyArg_ParseTuple(args, "s", &text)) {
        return NULL;
    }
    name = calloc(1, sizeof(*name));
    if (name == NULL) {
        return PyErr_NoMemory();
    }
    if (app_name_parse(text, name, why, sizeof(why)) != 0) {
        PyErr_SetString(PyExc_ValueError, why);
    } else {
        result =
            Py_BuildValue("{s:s,s:s,s:s,s:s,s:O}", "module", name->module,
                          "file", name->file, "dir", name->dir, "attribute",
                          name->attribute, "factory", FLAG(name->factory));
    }
    free(name);
    return result;
}

/* load_app(text) -> the application, or ValueError with the sentence. */
static PyObject *
driver_load_app(PyObject *self, PyObject *args)
{
    const char *text;
    struct app_name *name;
    PyObject *object = NULL, *app = NULL;
    char why[8192] = "";
    int rc;

    (void)self;
    if (!PyArg_ParseTuple(args, "s", &text)) {
        return NULL;
    }
    name = calloc(1, sizeof(*name));
    if (name == NULL) {
        return PyErr_NoMemory();
    }
    rc = app_name_parse(text, name, why, sizeof(why));
    if (rc == 0) {
        rc = app_import(name, &object, why, sizeof(why));
    }
    if (rc == 0) {
        rc = app_make(name, object, &app, why, sizeof(why));
    }
    if (rc != 0) {
        if (PyErr_Occurred()) {
            PyErr_SetString(PyExc_SystemError, "an exception was left behind");
        } else {
            PyErr_SetString(PyExc_ValueError, why);
        }
    }
    Py_XDECREF(object);
    free(name);
    return app;
}

static PyObject *
driver_unsafe_to_fork(PyObject *self, PyObject *ignored)
{
    char report[4096];
    bool found = interp_unsafe_to_fork(NULL, report, sizeof(report));

    (void)self;
    (void)ignored;
    return Py_BuildValue("(Os)", FLAG(found), report);
}

/* check_venv(dir, base, major, minor) -> the python, or ValueError. */
static PyObject *
driver_check_venv(PyObject *self, PyObject *args)
{
    const char *dir, *base;
    char python[4096], why[4096];
    int major = PY_MAJOR_VERSION, minor = PY_MINOR_VERSION;

    (void)self;
    if (!PyArg_ParseTuple(args, "ss|ii", &dir, &base, &major, &minor)) {
        return NULL;
    }
    if (pyvenv_check(dir, major, minor, base, python, sizeof(python), why,
                     sizeof(why)) != 0) {
        PyErr_SetString(PyExc_ValueError, why);
        return NULL;
    }
    return PyUnicode_DecodeFSDefault(python);
}

static PyObject *
driver_hooks(PyObject *self, PyObject *args)
{
    int start;

    (void)self;
    if (!PyArg_ParseTuple(args, "p", &start)) {
        return NULL;
    }
    if (start) {
        return PyLong_FromLong(module_run_worker_start());
    }
    module_run_worker_exit();
    return PyLong_FromLong(0);
}

/* signal_fd() -> what the server watches. */
static PyObject *
driver_signal_fd(PyObject *self, PyObject *ignored)
{
    (void)self;
    (void)ignored;
    return PyLong_FromLong(interp_signal_fd());
}

/* check_signals(): as an idle server does. */
static PyObject *
driver_check_signals(PyObject *self, PyObject *ignored)
{
    (void)self;
    (void)ignored;
    interp_release();
    interp_check_signals_nogil();
    interp_acquire_nogil();
    Py_RETURN_NONE;
}

static PyObject *
driver_end(PyObject *self, PyObject *ignored)
{
    (void)self;
    (void)ignored;
    interp_end();
    Py_RETURN_NONE;
}

/* fork() -> pid: interp_fork(). */
static PyObject *
driver_fork(PyObject *self, PyObject *ignored)
{
    (void)self;
    (void)ignored;
    return PyLong_FromLong((long)interp_fork());
}

/* fail_next(n): log_exception of an exception made by the test. */
static PyObject *
driver_log_exception(PyObject *self, PyObject *exception)
{
    char text[256];

    (void)self;
    PyErr_SetObject((PyObject *)Py_TYPE(exception), exception);
    errors_describe(text, sizeof(text));
    errors_log_exception("logging a test");
    return PyUnicode_FromString(text);
}

static PyMethodDef methods[] = {
    { "log", driver_log, METH_NOARGS, NULL },
    { "setup", (PyCFunction)(void (*)(void))driver_setup,
      METH_VARARGS | METH_KEYWORDS, NULL },
    { "thread", driver_thread, METH_O, NULL },
    { "run", (PyCFunction)(void (*)(void))driver_run,
      METH_VARARGS | METH_KEYWORDS, NULL },
    { "sent", driver_sent, METH_NOARGS, NULL },
    { "over", driver_over, METH_NOARGS, NULL },
    { "bench", driver_bench, METH_VARARGS, NULL },
    { "threaded", driver_threaded, METH_VARARGS, NULL },
    { "parse_app", driver_parse_app, METH_VARARGS, NULL },
    { "load_app", driver_load_app, METH_VARARGS, NULL },
    { "unsafe_to_fork", driver_unsafe_to_fork, METH_NOARGS, NULL },
    { "check_venv", driver_check_venv, METH_VARARGS, NULL },
    { "hooks", driver_hooks, METH_VARARGS, NULL },
    { "signal_fd", driver_signal_fd, METH_NOARGS, NULL },
    { "check_signals", driver_check_signals, METH_NOARGS, NULL },
    { "end", driver_end, METH_NOARGS, NULL },
    { "fork", driver_fork, METH_NOARGS, NULL },
    { "log_exception", driver_log_exception, METH_O, NULL },
    { NULL, NULL, 0, NULL },
};

static struct PyModuleDef driver_module = {
    PyModuleDef_HEAD_INIT,
    .m_name = "driver",
    .m_size = 0,
    .m_methods = methods,
};

static PyObject *
driver_init(void)
{
    return PyModuleDef_Init(&driver_module);
}

/* -- main ----------------------------------------------------------------- */

static char *
folder_of(const char *file)
{
    char *dir = strdup(file);
    char *slash = strrchr(dir, '/');

    if (slash == NULL) {
        return strcpy(dir, ".");
    }
    *slash = '\0';
    return dir;
}

/* sys.argv = argv[1:], as for a script. */
static int
set_argv(int argc, char **argv)
{
    PyObject *list = PyList_New(0);
    int rc = list == NULL ? -1 : 0;

    for (int i = 1; i < argc && rc == 0; i++) {
        PyObject *text = PyUnicode_DecodeFSDefault(argv[i]);

        rc = text != NULL ? PyList_Append(list, text) : -1;
        Py_XDECREF(text);
    }
    if (rc == 0) {
        rc = PySys_SetObject("argv", list);
    }
    Py_XDECREF(list);
    return rc;
}

/* Import the test file as an application would be, and call its main(). */
static int
run_file(const char *file)
{
    char text[4096], why[8192];
    struct app_name *name = calloc(1, sizeof(*name));
    PyObject *object = NULL, *result;

    snprintf(text, sizeof(text), "%s:main", file);
    if (name == NULL || app_name_parse(text, name, why, sizeof(why)) != 0 ||
        app_import(name, &object, why, sizeof(why)) != 0) {
        errors_set_log(NULL);
        fprintf(stderr, "%s\n%.*s\n", why, (int)logged.text.len,
                logged.text.data != NULL ? logged.text.data : "");
        return 2;
    }
    free(name);
    result = PyObject_CallNoArgs(object);
    if (result == NULL) {
        errors_set_log(NULL);
        errors_log_exception("main()");
        return 2;
    }
    return PyLong_Check(result) ? (int)PyLong_AsLong(result) : 0;
}

int
main(int argc, char **argv)
{
    const char *venv = getenv("DRIVER_VENV");
    const char *paths[] = { getenv("DRIVER_PATH"), NULL };
    struct interp_config start = {
        .virtualenv = venv,
        .python = getenv("DRIVER_PYTHON"),
    };
    char why[4096];
    int rc;

    if (argc < 2) {
        fprintf(stderr, "usage: driver FILE [unittest options]\n");
        return 2;
    }
    /* What whoever runs the tests left open would be found by them. */
    for (int fd = 3; fd < 256; fd++) {
        close(fd);
    }
    signal(SIGPIPE, SIG_IGN);
    errors_set_log(keep_log);
    start.app = argv[1];
    start.app_dir = folder_of(argv[1]);
    start.pythonpath = paths[0] != NULL ? paths : NULL;
    PyImport_AppendInittab("driver", driver_init);
    if (interp_start(&start, why, sizeof(why)) != 0) {
        fprintf(stderr, "%s\n", why);
        return 3;
    }
    config.pool = "testpool";
    config.mount = "";
    config.max_response_headers = 65536;
    config.learned_names = 100;
    if (wsgi_setup(&config) != 0 || set_argv(argc, argv) != 0) {
        errors_set_log(NULL);
        errors_log_exception("setup");
        return 3;
    }
    rc = run_file(argv[1]);
    interp_end();
    fflush(NULL);
    _exit(rc);
}
