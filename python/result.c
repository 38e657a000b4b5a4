/* SPDX-License-Identifier: MIT
 *
 * See result.h. Worker process, GIL held.
 */
#include "python/result.h"

#include <errno.h>

#include "python/call.h"
#include "python/errors.h"
#include "python/file_wrapper.h"

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

int
result_send(struct call *c, PyObject *result, bool *ret_exhausted)
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

void
result_close(struct call *c, PyObject *result, bool exhausted)
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
