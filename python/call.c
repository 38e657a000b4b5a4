/* SPDX-License-Identifier: MIT
 *
 * See call.h: objects bound to a request, and how a request is named in the
 * log. Worker process, GIL held.
 */
#include "python/call.h"

#include <stddef.h>
#include <stdio.h>

int
bound_attach(struct bound **slot, PyTypeObject *type, struct call *c,
             vectorcallfunc vectorcall)
{
    struct bound *b = *slot;

    if (b == NULL) {
        b = (struct bound *)type->tp_alloc(type, 0);
        if (b == NULL) {
            return -1;
        }
        b->vectorcall = vectorcall;
        b->gate = &c->thread->gate;
        *slot = b;
    }
    b->call = c;
    return 0;
}

void
bound_cut(struct bound **slot)
{
    struct bound *b = *slot;

    if (b == NULL) {
        return;
    }
    PY_OBJECT_LOCK((PyObject *)b);
    b->call = NULL;
    PY_OBJECT_UNLOCK();
    if (!py_is_ours_alone((PyObject *)b)) {
        *slot = NULL;
        Py_DECREF(b);
    }
}

void
bound_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);

    type->tp_free(self);
    Py_DECREF(type);
}

/* How a type made from a spec says where its vectorcall function stands. */
PyMemberDef bound_members[] = {
    { "__vectorcalloffset__", T_PYSSIZET, offsetof(struct bound, vectorcall),
      READONLY, NULL },
    { NULL, 0, 0, 0, NULL },
};

void
call_note_error(struct call *c, int status)
{
    PyObject *error = py_take_exception();

    Py_XSETREF(c->io_error, Py_XNewRef(error));
    c->io_status = status;
    if (error != NULL) {
        py_set_exception(error);
    }
}

/* Whoever is inside the gate is talking to the peer just now. */
bool
call_is_connected(struct call *c)
{
    bool connected;

    if (c->out.error != 0 || c->over) {
        return false;
    }
    if (!gate_try(&c->thread->gate)) {
        return true;
    }
    connected = c->io->ops->connected(c->io);
    gate_leave(&c->thread->gate);
    return connected;
}

bool
call_keep_interrupt(void)
{
    struct call *c = call_current();

    if (c == NULL || c->interrupt != NULL) {
        return false;
    }
    c->interrupt = py_take_exception();
    return true;
}

int
call_raise_interrupt(struct call *c)
{
    PyObject *exception = c->interrupt;

    if (exception == NULL) {
        return 0;
    }
    c->interrupt = NULL;
    py_set_exception(exception);
    return -1;
}

/* "GET /path", escaped and cut. */
static void
request_line(const struct request *r, char *out, size_t size)
{
    static const char *const paths[] = { "REQUEST_URI", "PATH_INFO",
                                         "SCRIPT_NAME", "DOCUMENT_URI" };
    const char *method, *path = NULL;
    size_t method_len = 0, path_len = 0, n;

    method = request_param(r, "REQUEST_METHOD", &method_len);
    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
        path = request_param(r, paths[i], &path_len);
        if (path != NULL && path_len > 0) {
            break;
        }
    }
    if (method == NULL || method_len == 0) {
        method = "-";
        method_len = 1;
    }
    if (path == NULL || path_len == 0) {
        path = "-";
        path_len = 1;
    }
    n = request_escape(out, size / 4, method, method_len);
    n += (size_t)snprintf(out + n, size - n, " ");
    request_escape(out + n, size - n, path, path_len);
}

char *
call_describe(const struct call *c, char *out, size_t size)
{
    const char *pool = c->config->pool != NULL ? c->config->pool : "-";
    char line[256];

    request_line(c->request, line, sizeof(line));
    snprintf(out, size, "pool %.64s: %s", pool, line);
    return out;
}
