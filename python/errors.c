/* SPDX-License-Identifier: MIT
 *
 * Exceptions and wsgi.errors into the log. See errors.h. Template and worker.
 * Uses the traceback module's objects and never PyErr_Print, which ends the
 * process on SystemExit; where Python itself is too broken for that, a list of
 * frames made in C.
 */
#include "python/errors.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "python/compat.h"
#include "python/stream.h"

enum { LINE_BYTES = 2048, PLAIN_BYTES = 16384, PLAIN_FRAMES = 100 };

static void (*log_text)(char level, const char *text, size_t len);

/* Where text goes until the server has set its log. */
static void
write_plain(const char *text, size_t len)
{
    while (len > 0) {
        ssize_t n = write(2, text, len);

        if (n <= 0) {
            return;
        }
        text += n;
        len -= (size_t)n;
    }
}

static void
put(char level, const char *text, size_t len)
{
    if (log_text != NULL) {
        log_text(level, text, len);
        return;
    }
    write_plain(text, len);
    write_plain("\n", 1);
}

void
errors_set_log(void (*fn)(char level, const char *text, size_t len))
{
    log_text = fn;
}

void
errors_log(char level, const char *fmt, ...)
{
    char line[LINE_BYTES];
    va_list ap;
    int n;

    va_start(ap, fmt);
    n = vsnprintf(line, sizeof(line), fmt, ap);
    va_end(ap);
    if (n > 0) {
        put(level, line,
            (size_t)n < sizeof(line) ? (size_t)n : sizeof(line) - 1);
    }
}

/* Append to a fixed buffer, cut at its end. */
static void __attribute__((format(printf, 4, 5)))
append(char *out, size_t size, size_t *len, const char *fmt, ...)
{
    va_list ap;
    int n;

    va_start(ap, fmt);
    n = vsnprintf(out + *len, size - *len, fmt, ap);
    va_end(ap);
    if (n > 0) {
        *len += (size_t)n < size - *len ? (size_t)n : size - *len - 1;
    }
}

/* The text of a str as UTF-8, whatever is in it: a new bytes object, or NULL
 * without an exception. */
static PyObject *
utf8_of(PyObject *text)
{
    PyObject *bytes = NULL;

    if (text != NULL && PyUnicode_Check(text)) {
        bytes = PyUnicode_AsEncodedString(text, "utf-8", "backslashreplace");
    }
    if (bytes == NULL) {
        PyErr_Clear();
    }
    return bytes;
}

/* "ValueError: text", on one line. */
static void
describe(PyObject *exception, char *out, size_t size)
{
    PyObject *text = PyObject_Str(exception);
    PyObject *bytes;
    size_t len = 0;

    if (text == NULL) {
        PyErr_Clear(); /* a broken __str__ (wsgi checklist J7) */
    }
    bytes = utf8_of(text);
    append(out, size, &len, "%s", Py_TYPE(exception)->tp_name);
    if (bytes == NULL) {
        append(out, size, &len, ": (its text cannot be had)");
    } else if (PyBytes_GET_SIZE(bytes) > 0) {
        append(out, size, &len, ": %s", PyBytes_AS_STRING(bytes));
    }
    for (size_t i = 0; i < len; i++) {
        if (out[i] == '\n' || out[i] == '\r') {
            out[i] = ' ';
        }
    }
    Py_XDECREF(text);
    Py_XDECREF(bytes);
}

void
errors_describe(char *out, size_t size)
{
    PyObject *exception = py_take_exception();

    if (exception == NULL) {
        snprintf(out, size, "no exception is set");
        return;
    }
    describe(exception, out, size);
    py_set_exception(exception);
}

/* "".join(traceback.TracebackException(type, e, tb).format()), or NULL with an
 * exception set. */
static PyObject *
format_traceback(PyObject *exception)
{
    PyObject *module = NULL, *formatter = NULL, *lines = NULL, *list = NULL;
    PyObject *empty = NULL, *text = NULL, *traceback = NULL;

    module = PyImport_ImportModule("traceback");
    if (module == NULL) {
        goto out;
    }
    traceback = PyException_GetTraceback(exception);
    formatter = PyObject_CallMethod(module, "TracebackException", "OOO",
                                    (PyObject *)Py_TYPE(exception), exception,
                                    traceback != NULL ? traceback : Py_None);
    if (formatter == NULL) {
        goto out;
    }
    lines = PyObject_CallMethod(formatter, "format", NULL);
    if (lines == NULL) {
        goto out;
    }
    list = PySequence_List(lines);
    empty = PyUnicode_FromStringAndSize(NULL, 0);
    if (list != NULL && empty != NULL) {
        text = PyUnicode_Join(empty, list);
    }
out:
    Py_XDECREF(module);
    Py_XDECREF(traceback);
    Py_XDECREF(formatter);
    Py_XDECREF(lines);
    Py_XDECREF(list);
    Py_XDECREF(empty);
    return text;
}

/* One frame of the list made in C: 'File "x", line 3, in f'. */
static void
append_frame(PyObject *traceback, char *out, size_t size, size_t *len)
{
    PyObject *frame = PyObject_GetAttrString(traceback, "tb_frame");
    PyObject *line = PyObject_GetAttrString(traceback, "tb_lineno");
    PyObject *code = NULL, *file = NULL, *name = NULL;
    PyObject *file_utf8 = NULL, *name_utf8 = NULL;
    long number = 0;

    if (frame != NULL) {
        code = PyObject_GetAttrString(frame, "f_code");
    }
    if (code != NULL) {
        file = PyObject_GetAttrString(code, "co_filename");
        name = PyObject_GetAttrString(code, "co_name");
    }
    if (line != NULL && PyLong_Check(line)) {
        number = PyLong_AsLong(line);
    }
    PyErr_Clear();
    file_utf8 = utf8_of(file);
    name_utf8 = utf8_of(name);
    append(out, size, len, "\n  File \"%s\", line %ld, in %s",
           file_utf8 != NULL ? PyBytes_AS_STRING(file_utf8) : "?", number,
           name_utf8 != NULL ? PyBytes_AS_STRING(name_utf8) : "?");
    Py_XDECREF(frame);
    Py_XDECREF(line);
    Py_XDECREF(code);
    Py_XDECREF(file);
    Py_XDECREF(name);
    Py_XDECREF(file_utf8);
    Py_XDECREF(name_utf8);
}

/* The traceback without the traceback module. */
static void
log_plain(const char *what, PyObject *exception)
{
    char text[PLAIN_BYTES], line[LINE_BYTES];
    size_t len = 0;
    PyObject *traceback = PyException_GetTraceback(exception);

    append(text, sizeof(text), &len,
           "%s\nTraceback (most recent call last; the traceback module "
           "failed):",
           what);
    for (int i = 0; traceback != NULL && i < PLAIN_FRAMES; i++) {
        PyObject *next;

        append_frame(traceback, text, sizeof(text), &len);
        next = PyObject_GetAttrString(traceback, "tb_next");
        Py_DECREF(traceback);
        traceback = next != NULL && next != Py_None ? Py_NewRef(next) : NULL;
        Py_XDECREF(next);
    }
    PyErr_Clear();
    Py_XDECREF(traceback);
    describe(exception, line, sizeof(line));
    append(text, sizeof(text), &len, "\n%s", line);
    put('E', text, len);
}

/* One message: what, newline, the traceback without its last newline. */
static int
log_formatted(const char *what, PyObject *exception)
{
    PyObject *text = format_traceback(exception);
    PyObject *message = NULL, *bytes = NULL;
    int rc = -1;

    if (text == NULL) {
        PyErr_Clear();
        return -1;
    }
    message = PyUnicode_FromFormat("%s\n%U", what, text);
    if (message == NULL) {
        PyErr_Clear();
    }
    bytes = utf8_of(message);
    if (bytes != NULL) {
        Py_ssize_t len = PyBytes_GET_SIZE(bytes);
        const char *data = PyBytes_AS_STRING(bytes);

        while (len > 0 && data[len - 1] == '\n') {
            len--;
        }
        put('E', data, (size_t)len);
        rc = 0;
    }
    Py_DECREF(text);
    Py_XDECREF(message);
    Py_XDECREF(bytes);
    return rc;
}

void
errors_log_exception(const char *what)
{
    PyObject *exception = py_take_exception();

    if (exception == NULL) {
        errors_log('E', "%s: no exception is set", what);
        return;
    }
    if (log_formatted(what, exception) < 0) {
        log_plain(what, exception);
    }
    Py_DECREF(exception);
    PyErr_Clear();
}

/* -- wsgi.errors ---------------------------------------------------------- */

/* PEP 3333: the stream belongs to the server. It is one for all requests, so an
 * application that closes it must not close it for everybody. */
static PyObject *
stream_close(PyObject *self, PyObject *Py_UNUSED(ignored))
{
    return PyObject_CallMethod(self, "flush", NULL);
}

static PyMethodDef stream_methods[] = {
    { "close", stream_close, METH_NOARGS,
      "Flush; the stream belongs to the server and stays open." },
    { NULL, NULL, 0, NULL },
};

static PyType_Slot stream_slots[] = {
    { Py_tp_methods, stream_methods },
    { Py_tp_doc, (void *)"wsgi.errors: text into the log of the pool." },
    { 0, NULL },
};

static PyType_Spec stream_spec = {
    .name = "forebay.ErrorStream",
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
    .slots = stream_slots,
};

static PyObject *
new_stream_type(PyObject *io)
{
    PyObject *base = PyObject_GetAttrString(io, "TextIOWrapper");
    PyObject *bases = NULL, *type = NULL;

    if (base != NULL) {
        bases = PyTuple_Pack(1, base);
    }
    if (bases != NULL) {
        type = PyType_FromSpecWithBases(&stream_spec, bases);
    }
    Py_XDECREF(base);
    Py_XDECREF(bases);
    return type;
}

PyObject *
errors_new_stream(void)
{
    PyObject *io = PyImport_ImportModule("io");
    PyObject *type = NULL, *stream = NULL;

    if (io != NULL) {
        type = new_stream_type(io);
        Py_DECREF(io);
    }
    if (type != NULL) {
        stream = stream_new_text(type, STREAM_ERRORS, "<wsgi.errors>");
        Py_DECREF(type);
    }
    return stream;
}
