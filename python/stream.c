/* SPDX-License-Identifier: MIT
 *
 * See stream.h. Template and worker, GIL held but while waiting.
 */
#include "python/stream.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { PATIENCE_MS = 2000 };

/* Bytes that could not be written, not yet told. */
static _Atomic unsigned long long lost;

/* Whether PIPE_BUF bytes can be written without waiting, as poll(2) tells of a
 * pipe: > 0, 0, or -1 with errno. */
static int
room(int fd, int timeout_ms)
{
    struct pollfd p = { .fd = fd, .events = POLLOUT };

    return poll(&p, 1, timeout_ms);
}

/* Write at most PIPE_BUF bytes. Like write(2), or 0 when nobody reads. */
static ssize_t
write_some(int fd, const char *data, size_t len)
{
    PyThreadState *saved;
    ssize_t n;

    len = len < PIPE_BUF ? len : PIPE_BUF;
    if (room(fd, 0) > 0) {
        n = write(fd, data, len);
        if (n >= 0 || errno != EAGAIN) {
            return n;
        }
    }
    saved = PyEval_SaveThread();
    n = room(fd, PATIENCE_MS);
    if (n > 0) {
        n = write(fd, data, len);
    }
    PyEval_RestoreThread(saved); /* keeps errno */
    return n < 0 && errno == EAGAIN ? 0 : n;
}

/* Tell how much is missing, once there is room again. */
static void
tell_lost(int fd)
{
    unsigned long long count = atomic_exchange(&lost, 0);
    char line[128];
    int n;

    if (count == 0) {
        return;
    }
    n = snprintf(line, sizeof(line),
                 "\n%llu bytes of the application's output were lost: nobody "
                 "read the log\n",
                 count);
    if (room(fd, 0) <= 0 || write(fd, line, (size_t)n) < 0) {
        atomic_fetch_add(&lost, count);
    }
}

/* 0, or -1 with an exception set. */
static int
write_all(int fd, const char *data, size_t len)
{
    while (len > 0) {
        ssize_t n;

        if (atomic_load_explicit(&lost, memory_order_relaxed) > 0) {
            tell_lost(fd);
        }
        n = write_some(fd, data, len);
        if (n < 0 && errno == EINTR) {
            if (PyErr_CheckSignals() < 0) {
                return -1;
            }
            continue;
        }
        if (n < 0) {
            PyErr_SetFromErrno(PyExc_OSError);
            return -1;
        }
        if (n == 0) {
            atomic_fetch_add(&lost, len);
            return 0;
        }
        data += n;
        len -= (size_t)n;
    }
    return 0;
}

/* -- the raw file --------------------------------------------------------- */

static PyObject *
file_write(PyObject *self, PyObject *data)
{
    PyObject *number = PyObject_CallMethod(self, "fileno", NULL);
    Py_buffer view;
    Py_ssize_t len;
    long fd;
    int rc;

    if (number == NULL) {
        return NULL;
    }
    fd = PyLong_AsLong(number);
    Py_DECREF(number);
    if ((fd == -1 && PyErr_Occurred()) ||
        PyObject_GetBuffer(data, &view, PyBUF_SIMPLE) < 0) {
        return NULL;
    }
    len = view.len;
    rc = write_all((int)fd, view.buf, (size_t)len);
    PyBuffer_Release(&view);
    return rc < 0 ? NULL : PyLong_FromSsize_t(len);
}

static PyMethodDef file_methods[] = {
    { "write", file_write, METH_O,
      "Write all bytes; what nobody takes for a while is dropped." },
    { NULL, NULL, 0, NULL },
};

static PyType_Slot file_slots[] = {
    { Py_tp_methods, file_methods },
    { Py_tp_doc, (void *)"A descriptor that leads to the log of the pool." },
    { 0, NULL },
};

static PyType_Spec file_spec = {
    .name = "forebay.LogFile",
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
    .slots = file_slots,
};

/* FileIO(fd, "w", closefd=False) with our write(). */
static PyObject *
new_file(PyObject *io, int fd, const char *name)
{
    PyObject *base = PyObject_GetAttrString(io, "FileIO");
    PyObject *bases = NULL, *type = NULL, *file = NULL, *text = NULL;

    if (base != NULL) {
        bases = PyTuple_Pack(1, base);
    }
    if (bases != NULL) {
        type = PyType_FromSpecWithBases(&file_spec, bases);
    }
    if (type != NULL) {
        file = PyObject_CallFunction(type, "isO", fd, "w", Py_False);
    }
    text = PyUnicode_FromString(name);
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
stream_new(PyObject *type, int fd, const char *name)
{
    PyObject *io = PyImport_ImportModule("io");
    PyObject *file = NULL, *args = NULL, *keywords = NULL, *stream = NULL;

    if (io == NULL) {
        return NULL;
    }
    file = new_file(io, fd, name);
    Py_DECREF(io);
    if (file == NULL) {
        return NULL;
    }
    args = PyTuple_Pack(1, file);
    keywords = Py_BuildValue("{s:s, s:s, s:s, s:O}", "encoding", "utf-8",
                             "errors", "backslashreplace", "newline", "\n",
                             "write_through", Py_True);
    if (args != NULL && keywords != NULL) {
        stream = PyObject_Call(type, args, keywords);
    }
    Py_DECREF(file);
    Py_XDECREF(args);
    Py_XDECREF(keywords);
    return stream;
}

/* As Python names and marks them itself. */
static int
replace(PyObject *type, int fd, const char *name, const char *shown,
        const char *original)
{
    PyObject *stream = stream_new(type, fd, shown);
    PyObject *mode = PyUnicode_FromString("w");
    int rc = -1;

    if (stream != NULL && mode != NULL &&
        PyObject_SetAttrString(stream, "mode", mode) == 0 &&
        PySys_SetObject(name, stream) == 0) {
        rc = PySys_SetObject(original, stream);
    }
    Py_XDECREF(stream);
    Py_XDECREF(mode);
    return rc;
}

int
stream_replace_standard(void)
{
    PyObject *io = PyImport_ImportModule("io");
    PyObject *type = NULL;
    int rc = -1;

    if (io != NULL) {
        type = PyObject_GetAttrString(io, "TextIOWrapper");
        Py_DECREF(io);
    }
    if (type != NULL) {
        rc = replace(type, 1, "stdout", "<stdout>", "__stdout__");
    }
    if (rc == 0) {
        rc = replace(type, 2, "stderr", "<stderr>", "__stderr__");
    }
    Py_XDECREF(type);
    return rc;
}
