/* SPDX-License-Identifier: MIT
 *
 * See stream.h. Below each text stream lies a file object: a subclass of
 * io.FileIO whose write() gives all bytes to the server's writer. Above it
 * io.TextIOWrapper with write_through hands on every write() at once.
 */
#include "python/stream.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "protocol/buf.h"
#include "python/call.h"

/* Memory for a begun line of wsgi.errors that is given back. */
enum { KEEP_BYTES = 64 * 1024 };

static const int descriptor[STREAM_COUNT] = { 1, 2, 2 };
static const char capsule_name[] = "forebay.stream";

static struct stream_writer writer;

/* Of this thread: a line is begun on that stream, and the manager waits for the
 * rest. */
static __thread bool open_line[STREAM_COUNT];
static __thread bool watched;

/* What came behind the last newline of wsgi.errors, for the front end. */
static __thread struct buf begun;

void
stream_set_writer(const struct stream_writer *w)
{
    writer = *w;
}

/* -- bytes out --------------------------------------------------------------
 */

/* Without a server: to the descriptor, and nothing else. */
static int
write_plain(int fd, const char *data, size_t len, bool wait)
{
    struct pollfd p = { .fd = fd, .events = POLLOUT };

    if (!wait && (len > PIPE_BUF || poll(&p, 1, 0) == 0)) {
        return -EAGAIN;
    }
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

static int
write_text(enum stream which, const char *data, size_t len, bool wait)
{
    if (writer.write == NULL) {
        return write_plain(descriptor[which], data, len, wait);
    }
    return writer.write(descriptor[which], which, &open_line[which], data, len,
                        wait);
}

/* What can be written at once keeps the GIL: the two writes of a print() then
 * stay together even in a file that the application has put in the place of the
 * log. Nobody can be told that the manager is gone or does not read: to print
 * is no reason for a request to fail. */
static int
send(enum stream which, const char *data, size_t len)
{
    int rc = write_text(which, data, len, false);

    if (rc == -EAGAIN) {
        PyThreadState *saved = PyEval_SaveThread();

        rc = write_text(which, data, len, true);
        PyEval_RestoreThread(saved);
    }
    if (rc < 0 && rc != -EPIPE && rc != -EAGAIN) {
        errno = -rc;
        PyErr_SetFromErrno(PyExc_OSError);
        return -1;
    }
    return 0;
}

void
stream_end_lines(void)
{
    for (unsigned i = 0; i < STREAM_COUNT; i++) {
        if (open_line[i]) {
            open_line[i] = false;
            writer.end_line(i);
        }
    }
    if (begun.cap > 0) {
        buf_release(&begun);
    }
}

/* -- threads and processes that end -----------------------------------------
 */

/* A thread of the application ends: what lies in its dictionary goes, before
 * anybody who waits in join() is woken. After a fork the child throws away
 * those of other threads, whose lines are not here. */
static void
end_thread(PyObject *capsule)
{
    PyThreadState *saved;

    if (PyCapsule_GetPointer(capsule, capsule_name) != open_line) {
        return;
    }
    saved = PyEval_SaveThread();
    stream_end_lines();
    PyEval_RestoreThread(saved);
    watched = false;
}

/* Without memory for it, its last line comes with the end of the process. */
static void
watch_thread(void)
{
    PyObject *dict_b = PyThreadState_GetDict();
    PyObject *capsule = PyCapsule_New(open_line, capsule_name, end_thread);

    watched = true;
    if (dict_b == NULL || capsule == NULL ||
        PyDict_SetItemString(dict_b, capsule_name, capsule) < 0) {
        PyErr_Clear();
    }
    Py_XDECREF(capsule);
}

/* A forked child: the begun lines are its parent's, which will end them. */
static void
forget_lines(void)
{
    memset(open_line, 0, sizeof(open_line));
    buf_clear(&begun);
}

/* -- write() ----------------------------------------------------------------
 */

/* fcgi_stderr: whole lines of wsgi.errors to the front end as well. */
static int
tell_front_end(const char *data, size_t len)
{
    struct call *c = call_current();
    const char *end = memrchr(data, '\n', len);
    size_t whole = end != NULL ? (size_t)(end - data) + 1 : 0;

    if (c == NULL || c->io->ops->error_text == NULL) {
        return 0;
    }
    begun.limit = SIZE_MAX / 2;
    if (whole > 0 && begun.len == 0) {
        c->io->ops->error_text(c->io, data, whole);
    } else if (whole > 0) {
        if (buf_append(&begun, data, whole) != 0) {
            return -1;
        }
        c->io->ops->error_text(c->io, begun.data, begun.len);
        buf_clear(&begun);
    }
    if (begun.cap > KEEP_BYTES && begun.len == 0) {
        buf_release(&begun);
    }
    return buf_append(&begun, data + whole, len - whole);
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
    rc = len > 0 ? send(which, bytes.buf, (size_t)len) : 0;
    if (rc == 0 && which == STREAM_ERRORS &&
        tell_front_end(bytes.buf, (size_t)len) != 0) {
        PyErr_NoMemory();
        rc = -1;
    }
    PyBuffer_Release(&bytes);
    if (open_line[which] && !watched) {
        watch_thread();
    }
    return rc == 0 ? PyLong_FromSsize_t(len) : NULL;
}

/* -- the types --------------------------------------------------------------
 */

#define STREAM_TYPE(prefix, which, type_name)                                  \
    static PyObject *prefix##_write(PyObject *Py_UNUSED(self), PyObject *arg)  \
    {                                                                          \
        return file_write(which, arg);                                         \
    }                                                                          \
    static PyMethodDef prefix##_methods[] = {                                  \
        { "write", prefix##_write, METH_O, "Write all bytes, at once." },      \
        { NULL, NULL, 0, NULL },                                               \
    };                                                                         \
    static PyType_Slot prefix##_slots[] = {                                    \
        { Py_tp_methods, prefix##_methods },                                   \
        { Py_tp_doc, (void *)"A standard descriptor, line by line." },         \
        { 0, NULL },                                                           \
    };                                                                         \
    static PyType_Spec prefix##_spec = {                                       \
        .name = (type_name),                                                   \
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
        error = pthread_atfork(NULL, NULL, forget_lines);
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
