/* SPDX-License-Identifier: MIT
 *
 * wsgi.input. See input.h. Worker process, GIL held but while waiting for the
 * peer.
 *
 * The methods behave as those of io.BufferedReader on the body, which ends at
 * CONTENT_LENGTH, or where the front end ends it when it gave none. One thread
 * at a time reads; another one waits (gate.h). A body that is cut short raises
 * OSError and never looks like a whole one.
 */
#include "python/input.h"

#include <errno.h>
#include <string.h>

#include "python/call.h"

static const char over[] = "the request is over: its wsgi.input cannot be read";

/* -- bytes object that grows ---------------------------------------------- */

struct grow {
    PyObject *bytes; /* owned; NULL: nothing yet */
    Py_ssize_t len;  /* of its bytes, in use */
};

static Py_ssize_t
grow_room(const struct grow *g)
{
    return g->bytes == NULL ? 0 : PyBytes_GET_SIZE(g->bytes) - g->len;
}

/* Make the object cap bytes large. On failure it is gone. */
static int
grow_to(struct grow *g, Py_ssize_t cap)
{
    if (g->bytes == NULL) {
        g->bytes = PyBytes_FromStringAndSize(NULL, cap);
        return g->bytes != NULL ? 0 : -1;
    }
    return _PyBytes_Resize(&g->bytes, cap);
}

static int
grow_append(struct grow *g, const char *data, Py_ssize_t len)
{
    if (grow_room(g) < len && grow_to(g, (g->len + len) * 2) < 0) {
        return -1;
    }
    memcpy(PyBytes_AS_STRING(g->bytes) + g->len, data, (size_t)len);
    g->len += len;
    return 0;
}

/* The object, cut to what is in use; g is empty afterwards. */
static PyObject *
grow_take(struct grow *g)
{
    PyObject *bytes = g->bytes;

    if (bytes == NULL) {
        return PyBytes_FromStringAndSize(NULL, 0);
    }
    g->bytes = NULL;
    if (PyBytes_GET_SIZE(bytes) != g->len) {
        _PyBytes_Resize(&bytes, g->len);
    }
    return bytes;
}

/* -- the body ------------------------------------------------------------- */

void
input_begin(struct call *c)
{
    struct body *b = &c->body;

    b->left = c->request->content_length >= 0 ? c->request->content_length : -1;
    if (c->request->role == REQUEST_AUTHORIZER) {
        b->left = 0; /* FastCGI 1.0, section 6.3: it gets no body */
    }
    b->ended = b->left == 0;
    b->error = 0;
    b->data = NULL;
    b->len = 0;
    b->owner = NULL;
}

void
input_end(struct call *c)
{
    c->body.len = 0;
    Py_CLEAR(c->body.owner);
}

/* Bytes that can be had without waiting; 0: none. */
static size_t
peek(struct call *c, const char **ret)
{
    struct body *b = &c->body;
    size_t n;

    if (b->len > 0) {
        *ret = b->data;
        return b->len;
    }
    if (b->ended || b->error != 0) {
        return 0;
    }
    n = c->io->ops->body_ready(c->io, ret);
    if (b->left >= 0 && n > (uint64_t)b->left) {
        n = (size_t)b->left;
    }
    return n;
}

static void
count(struct body *b, size_t n)
{
    if (b->left >= 0) {
        b->left -= (int64_t)n;
        b->ended = b->ended || b->left == 0;
    }
}

/* n of the bytes that peek() gave were used. */
static void
take(struct call *c, size_t n)
{
    struct body *b = &c->body;

    if (b->len > 0) {
        b->data += n;
        b->len -= n;
        if (b->len == 0) {
            Py_CLEAR(b->owner);
        }
    } else {
        c->io->ops->body_take(c->io, n);
    }
    count(b, n);
}

/* Raise what stopped the body; the same for every later read. Returns -1. */
static int
raise_error(struct call *c)
{
    const char *text = "the client or the front end went away before the "
                       "request body was complete";
    int status = 400;
    PyObject *args;

    if (c->body.error == -ETIMEDOUT) {
        text = "no byte of the request body came within body_timeout";
        status = 408;
    } else if (c->body.error == -EFBIG) {
        text = "the request body is larger than max_body_size";
        status = 413;
    } else if (c->body.error == -ENOBUFS) {
        text = "the request body was dropped, because the front end took "
               "nothing of the response before all of it was sent";
    }
    args = Py_BuildValue("(is)", -c->body.error, text);
    if (args != NULL) {
        PyErr_SetObject(PyExc_OSError, args);
        Py_DECREF(args);
        call_note_error(c, status);
    }
    return -1;
}

/* Wait for body bytes. > 0: so many are in out (the caller counts them); 0: the
 * body has ended; -1 with an exception set. */
static Py_ssize_t
wait_for(struct call *c, char *out, size_t len)
{
    struct body *b = &c->body;
    PyThreadState *saved;
    ssize_t n;

    while (!b->ended && b->error == 0) {
        saved = PyEval_SaveThread();
        n = c->io->ops->body_read_nogil(c->io, out, len);
        PyEval_RestoreThread(saved);
        if (n > 0) {
            return n;
        }
        if (n == -EINTR) {
            if (PyErr_CheckSignals() < 0) {
                return -1;
            }
        } else if (n == 0 && b->left <= 0) {
            b->ended = true;
        } else {
            b->error = n == 0 ? -ECONNRESET : (int)n;
        }
    }
    return b->error != 0 ? raise_error(c) : 0;
}

/* Read ahead, so that a line can be looked for. 1: peek() has bytes; 0: the
 * body has ended; -1 with an exception set. */
static int
fill(struct call *c)
{
    struct body *b = &c->body;
    size_t want = CALL_AHEAD_BYTES;
    Py_ssize_t n;

    if (c->thread->ahead == NULL) {
        c->thread->ahead = PyMem_Malloc(CALL_AHEAD_BYTES);
        if (c->thread->ahead == NULL) {
            PyErr_NoMemory();
            return -1;
        }
    }
    if (b->left >= 0 && (uint64_t)b->left < want) {
        want = (size_t)b->left;
    }
    n = wait_for(c, c->thread->ahead, want);
    if (n > 0) {
        b->data = c->thread->ahead;
        b->len = (size_t)n;
    }
    return n > 0 ? 1 : (int)n;
}

/* A signal handler raised in the middle of a read: what was read already stays
 * readable. Nothing is read ahead at this point. */
static void
put_back(struct call *c, struct grow *g)
{
    struct body *b = &c->body;

    if (g->len > 0 && b->error == 0 && g->bytes != NULL) {
        b->owner = g->bytes;
        b->data = PyBytes_AS_STRING(g->bytes);
        b->len = (size_t)g->len;
        if (b->left >= 0) {
            b->left += g->len;
        }
        g->bytes = NULL;
    }
    Py_CLEAR(g->bytes);
}

/* -- read ----------------------------------------------------------------- */

/* Room for the next piece of a body of unknown length: twice as much each
 * time. */
static int
make_room(struct grow *g, Py_ssize_t want)
{
    Py_ssize_t cap = g->bytes == NULL ? CALL_AHEAD_BYTES : g->len;

    if (grow_room(g) > 0) {
        return 0;
    }
    cap = cap > want - g->len ? want - g->len : cap;
    return grow_to(g, g->len + cap);
}

/* One step of read(): 1 something was read, 0 the body has ended, -1 with an
 * exception set. */
static int
read_piece(struct call *c, struct grow *g, Py_ssize_t want)
{
    const char *data;
    size_t n = peek(c, &data);
    size_t room = (size_t)grow_room(g);
    Py_ssize_t got;

    if (n > 0) {
        n = n < room ? n : room;
        memcpy(PyBytes_AS_STRING(g->bytes) + g->len, data, n);
        take(c, n);
        g->len += (Py_ssize_t)n;
        return 1;
    }
    got = wait_for(c, PyBytes_AS_STRING(g->bytes) + g->len,
                   (size_t)(want - g->len) < room ? (size_t)(want - g->len)
                                                  : room);
    if (got > 0) {
        count(&c->body, (size_t)got);
        g->len += got;
    }
    return got > 0 ? 1 : (int)got;
}

/* read(n): all that is left when n is negative. With a known length the object
 * is allocated once and read into. */
static PyObject *
read_bytes(struct call *c, Py_ssize_t n)
{
    struct body *b = &c->body;
    struct grow g = { NULL, 0 };
    Py_ssize_t want = n < 0 ? PY_SSIZE_T_MAX : n;
    const char *data;
    size_t ready;
    int rc = 1;

    if (b->left >= 0 && want > b->left) {
        want = (Py_ssize_t)b->left;
    }
    if (want == 0) {
        return PyBytes_FromStringAndSize(NULL, 0);
    }
    ready = peek(c, &data);
    if (ready >= (size_t)want) {
        PyObject *bytes = PyBytes_FromStringAndSize(data, want);

        if (bytes != NULL) {
            take(c, (size_t)want);
        }
        return bytes;
    }
    if (b->left >= 0 && grow_to(&g, want) < 0) {
        return NULL;
    }
    while (g.len < want && rc > 0) {
        rc = make_room(&g, want);
        if (rc == 0) {
            rc = read_piece(c, &g, want);
        }
    }
    if (rc < 0) {
        put_back(c, &g);
        return NULL;
    }
    return grow_take(&g);
}

/* -- lines ---------------------------------------------------------------- */

/* readline(limit): up to and with "\n", or the end of the body, or limit bytes
 * (no limit when it is negative). */
static PyObject *
read_line(struct call *c, Py_ssize_t limit)
{
    struct grow g = { NULL, 0 };
    bool whole = limit == 0;

    while (!whole) {
        const char *data, *end;
        size_t n = peek(c, &data);

        if (n == 0) {
            int rc = fill(c);

            if (rc < 0) {
                put_back(c, &g);
                return NULL;
            }
            if (rc == 0) {
                break;
            }
            continue;
        }
        if (limit >= 0 && n > (size_t)(limit - g.len)) {
            n = (size_t)(limit - g.len);
        }
        end = memchr(data, '\n', n);
        if (end != NULL) {
            n = (size_t)(end - data) + 1;
        }
        whole = end != NULL || g.len + (Py_ssize_t)n == limit;
        if (whole && g.len == 0) {
            g.bytes = PyBytes_FromStringAndSize(data, (Py_ssize_t)n);
            g.len = (Py_ssize_t)n;
        } else if (grow_append(&g, data, (Py_ssize_t)n) < 0) {
            return NULL;
        }
        if (g.bytes == NULL) {
            return NULL;
        }
        take(c, n);
    }
    return grow_take(&g);
}

static PyObject *
read_lines(struct call *c, Py_ssize_t hint)
{
    PyObject *list = PyList_New(0);
    Py_ssize_t total = 0;

    while (list != NULL) {
        PyObject *line = read_line(c, -1);
        Py_ssize_t len = line != NULL ? PyBytes_GET_SIZE(line) : 0;

        if (line == NULL || (len > 0 && PyList_Append(list, line) < 0)) {
            Py_CLEAR(list);
        }
        Py_XDECREF(line);
        total += len;
        if (len == 0 || (hint > 0 && total >= hint)) {
            break;
        }
    }
    return list;
}

/* -- the Python object ---------------------------------------------------- */

/* The one argument of read() and its kin: an integer, None or nothing (-1).
 * More than fits is as much as there is. */
static int
parse_size(const char *method, const char *keyword, PyObject *const *args,
           Py_ssize_t count, PyObject *names, Py_ssize_t *ret)
{
    Py_ssize_t named = names == NULL ? 0 : PyTuple_GET_SIZE(names);
    PyObject *size_b;

    *ret = -1;
    if (count + named > 1) {
        PyErr_Format(PyExc_TypeError,
                     "wsgi.input.%s() takes at most one argument (%zd given)",
                     method, count + named);
        return -1;
    }
    if (named == 1 && PyUnicode_CompareWithASCIIString(
                          PyTuple_GET_ITEM(names, 0), keyword) != 0) {
        PyErr_Format(PyExc_TypeError,
                     "wsgi.input.%s() has no argument named %R", method,
                     PyTuple_GET_ITEM(names, 0));
        return -1;
    }
    size_b = count + named == 1 ? args[0] : Py_None;
    if (size_b == Py_None) {
        return 0;
    }
    *ret = PyNumber_AsSsize_t(size_b, NULL);
    return *ret == -1 && PyErr_Occurred() ? -1 : 0;
}

/* Run one of the functions above for a method call. */
static PyObject *
input_method(PyObject *self, PyObject *(*fn)(struct call *, Py_ssize_t),
             Py_ssize_t size)
{
    struct bound *b = (struct bound *)self;
    struct call *c = bound_enter(b, PyExc_ValueError, over);
    PyObject *result;

    if (c == NULL) {
        return NULL;
    }
    result = fn(c, size);
    gate_leave(b->gate);
    return result;
}

static PyObject *
input_read(PyObject *self, PyObject *const *args, Py_ssize_t count,
           PyObject *names)
{
    Py_ssize_t size;

    if (parse_size("read", "size", args, count, names, &size) < 0) {
        return NULL;
    }
    return input_method(self, read_bytes, size);
}

static PyObject *
input_readline(PyObject *self, PyObject *const *args, Py_ssize_t count,
               PyObject *names)
{
    Py_ssize_t size;

    if (parse_size("readline", "size", args, count, names, &size) < 0) {
        return NULL;
    }
    return input_method(self, read_line, size);
}

static PyObject *
input_readlines(PyObject *self, PyObject *const *args, Py_ssize_t count,
                PyObject *names)
{
    Py_ssize_t hint;

    if (parse_size("readlines", "hint", args, count, names, &hint) < 0) {
        return NULL;
    }
    return input_method(self, read_lines, hint);
}

static PyObject *
input_close(PyObject *Py_UNUSED(self), PyObject *Py_UNUSED(ignored))
{
    Py_RETURN_NONE;
}

static PyObject *
input_iter(PyObject *self)
{
    if (((struct bound *)self)->call == NULL) {
        PyErr_SetString(PyExc_ValueError, over);
        return NULL;
    }
    return Py_NewRef(self);
}

static PyObject *
input_next(PyObject *self)
{
    PyObject *line = input_method(self, read_line, -1);

    if (line != NULL && PyBytes_GET_SIZE(line) == 0) {
        Py_CLEAR(line);
    }
    return line;
}

static PyMethodDef input_methods[] = {
    { "read", (PyCFunction)(void (*)(void))input_read,
      METH_FASTCALL | METH_KEYWORDS,
      "read(size=-1): size bytes of the request body, all that is left when "
      "size is negative or None; b\"\" at the end." },
    { "readline", (PyCFunction)(void (*)(void))input_readline,
      METH_FASTCALL | METH_KEYWORDS,
      "readline(size=-1): the next line with its newline, at most size "
      "bytes." },
    { "readlines", (PyCFunction)(void (*)(void))input_readlines,
      METH_FASTCALL | METH_KEYWORDS,
      "readlines(hint=-1): a list of lines, of hint bytes or a little more." },
    { "close", input_close, METH_NOARGS,
      "Does nothing: the stream belongs to the server." },
    { NULL, NULL, 0, NULL },
};

static PyType_Slot input_slots[] = {
    { Py_tp_dealloc, bound_dealloc },
    { Py_tp_iter, input_iter },
    { Py_tp_iternext, input_next },
    { Py_tp_methods, input_methods },
    { Py_tp_doc, (void *)"wsgi.input: the body of one request." },
    { 0, NULL },
};

static PyType_Spec input_spec = {
    .name = "forebay.Input",
    .basicsize = sizeof(struct bound),
    .flags = Py_TPFLAGS_DEFAULT | PY_TYPE_INTERNAL,
    .slots = input_slots,
};

PyTypeObject *
input_new_type(void)
{
    return (PyTypeObject *)PyType_FromSpec(&input_spec);
}
