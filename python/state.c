/* SPDX-License-Identifier: MIT
 *
 * See state.h. Template and worker, GIL held.
 */
#include "python/state.h"

#include "python/compat.h"
#include "python/errors.h"
#include "python/file_wrapper.h"
#include "python/input.h"
#include "python/start_response.h"

static const char capsule_name[] = "forebay.state";

#define STATE_INTERN(member, text)                                             \
    if ((s->name.member = PyUnicode_InternFromString(text)) == NULL) {         \
        return -1;                                                             \
    }

static int
new_names(struct state *s)
{
    STATE_NAMES(STATE_INTERN)
    s->empty = PyUnicode_InternFromString("");
    s->http = PyUnicode_InternFromString("http");
    s->https = PyUnicode_InternFromString("https");
    return s->empty != NULL && s->http != NULL && s->https != NULL ? 0 : -1;
}

static PyTypeObject *
type_of(PyObject *module, const char *name)
{
    PyObject *type = PyObject_GetAttrString(module, name);

    if (type != NULL && !PyType_Check(type)) {
        PyErr_Format(PyExc_TypeError, "io.%s is no type", name);
        Py_CLEAR(type);
    }
    return (PyTypeObject *)type;
}

static int
find_io_types(struct state *s)
{
    PyObject *io = PyImport_ImportModule("io");

    if (io == NULL) {
        return -1;
    }
    s->file_type = type_of(io, "FileIO");
    s->buffered_reader_type = type_of(io, "BufferedReader");
    s->buffered_random_type = type_of(io, "BufferedRandom");
    s->bytes_io_type = type_of(io, "BytesIO");
    Py_DECREF(io);
    return s->file_type != NULL && s->buffered_reader_type != NULL &&
                   s->buffered_random_type != NULL && s->bytes_io_type != NULL
               ? 0
               : -1;
}

static int
new_objects(struct state *s)
{
    if (new_names(s) < 0 || find_io_types(s) < 0) {
        return -1;
    }
    s->input_type = input_new_type();
    s->start_response_type = start_response_new_type();
    s->write_type = write_new_type();
    s->file_wrapper_type = file_wrapper_new_type();
    s->errors = errors_new_stream();
    s->worker_start = PyList_New(0);
    s->worker_exit = PyList_New(0);
    s->request_timeout = PyErr_NewExceptionWithDoc(
        "forebay.RequestTimeout",
        "The request has run for longer than the pool's request_timeout.",
        PyExc_BaseException, NULL);
    return s->input_type != NULL && s->start_response_type != NULL &&
                   s->write_type != NULL && s->file_wrapper_type != NULL &&
                   s->errors != NULL && s->worker_start != NULL &&
                   s->worker_exit != NULL && s->request_timeout != NULL
               ? 0
               : -1;
}

/* What was made before a failure stays with the interpreter that cannot be
 * used: there is no second attempt worth freeing it for. */
static struct state *
state_new(PyObject *dict_b)
{
    struct state *s = PyMem_Calloc(1, sizeof(*s));
    PyObject *capsule;

    if (s == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    atomic_flag_clear(&s->warned_bytes);
    atomic_flag_clear(&s->warned_reason);
    atomic_flag_clear(&s->warned_hop);
    atomic_flag_clear(&s->warned_head);
    if (new_objects(s) < 0) {
        return NULL;
    }
    capsule = PyCapsule_New(s, capsule_name, NULL);
    if (capsule == NULL ||
        PyDict_SetItemString(dict_b, capsule_name, capsule) < 0) {
        Py_XDECREF(capsule);
        return NULL;
    }
    Py_DECREF(capsule);
    return s;
}

struct state *
state_get(void)
{
    PyObject *dict_b = PyInterpreterState_GetDict(PyInterpreterState_Get());
    PyObject *capsule = NULL, *key;
    struct state *s = NULL;
    int found = -1;

    if (dict_b == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    key = PyUnicode_FromString(capsule_name);
    if (key != NULL) {
        found = py_dict_get(dict_b, key, &capsule);
        Py_DECREF(key);
    }
    if (found > 0) {
        s = PyCapsule_GetPointer(capsule, capsule_name);
        Py_DECREF(capsule);
    } else if (found == 0) {
        s = state_new(dict_b);
    }
    return s;
}
