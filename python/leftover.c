/* SPDX-License-Identifier: MIT
 *
 * See leftover.h. threading._shutdown() waits for ever, without a word, for
 * threads that are no daemons; the worker is killed in the end, and somebody
 * will want to know why.
 */
#include "python/leftover.h"

#include "python/errors.h"

/* How long each of them is waited for before it is worth a line. */
#define PATIENCE_S 1.0

/* traceback.format_stack() of a thread as one text. New reference or NULL. */
static PyObject *
stack_of(PyObject *ident)
{
    PyObject *function_b = PySys_GetObject("_current_frames");
    PyObject *module = PyImport_ImportModule("traceback");
    PyObject *frames = NULL, *lines = NULL, *nothing = NULL, *text = NULL;
    PyObject *frame_b;

    if (function_b != NULL && module != NULL) {
        frames = PyObject_CallNoArgs(function_b);
    }
    frame_b = frames != NULL && PyDict_Check(frames)
                  ? PyDict_GetItemWithError(frames, ident)
                  : NULL;
    if (frame_b != NULL) {
        lines = PyObject_CallMethod(module, "format_stack", "O", frame_b);
        nothing = PyUnicode_FromString("");
    }
    if (lines != NULL && nothing != NULL) {
        text = PyUnicode_Join(nothing, lines);
    }
    Py_XDECREF(nothing);
    Py_XDECREF(lines);
    Py_XDECREF(frames);
    Py_XDECREF(module);
    return text;
}

static void
tell(PyObject *thread)
{
    PyObject *name = PyObject_GetAttrString(thread, "name");
    PyObject *ident = PyObject_GetAttrString(thread, "ident");
    PyObject *stack = ident != NULL ? stack_of(ident) : NULL;
    const char *name_b = name != NULL ? PyUnicode_AsUTF8(name) : NULL;
    const char *stack_b = stack != NULL ? PyUnicode_AsUTF8(stack) : NULL;

    PyErr_Clear();
    errors_log('W',
               "this worker is to end and waits for thread %.100s, which is no "
               "daemon:\n%.8000s",
               name_b != NULL ? name_b : "?",
               stack_b != NULL ? stack_b : "(no stack)");
    Py_XDECREF(stack);
    Py_XDECREF(ident);
    Py_XDECREF(name);
}

/* -1 with an exception set, or whether the attribute or call says yes. */
static int
is_true(PyObject *value)
{
    int rc = value != NULL ? PyObject_IsTrue(value) : -1;

    Py_XDECREF(value);
    return rc;
}

static int
look_at(PyObject *thread)
{
    PyObject *joined;
    int rc = is_true(PyObject_GetAttrString(thread, "daemon"));

    if (rc != 0) {
        return rc < 0 ? -1 : 0;
    }
    joined = PyObject_CallMethod(thread, "join", "d", PATIENCE_S);
    if (joined == NULL) {
        return -1;
    }
    Py_DECREF(joined);
    rc = is_true(PyObject_CallMethod(thread, "is_alive", NULL));
    if (rc > 0) {
        tell(thread);
    }
    return rc < 0 ? -1 : 0;
}

void
leftover_tell(PyObject *threading)
{
    PyObject *threads = PyObject_CallMethod(threading, "enumerate", NULL);
    PyObject *own = PyObject_CallMethod(threading, "current_thread", NULL);
    int rc = threads != NULL && own != NULL && PyList_Check(threads) ? 0 : -1;

    for (Py_ssize_t i = 0; rc == 0 && i < PyList_GET_SIZE(threads); i++) {
        PyObject *thread = Py_NewRef(PyList_GET_ITEM(threads, i));

        rc = thread == own ? 0 : look_at(thread);
        Py_DECREF(thread);
    }
    if (rc < 0) {
        errors_log_exception("looking for threads of the application");
    }
    Py_XDECREF(own);
    Py_XDECREF(threads);
}
