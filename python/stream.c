/* SPDX-License-Identifier: MIT
 *
 * See stream.h. Below each text stream lies a file object: a subclass of
 * io.FileIO whose write() keeps the begun line of the calling thread. Above it
 * io.TextIOWrapper with write_through hands on every write() at once.
 */
#include "python/stream.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "protocol/buf.h"
#include "python/call.h"

/* A line that grows beyond LINE_BYTES leaves in pieces; memory beyond
 * KEEP_BYTES is given back. */
enum { LINE_BYTES = 1024 * 1024, KEEP_BYTES = 64 * 1024 };

static const int descriptor[STREAM_COUNT] = { 1, 2, 2 };

/* Of this thread, for each stream: what came behind the last newline. */
static __thread struct buf begun[STREAM_COUNT];
static __thread bool prepared;

static const char capsule_name[] = "forebay.stream";

static int (*write_lines)(int fd, const char *data, size_t len);

void
stream_set_writer(int (*fn)(int fd, const char *data, size_t len))
{
    write_lines = fn;
}

/* -- bytes out --------------------------------------------------------------
 */

static int
write_plain(int fd, const char *data, size_t len)
{
    while (len > 0) {
        ssize_t n = write(fd, data, len);

        if (n >= 0) {
            data += n;
            len -= (size_t)n;
        } else if (errno != EINTR) {
            return -errno;
        }
    }
    return 0;
}

/* 0 or -errno. Nobody can be told that the manager is gone or does not read: to
 * print is no reason for a request to fail. */
static int
send_nogil(enum stream which, const char *data, size_t len)
{
    int rc = write_lines != NULL ? write_lines(descriptor[which], data, len)
                                 : write_plain(descriptor[which], data, len);

    return rc == -EPIPE || rc == -EAGAIN ? 0 : rc;
}

static void
forget(struct buf *b)
{
    buf_clear(b);
    if (b->cap > KEEP_BYTES) {
        buf_release(b);
    }
}

/* What this thread has begun, with end behind it. */
static void
send_begun_nogil(const char *end)
{
    for (int i = 0; i < STREAM_COUNT; i++) {
        if (begun[i].len > 0) {
            buf_append(&begun[i], end, strlen(end)); /* memory permitting */
            send_nogil((enum stream)i, begun[i].data, begun[i].len);
            forget(&begun[i]);
        }
    }
}

void
stream_end_lines(void)
{
    send_begun_nogil("\n");
}

/* exit(), as `forebay check` ends: as it is. */
static void
end_process(void)
{
    send_begun_nogil("");
}

/* A thread of the application ends: what lies in its dictionary goes, before
 * anybody who waits in join() is woken. After a fork the child throws away
 * those of other threads, whose lines are not here. */
static void
end_thread(PyObject *capsule)
{
    PyThreadState *saved;

    if (PyCapsule_GetPointer(capsule, capsule_name) != begun) {
        return;
    }
    saved = PyEval_SaveThread();
    stream_end_lines();
    PyEval_RestoreThread(saved);
    for (int i = 0; i < STREAM_COUNT; i++) {
        buf_release(&begun[i]);
    }
    prepared = false;
}

/* Without memory for it, its last line may stay behind. */
static void
watch_thread(void)
{
    PyObject *dict_b = PyThreadState_GetDict();
    PyObject *capsule = PyCapsule_New(begun, capsule_name, end_thread);

    if (dict_b == NULL || capsule == NULL ||
        PyDict_SetItemString(dict_b, capsule_name, capsule) < 0) {
        PyErr_Clear();
    }
    Py_XDECREF(capsule);
}

/* A forked child: the begun lines are its parent's, which will end them. */
static void
forget_all(void)
{
    for (int i = 0; i < STREAM_COUNT; i++) {
        buf_clear(&begun[i]);
    }
}

static struct buf *
line_of(enum stream which)
{
    if (!prepared) {
        for (int i = 0; i < STREAM_COUNT; i++) {
            buf_init(&begun[i], SIZE_MAX / 2);
        }
        prepared = true;
        watch_thread();
    }
    return &begun[which];
}

/* -- write() and flush() ----------------------------------------------------
 */

/* fcgi_stderr: to the front end as well. */
static void
tell_front_end(enum stream which, const char *data, size_t len)
{
    struct call *c = which == STREAM_ERRORS ? call_current() : NULL;

    if (c != NULL && c->io->ops->error_text != NULL) {
        c->io->ops->error_text(c->io, data, len);
    }
}

/* Whole lines, or what is to go without a newline. */
static int
send(enum stream which, const char *data, size_t len)
{
    PyThreadState *saved;
    int rc;

    tell_front_end(which, data, len);
    saved = PyEval_SaveThread();
    rc = send_nogil(which, data, len);
    PyEval_RestoreThread(saved);
    if (rc < 0) {
        errno = -rc;
        PyErr_SetFromErrno(PyExc_OSError);
        return -1;
    }
    return 0;
}

static int
send_begun(enum stream which, struct buf *line)
{
    int rc = line->len > 0 ? send(which, line->data, line->len) : 0;

    forget(line);
    return rc;
}

static int
keep(struct buf *line, const char *data, size_t len)
{
    if (buf_append(line, data, len) != 0) {
        PyErr_NoMemory();
        return -1;
    }
    return 0;
}

/* With nobody to get in between, standard output is unbuffered, as people who
 * look for a crash expect it (wsgi checklist L3). */
static bool
is_alone(void)
{
    PyInterpreterState *interpreter = PyInterpreterState_Get();
    PyThreadState *last = PyInterpreterState_ThreadHead(interpreter);

    return PyThreadState_Next(last) == NULL;
}

static int
add(enum stream which, const char *data, size_t len)
{
    struct buf *line = line_of(which);
    const char *end;
    size_t whole;

    if (which != STREAM_ERRORS && line->len == 0 && is_alone()) {
        return len > 0 ? send(which, data, len) : 0;
    }
    end = memrchr(data, '\n', len);
    whole = end != NULL ? (size_t)(end - data) + 1 : 0;
    if (whole > 0 && line->len == 0) {
        if (send(which, data, whole) < 0) {
            return -1;
        }
    } else if (whole > 0) {
        if (keep(line, data, whole) < 0 || send_begun(which, line) < 0) {
            return -1;
        }
    }
    if (keep(line, data + whole, len - whole) < 0) {
        return -1;
    }
    return line->len > LINE_BYTES ? send_begun(which, line) : 0;
}

static PyObject *
file_write(enum stream which, PyObject *arg)
{
    Py_buffer bytes;
    Py_ssize_t len;
    int rc;

    if (PyUnicode_Check(arg)) {
        PyErr_SetString(PyExc_TypeError,
                        "a bytes-like object is required, not 'str'");
        return NULL;
    }
    if (PyObject_GetBuffer(arg, &bytes, PyBUF_SIMPLE) < 0) {
        return NULL;
    }
    len = bytes.len;
    rc = add(which, bytes.buf, (size_t)len);
    PyBuffer_Release(&bytes);
    return rc == 0 ? PyLong_FromSsize_t(len) : NULL;
}

static PyObject *
file_flush(enum stream which)
{
    if (send_begun(which, line_of(which)) < 0) {
        return NULL;
    }
    Py_RETURN_NONE;
}

/* -- the types --------------------------------------------------------------
 */

#define STREAM_TYPE(prefix, which, type_name)                                  \
    static PyObject *prefix##_write(PyObject *Py_UNUSED(self), PyObject *arg)  \
    {                                                                          \
        return file_write(which, arg);                                         \
    }                                                                          \
    static PyObject *prefix##_flush(PyObject *Py_UNUSED(self),                 \
                                    PyObject *Py_UNUSED(ignored))              \
    {                                                                          \
        return file_flush(which);                                              \
    }                                                                          \
    static PyMethodDef prefix##_methods[] = {                                  \
        { "write", prefix##_write, METH_O,                                     \
          "Write; a line leaves when it is complete." },                       \
        { "flush", prefix##_flush, METH_NOARGS,                                \
          "Write what stands behind the last newline." },                      \
        { NULL, NULL, 0, NULL },                                               \
    };                                                                         \
    static PyType_Slot prefix##_slots[] = {                                    \
        { Py_tp_methods, prefix##_methods },                                   \
        { Py_tp_doc, (void *)"A standard descriptor, line by line." },         \
        { 0, NULL },                                                           \
    };                                                                         \
    static PyType_Spec prefix##_spec = {                                       \
        .name = type_name,                                                     \
        .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,                     \
        .slots = prefix##_slots,                                               \
    }

STREAM_TYPE(out, STREAM_STDOUT, "forebay.Stdout");
STREAM_TYPE(err, STREAM_STDERR, "forebay.Stderr");
STREAM_TYPE(errors, STREAM_ERRORS, "forebay.Errors");

/* The file object below a text stream. */
static PyObject *
new_file(PyObject *io, enum stream which, const char *name)
{
    PyType_Spec *const spec[] = { &out_spec, &err_spec, &errors_spec };
    PyObject *base = PyObject_GetAttrString(io, "FileIO");
    PyObject *bases = NULL, *type = NULL, *file = NULL, *text = NULL;

    if (base != NULL) {
        bases = PyTuple_Pack(1, base);
    }
    if (bases != NULL) {
        type = PyType_FromSpecWithBases(spec[which], bases);
    }
    if (type != NULL) {
        file = PyObject_CallFunction(type, "isO", descriptor[which], "w",
                                     Py_False); /* closefd */
        text = PyUnicode_FromString(name);
    }
    if (file != NULL &&
        (text == NULL || PyObject_SetAttrString(file, "name", text) < 0)) {
        Py_CLEAR(file);
    }
    Py_XDECREF(base);
    Py_XDECREF(bases);
    Py_XDECREF(type);
    Py_XDECREF(text);
    return file;
}

PyObject *
stream_new_text(PyObject *type, enum stream which, const char *name)
{
    PyObject *io = PyImport_ImportModule("io");
    PyObject *file = NULL, *args = NULL, *keywords = NULL, *stream = NULL;
    PyObject *mode = NULL;

    if (io != NULL) {
        file = new_file(io, which, name);
    }
    if (file != NULL) {
        args = PyTuple_Pack(1, file);
        keywords = Py_BuildValue("{s:s, s:s, s:s, s:O}", "encoding", "utf-8",
                                 "errors", "backslashreplace", "newline", "\n",
                                 "write_through", Py_True);
    }
    if (args != NULL && keywords != NULL) {
        stream = PyObject_Call(type, args, keywords);
        mode = PyUnicode_FromString("w");
    }
    if (stream != NULL &&
        (mode == NULL || PyObject_SetAttrString(stream, "mode", mode) < 0)) {
        Py_CLEAR(stream);
    }
    Py_XDECREF(io);
    Py_XDECREF(file);
    Py_XDECREF(args);
    Py_XDECREF(keywords);
    Py_XDECREF(mode);
    return stream;
}

static int
install(PyObject *type, enum stream which, const char *name,
        const char *original, const char *shown)
{
    PyObject *stream = stream_new_text(type, which, shown);
    int rc = -1;

    if (stream != NULL && PySys_SetObject(name, stream) == 0) {
        rc = PySys_SetObject(original, stream);
    }
    Py_XDECREF(stream);
    return rc;
}

static int
prepare_process(void)
{
    static bool done;
    int error = 0;

    if (!done) {
        error = pthread_atfork(NULL, NULL, forget_all);
        atexit(end_process);
        done = error == 0;
    }
    if (error != 0) {
        errno = error;
        PyErr_SetFromErrno(PyExc_OSError);
        return -1;
    }
    return 0;
}

int
stream_install(void)
{
    PyObject *io, *type;
    int rc = -1;

    if (prepare_process() < 0) {
        return -1;
    }
    io = PyImport_ImportModule("io");
    type = io != NULL ? PyObject_GetAttrString(io, "TextIOWrapper") : NULL;
    if (type != NULL &&
        install(type, STREAM_STDOUT, "stdout", "__stdout__", "<stdout>") == 0) {
        rc = install(type, STREAM_STDERR, "stderr", "__stderr__", "<stderr>");
    }
    Py_XDECREF(io);
    Py_XDECREF(type);
    return rc;
}
