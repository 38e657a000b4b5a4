/* SPDX-License-Identifier: MIT
 *
 * write(), which start_response() returns (PEP 3333, "The write() Callable").
 * See start_response.h. Worker process, GIL held.
 */
#include <errno.h>
#include <stddef.h>

#include "python/call.h"
#include "python/start_response.h"

static const char over[] = "write() was called after its request was over";

/* PEP 3333: write() raises once the client is gone, so that the application
 * stops. Returns NULL. */
static PyObject *
raise_write_error(struct call *c)
{
    int error = -c->out.error;
    const char *text = "the client or the front end went away while the "
                       "response was sent";
    PyObject *args;

    if (error == ETIMEDOUT) {
        text = "the response was not taken within write_timeout";
    } else if (error != EPIPE) {
        text = "the response cannot be sent";
    }
    args = Py_BuildValue("(is)", error, text);
    if (args != NULL) {
        PyErr_SetObject(PyExc_OSError, args);
        Py_DECREF(args);
        call_note_error(c, 0);
    }
    return NULL;
}

/* wsgi checklist H5: what fits is sent, and the application learns of the
 * rest. */
static PyObject *
write_inside(struct call *c, PyObject *data)
{
    struct output *o = &c->out;
    size_t len = (size_t)PyBytes_GET_SIZE(data);
    uint64_t room = UINT64_MAX;

    if (output_need_head(c) < 0) {
        return NULL;
    }
    if (o->bodyless) {
        room = UINT64_MAX;
    } else if (o->length >= 0) {
        room = (uint64_t)o->length - o->sent;
    } else if (o->done) {
        room = 0;
    }
    o->wrote = true;
    if (room > 0 &&
        output_send(c, PyBytes_AS_STRING(data), len < room ? len : room) < 0) {
        return raise_write_error(c);
    }
    if (call_raise_interrupt(c) < 0) {
        return NULL;
    }
    if (len > room) {
        PyErr_Format(PyExc_ValueError,
                     "write() of %zu bytes when only %llu of Content-Length "
                     "%lld were left",
                     len, (unsigned long long)room, (long long)o->length);
        return NULL;
    }
    Py_RETURN_NONE;
}

PyObject *
write_call(PyObject *self, PyObject *const *args, size_t nargsf,
           PyObject *names)
{
    struct bound *b = (struct bound *)self;
    struct call *c;
    PyObject *result;

    if (PyVectorcall_NARGS(nargsf) != 1 ||
        (names != NULL && PyTuple_GET_SIZE(names) > 0)) {
        PyErr_SetString(PyExc_TypeError, "write() takes one argument");
        return NULL;
    }
    if (!PyBytes_Check(args[0])) {
        PyErr_Format(PyExc_TypeError, "write() takes bytes, not %.100s",
                     Py_TYPE(args[0])->tp_name);
        return NULL;
    }
    c = bound_enter(b, PyExc_RuntimeError, over);
    if (c == NULL) {
        return NULL;
    }
    if (PyBytes_GET_SIZE(args[0]) == 0) {
        result = Py_NewRef(Py_None); /* sends nothing, not even the head */
    } else {
        result = write_inside(c, args[0]);
    }
    gate_leave(b->gate);
    return result;
}

/* -- the type ------------------------------------------------------------- */

static PyType_Slot write_slots[] = {
    { Py_tp_dealloc, bound_dealloc },
    { Py_tp_call, PyVectorcall_Call },
    { Py_tp_members, bound_members },
    { Py_tp_doc, (void *)"write(data) of one request: send bytes at once." },
    { 0, NULL },
};

static PyType_Spec write_spec = {
    .name = "forebay.Write",
    .basicsize = sizeof(struct bound),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL | PY_TYPE_INTERNAL,
    .slots = write_slots,
};

PyTypeObject *
write_new_type(void)
{
    return (PyTypeObject *)PyType_FromSpec(&write_spec);
}
