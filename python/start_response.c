/* SPDX-License-Identifier: MIT
 *
 * See start_response.h. Worker process, GIL held.
 *
 * Status and headers are checked and turned into bytes at once (the list may
 * change later), but nothing is sent before the first byte of the body or its
 * end (PEP 3333, "The start_response() Callable").
 */
#include "python/start_response.h"

#include "protocol/response.h"
#include "python/call.h"
#include "python/errors.h"

static const char over_start[] =
    "start_response() was called after its request was over";

/* -- text ----------------------------------------------------------------- */

/* Only what str says counts; a subclass whose __str__() says something else is
 * refused, since nobody can know what was meant (wsgi checklist F5). 1, 0, or
 * -1 with an exception set. */
static int
is_plain_text(PyObject *o)
{
    PyObject *text;
    int rc;

    if (PyUnicode_CheckExact(o) || !PyUnicode_Check(o)) {
        return PyUnicode_Check(o);
    }
    if (Py_TYPE(o)->tp_str == PyUnicode_Type.tp_str) {
        return 1;
    }
    text = PyObject_Str(o);
    if (text == NULL) {
        return -1;
    }
    rc = PyUnicode_Compare(text, o) == 0;
    Py_DECREF(text);
    return rc;
}

/* The bytes of a str whose characters are all <= U+00FF: 1; a wider one: 0; -1
 * with an exception set. */
static int
latin1_of(PyObject *text, const char **ret, size_t *ret_len)
{
    if (py_string_ready(text) < 0) {
        return -1;
    }
    if (PyUnicode_KIND(text) != PyUnicode_1BYTE_KIND) {
        return 0;
    }
    *ret = (const char *)PyUnicode_1BYTE_DATA(text);
    *ret_len = (size_t)PyUnicode_GET_LENGTH(text);
    return 1;
}

/* -- status --------------------------------------------------------------- */

static int
take_status(struct call *c, PyObject *status)
{
    const char *text, *why = NULL;
    size_t len;
    int code = 0;
    enum response_check check;

    if (!PyUnicode_Check(status)) {
        PyErr_Format(PyExc_TypeError, "the status must be str, not %.100s",
                     Py_TYPE(status)->tp_name);
        return -1;
    }
    switch (latin1_of(status, &text, &len)) {
    case 0:
        PyErr_Format(PyExc_ValueError,
                     "the status has a character above U+00FF: %.200A", status);
        return -1;
    case -1:
        return -1;
    }
    check = response_check_status(text, len, &code, &why);
    if (check == RESPONSE_BAD) {
        PyErr_Format(PyExc_ValueError, "%s: %.200A", why, status);
        return -1;
    }
    if (check == RESPONSE_NO_REASON &&
        !atomic_flag_test_and_set(&c->state->warned_reason)) {
        errors_log('W',
                   "pool %s: the application gives a status without a reason "
                   "(\"%d\"); PEP 3333 wants \"%d %s\". Said once",
                   c->config->pool, code, code, response_reason(code));
    }
    if (response_put_status(&c->thread->head, text, len) < 0) {
        PyErr_NoMemory();
        return -1;
    }
    c->out.status = code;
    return 0;
}

/* -- headers -------------------------------------------------------------- */

/* The message of an error names the header, so that a developer finds the line
 * (wsgi checklist F15). */
static int
bad_header(PyObject *name, PyObject *value, const char *why)
{
    PyErr_Format(PyExc_ValueError, "header %.100A: %s (value %.100A)", name,
                 why, value);
    return -1;
}

static int
check_text(PyObject *o, const char *what, PyObject *name)
{
    int rc = is_plain_text(o);

    if (rc == 0) {
        PyErr_Format(PyExc_TypeError,
                     "the %s of header %.100A must be str, not %.100s", what,
                     name, Py_TYPE(o)->tp_name);
    }
    return rc > 0 ? 0 : -1;
}

/* RFC 9110, 8.6: one length, however often it is said, and none with 204. */
static int
take_length(struct call *c, PyObject *name, PyObject *value, int64_t length,
            bool *ret_put)
{
    struct output *o = &c->out;

    *ret_put = false;
    if (o->status == 204 || o->length == length) {
        return 0;
    }
    if (o->length >= 0) {
        return bad_header(name, value, "there is another Content-Length");
    }
    o->length = length;
    *ret_put = true;
    return 0;
}

static int
take_hop_by_hop(struct call *c, PyObject *name, PyObject *value)
{
    if (!c->config->drop_hop_by_hop) {
        return bad_header(name, value,
                          "a hop-by-hop header is the front end's to send "
                          "(PEP 3333, \"Other HTTP Features\")");
    }
    if (!atomic_flag_test_and_set(&c->state->warned_hop)) {
        PyObject *shown = PyUnicode_AsASCIIString(name);

        errors_log('W',
                   "pool %s: the application sent the hop-by-hop header "
                   "\"%.100s\"; such headers are dropped. Said once",
                   c->config->pool,
                   shown != NULL ? PyBytes_AS_STRING(shown) : "?");
        PyErr_Clear();
        Py_XDECREF(shown);
    }
    return 0;
}

static int
put_header(struct call *c, PyObject *name, PyObject *value)
{
    const char *name_data, *value_data, *why = NULL;
    size_t name_len, value_len;
    int64_t length = -1;
    bool put = true;
    int rc;

    rc = latin1_of(name, &name_data, &name_len);
    if (rc > 0) {
        rc = latin1_of(value, &value_data, &value_len);
    }
    if (rc <= 0) {
        return rc < 0 ? -1
                      : bad_header(name, value,
                                   "a character is above U+00FF; encode it as "
                                   "RFC 8187 or RFC 2047 say");
    }
    switch (response_check_header(name_data, name_len, value_data, value_len,
                                  &length, &why)) {
    case RESPONSE_OK:
    case RESPONSE_NO_REASON:
        break;
    case RESPONSE_HOP:
        return take_hop_by_hop(c, name, value);
    case RESPONSE_LENGTH:
        if (take_length(c, name, value, length, &put) < 0) {
            return -1;
        }
        break;
    case RESPONSE_BAD:
        return bad_header(name, value, why);
    }
    if (put && response_put_header(&c->thread->head, name_data, name_len,
                                   value_data, value_len) < 0) {
        PyErr_NoMemory();
        return -1;
    }
    return 0;
}

static int
take_header(struct call *c, PyObject *item, Py_ssize_t i)
{
    PyObject *name_b, *value_b;

    if (!PyTuple_Check(item) || PyTuple_GET_SIZE(item) != 2) {
        PyErr_Format(
            PyExc_TypeError,
            "headers[%zd] must be a tuple of two str, not %.100s %.200A", i,
            Py_TYPE(item)->tp_name, item);
        return -1;
    }
    name_b = PyTuple_GET_ITEM(item, 0);
    value_b = PyTuple_GET_ITEM(item, 1);
    if (!PyUnicode_CheckExact(name_b) &&
        check_text(name_b, "name", name_b) < 0) {
        return -1;
    }
    if (!PyUnicode_CheckExact(value_b) &&
        check_text(value_b, "value", name_b) < 0) {
        return -1;
    }
    return put_header(c, name_b, value_b);
}

static int
take_headers(struct call *c, PyObject *headers)
{
    size_t max = c->config->max_response_headers;

    if (!PyList_Check(headers)) {
        PyErr_Format(PyExc_TypeError, "the headers must be a list, not %.100s",
                     Py_TYPE(headers)->tp_name);
        return -1;
    }
    /* An odd str may run code that changes the list: take each item anew. */
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(headers); i++) {
        PyObject *item = Py_NewRef(PyList_GET_ITEM(headers, i));
        int rc = take_header(c, item, i);

        Py_DECREF(item);
        if (rc < 0) {
            return -1;
        }
    }
    if (c->thread->head.len > max) {
        PyErr_Format(PyExc_ValueError,
                     "the response headers are %zu bytes, more than %zu "
                     "(max_response_headers)",
                     c->thread->head.len, max);
        return -1;
    }
    return 0;
}

/* Whoever drops the response has a page of its own for it, and says why only in
 * its own log. */
static void
note_large_head(const struct call *c)
{
    char who[400];

    if (c->out.head_bytes > CALL_HEAD_BYTES &&
        !atomic_flag_test_and_set(&c->state->warned_head)) {
        errors_log('I',
                   "%s: the response has %zu bytes of headers; front ends that "
                   "are not told to take so many answer 500 or 502 instead "
                   "(nginx: fastcgi_buffer_size or scgi_buffer_size, 4096; "
                   "Apache httpd: 8190 in one line). Said once",
                   call_describe(c, who, sizeof(who)), c->out.head_bytes);
    }
}

/* -- exc_info ------------------------------------------------------------- */

/* PEP 3333: "if exc_info is provided, and the HTTP headers have already been
 * sent, start_response must raise an error, and should re-raise using the
 * exc_info tuple". Returns -1. */
static int
raise_again(PyObject *exc_info)
{
    PyObject *type_b = PyTuple_GET_ITEM(exc_info, 0);
    PyObject *value_b = PyTuple_GET_ITEM(exc_info, 1);
    PyObject *traceback_b = PyTuple_GET_ITEM(exc_info, 2);

    if (PyExceptionInstance_Check(value_b)) {
        PyErr_Restore(Py_NewRef(Py_TYPE(value_b)), Py_NewRef(value_b),
                      PyTraceBack_Check(traceback_b) ? Py_NewRef(traceback_b)
                                                     : NULL);
    } else if (PyExceptionClass_Check(type_b)) {
        PyErr_SetObject(type_b, value_b);
    } else {
        PyErr_SetString(PyExc_RuntimeError,
                        "start_response() was called with exc_info after the "
                        "headers were sent");
    }
    return -1;
}

/* Whether this call may set status and headers. */
static int
check_order(struct call *c, PyObject *exc_info)
{
    if (c->out.starting) {
        PyErr_SetString(PyExc_RuntimeError,
                        "start_response() was called from within itself");
        return -1;
    }
    if (exc_info != NULL && exc_info != Py_None) {
        if (!PyTuple_Check(exc_info) || PyTuple_GET_SIZE(exc_info) != 3) {
            PyErr_Format(PyExc_TypeError,
                         "exc_info must be None or a tuple of three as "
                         "sys.exc_info() returns, not %.100s",
                         Py_TYPE(exc_info)->tp_name);
            return -1;
        }
        return c->out.head_sent ? raise_again(exc_info) : 0;
    }
    if (c->out.called) {
        PyErr_SetString(PyExc_AssertionError,
                        "start_response() was called a second time without "
                        "exc_info");
        return -1;
    }
    return 0;
}

/* -- the callable --------------------------------------------------------- */

static PyObject *
start(struct call *c, PyObject *status, PyObject *headers, PyObject *exc_info)
{
    struct output *o = &c->out;

    if (check_order(c, exc_info) < 0) {
        return NULL;
    }
    o->called = true;
    o->starting = true;
    o->head_ready = false;
    o->length = -1;
    o->status = 0;
    buf_clear(&c->thread->head);
    if (take_status(c, status) < 0 || take_headers(c, headers) < 0) {
        o->starting = false;
        o->status = 0;
        o->length = -1;
        return NULL;
    }
    o->starting = false;
    o->bodyless = o->head_only || response_is_bodyless(o->status);
    o->head_ready = true;
    o->head_bytes = c->thread->head.len;
    note_large_head(c);
    return Py_NewRef((PyObject *)c->thread->write);
}

/* Arguments by name are more than PEP 3333 asks for; the names are those of its
 * text. */
static int
parse_arguments(PyObject *const *args, Py_ssize_t count, PyObject *names,
                PyObject *ret_b[3])
{
    static const char *const known[][2] = {
        { "status", "status" },
        { "response_headers", "headers" },
        { "exc_info", "exc_info" },
    };
    Py_ssize_t named = names == NULL ? 0 : PyTuple_GET_SIZE(names);

    for (Py_ssize_t i = 0; i < 3; i++) {
        ret_b[i] = i < count ? args[i] : NULL;
    }
    for (Py_ssize_t i = 0; i < named && count <= 3; i++) {
        PyObject *name_b = PyTuple_GET_ITEM(names, i);
        int k = 0;

        while (k < 3 &&
               PyUnicode_CompareWithASCIIString(name_b, known[k][0]) != 0 &&
               PyUnicode_CompareWithASCIIString(name_b, known[k][1]) != 0) {
            k++;
        }
        if (k == 3 || ret_b[k] != NULL) {
            PyErr_Format(PyExc_TypeError, "start_response() got %s argument %R",
                         k == 3 ? "an unknown" : "twice the", name_b);
            return -1;
        }
        ret_b[k] = args[count + i];
    }
    if (count > 3 || ret_b[0] == NULL || ret_b[1] == NULL) {
        PyErr_Format(PyExc_TypeError,
                     "start_response() takes (status, response_headers[, "
                     "exc_info]), not %zd arguments",
                     count + named);
        return -1;
    }
    return 0;
}

PyObject *
start_response_call(PyObject *self, PyObject *const *args, size_t nargsf,
                    PyObject *names)
{
    struct bound *b = (struct bound *)self;
    PyObject *argument_b[3];
    PyObject *result = NULL;

    if (parse_arguments(args, PyVectorcall_NARGS(nargsf), names, argument_b) <
        0) {
        return NULL;
    }
    PY_OBJECT_LOCK(self);
    if (b->call == NULL) {
        PyErr_SetString(PyExc_RuntimeError, over_start);
    } else {
        result = start(b->call, argument_b[0], argument_b[1], argument_b[2]);
    }
    PY_OBJECT_UNLOCK();
    return result;
}

/* -- the type ------------------------------------------------------------- */

static PyType_Slot start_response_slots[] = {
    { Py_tp_dealloc, bound_dealloc },
    { Py_tp_call, PyVectorcall_Call },
    { Py_tp_members, bound_members },
    { Py_tp_doc, (void *)"start_response(status, response_headers, "
                         "exc_info=None) of one request." },
    { 0, NULL },
};

static PyType_Spec start_response_spec = {
    .name = "forebay.StartResponse",
    .basicsize = sizeof(struct bound),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL | PY_TYPE_INTERNAL,
    .slots = start_response_slots,
};

PyTypeObject *
start_response_new_type(void)
{
    return (PyTypeObject *)PyType_FromSpec(&start_response_spec);
}
