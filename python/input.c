/* SPDX-License-Identifier: MIT
 *
 * wsgi.input, and forebay.data of a filter. See input.h. Worker process, GIL
 * held but while waiting for the peer.
 *
 * The methods behave as those of io.BufferedReader on the body, which ends at
 * CONTENT_LENGTH, or where the front end ends it when it gave none. One thread
 * at a time reads; another one waits (gate.h). A body that is cut short raises
 * OSError and never looks like a whole one. forebay.data is the same on
 * FCGI_DATA, which ends at FCGI_DATA_LENGTH; its first read drops what is left
 * of the body, which the front end sends before it (FastCGI 1.0, section 6.4).
 */
#include "python/input.h"

#include <errno.h>
#include <string.h>

#include "python/call.h"
#include "python/errors.h"

static const char over[] = "the request is over: its wsgi.input cannot be read";

enum { WHO_BYTES = 256 };

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

    b->call = c;
    b->left = c->request->content_length >= 0 ? c->request->content_length : -1;
    if (c->request->role == REQUEST_AUTHORIZER) {
        b->left = 0; /* FastCGI 1.0, section 6.3: it gets no body */
    }
    b->ended = b->left == 0;
    b->error = 0;
    b->data = NULL;
    b->len = 0;
    b->owner = NULL;
    b->dropped = false;
}

/* What was read ahead is not wanted any more. */
static void
forget(struct body *b)
{
    b->len = 0;
    Py_CLEAR(b->owner);
}

void
input_end(struct call *c)
{
    forget(&c->body);
    if (c->request->role == REQUEST_FILTER) {
        forget(&c->data);
    }
}

/* FCGI_DATA_LENGTH, or -1 where it is none. */
static int64_t
data_length(const struct request *r)
{
    size_t len = 0;
    const char *text = request_param(r, "FCGI_DATA_LENGTH", &len);
    int64_t n = 0;

    for (size_t i = 0; i < len; i++) {
        if (text[i] < '0' || text[i] > '9' || n > (INT64_MAX - 9) / 10) {
            return -1;
        }
        n = n * 10 + (text[i] - '0');
    }
    return len > 0 ? n : -1;
}

void
input_begin_data(struct call *c)
{
    int64_t left = data_length(c->request);

    c->data = (struct body){
        .call = c,
        .left = left,
        .ended = left == 0,
    };
}

static bool
is_data(const struct body *b)
{
    return b == &b->call->data;
}

/* Bytes that can be had without waiting; 0: none. */
static size_t
peek(struct body *b, const char **ret)
{
    size_t n;

    if (b->len > 0) {
        *ret = b->data;
        return b->len;
    }
    if (b->ended || b->error != 0 || is_data(b)) {
        return 0;
    }
    n = b->call->io->ops->body_ready(b->call->io, ret);
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
take(struct body *b, size_t n)
{

    if (b->len > 0) {
        b->data += n;
        b->len -= n;
        if (b->len == 0) {
            Py_CLEAR(b->owner);
        }
    } else {
        b->call->io->ops->body_take(b->call->io, n);
    }
    count(b, n);
}

/* The same of forebay.data. */
static const char *
data_error(int error, int *ret_status)
{
    switch (error) {
    case -ETIMEDOUT:
        *ret_status = 408;
        return "no byte of FCGI_DATA came within body_timeout";
    case -EPROTO:
        return "FCGI_DATA ended before FCGI_DATA_LENGTH";
    case -ENOBUFS:
        return "FCGI_DATA was dropped, because the front end took nothing of "
               "the response before all of it was sent";
    case -EOPNOTSUPP:
        *ret_status = 500;
        return "forebay.data cannot be read with engine = libfcgi, nor on a "
               "connection that requests have shared";
    default:
        return "the client or the front end went away before FCGI_DATA was "
               "complete";
    }
}

/* Raise what stopped the body; the same for every later read. Returns -1. */
static int
raise_error(struct body *b)
{
    const char *text = "the client or the front end went away before the "
                       "request body was complete";
    int status = 400;
    PyObject *args;

    if (is_data(b)) {
        text = data_error(b->error, &status);
    } else if (b->error == -ETIMEDOUT) {
        text = "no byte of the request body came within body_timeout";
        status = 408;
    } else if (b->error == -EFBIG) {
        text = "the request body is larger than max_body_size";
        status = 413;
    } else if (b->error == -ENOBUFS) {
        text = "the request body was dropped, because the front end took "
               "nothing of the response before all of it was sent";
    }
    args = Py_BuildValue("(is)", -b->error, text);
    if (args != NULL) {
        PyErr_SetObject(PyExc_OSError, args);
        Py_DECREF(args);
        call_note_error(b->call, status);
    }
    return -1;
}

static ssize_t
read_nogil(struct body *b, char *out, size_t len)
{
    struct wsgi_io *io = b->call->io;

    if (!is_data(b)) {
        return io->ops->body_read_nogil(io, out, len);
    }
    return io->ops->data_read_nogil != NULL
               ? io->ops->data_read_nogil(io, out, len)
               : -EOPNOTSUPP;
}

/* The front end has ended the stream, although bytes of it are missing. */
static int
cut_short(const struct body *b)
{
    char who[WHO_BYTES];

    if (!is_data(b)) {
        return -ECONNRESET;
    }
    errors_log('W', "%s: FCGI_DATA ended %lld bytes before FCGI_DATA_LENGTH",
               call_describe(b->call, who, sizeof(who)), (long long)b->left);
    return -EPROTO;
}

/* Wait for body bytes. > 0: so many are in out (the caller counts them); 0: the
 * body has ended; -1 with an exception set. */
static Py_ssize_t
wait_for(struct body *b, char *out, size_t len)
{
    PyThreadState *saved;
    ssize_t n;

    while (!b->ended && b->error == 0) {
        saved = PyEval_SaveThread();
        n = read_nogil(b, out, len);
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
            b->error = n == 0 ? cut_short(b) : (int)n;
        }
    }
    return b->error != 0 ? raise_error(b) : 0;
}

/* Read ahead, so that a line can be looked for. 1: peek() has bytes; 0: the
 * body has ended; -1 with an exception set. */
static int
fill(struct body *b)
{
    struct wsgi_thread *t = b->call->thread;
    size_t want = CALL_AHEAD_BYTES;
    Py_ssize_t n;

    if (t->ahead == NULL) {
        t->ahead = PyMem_Malloc(CALL_AHEAD_BYTES);
        if (t->ahead == NULL) {
            PyErr_NoMemory();
            return -1;
        }
    }
    if (b->left >= 0 && (uint64_t)b->left < want) {
        want = (size_t)b->left;
    }
    n = wait_for(b, t->ahead, want);
    if (n > 0) {
        b->data = t->ahead;
        b->len = (size_t)n;
    }
    return n > 0 ? 1 : (int)n;
}

/* forebay.data is about to be read: what is left of the body goes. 0, or -1
 * with an exception set (the body was cut short: no FCGI_DATA follows). */
static int
drop_body(struct body *b)
{
    const char *data;
    size_t n;
    int rc = 1;

    while (rc > 0) {
        n = peek(b, &data);
        if (n > 0) {
            b->dropped = true;
            take(b, n);
        } else {
            rc = fill(b);
        }
    }
    return rc;
}

/* A signal handler raised in the middle of a read: what was read already stays
 * readable. Nothing is read ahead at this point. */
static void
put_back(struct body *b, struct grow *g)
{

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
read_piece(struct body *b, struct grow *g, Py_ssize_t want)
{
    const char *data;
    size_t n = peek(b, &data);
    size_t room = (size_t)grow_room(g);
    Py_ssize_t got;

    if (n > 0) {
        n = n < room ? n : room;
        memcpy(PyBytes_AS_STRING(g->bytes) + g->len, data, n);
        take(b, n);
        g->len += (Py_ssize_t)n;
        return 1;
    }
    got = wait_for(b, PyBytes_AS_STRING(g->bytes) + g->len,
                   (size_t)(want - g->len) < room ? (size_t)(want - g->len)
                                                  : room);
    if (got > 0) {
        count(b, (size_t)got);
        g->len += got;
    }
    return got > 0 ? 1 : (int)got;
}

/* read(n): all that is left when n is negative. With a known length the object
 * is allocated once and read into. */
static PyObject *
read_bytes(struct body *b, Py_ssize_t n)
{
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
    ready = peek(b, &data);
    if (ready >= (size_t)want) {
        PyObject *bytes = PyBytes_FromStringAndSize(data, want);

        if (bytes != NULL) {
            take(b, (size_t)want);
        }
        return bytes;
    }
    /* What the front end says of FCGI_DATA is no reason to allocate. */
    if (b->left >= 0 && !is_data(b) && grow_to(&g, want) < 0) {
        return NULL;
    }
    while (g.len < want && rc > 0) {
        rc = make_room(&g, want);
        if (rc == 0) {
            rc = read_piece(b, &g, want);
        }
    }
    if (rc < 0) {
        put_back(b, &g);
        return NULL;
    }
    return grow_take(&g);
}

/* -- lines ---------------------------------------------------------------- */

/* readline(limit): up to and with "\n", or the end of the body, or limit bytes
 * (no limit when it is negative). */
static PyObject *
read_line(struct body *b, Py_ssize_t limit)
{
    struct grow g = { NULL, 0 };
    bool whole = limit == 0;

    while (!whole) {
        const char *data, *end;
        size_t n = peek(b, &data);

        if (n == 0) {
            int rc = fill(b);

            if (rc < 0) {
                put_back(b, &g);
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
        take(b, n);
    }
    return grow_take(&g);
}

static PyObject *
read_lines(struct body *b, Py_ssize_t hint)
{
    PyObject *list = PyList_New(0);
    Py_ssize_t total = 0;

    while (list != NULL) {
        PyObject *line = read_line(b, -1);
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

static PyObject *
read_data(struct call *c, PyObject *(*fn)(struct body *, Py_ssize_t),
          Py_ssize_t size)
{
    return drop_body(&c->body) < 0 ? NULL : fn(&c->data, size);
}

/* A part of the body is missing: the rest must not look like all of it. */
static PyObject *
refuse_dropped(void)
{
    PyErr_SetString(PyExc_OSError, "the rest of the request body was dropped "
                                   "when forebay.data was read");
    return NULL;
}

/* Run one of the functions above for a method call. */
static PyObject *
input_method(PyObject *self, PyObject *(*fn)(struct body *, Py_ssize_t),
             Py_ssize_t size)
{
    struct bound *b = (struct bound *)self;
    struct call *c = bound_enter(b, PyExc_ValueError, over);
    PyObject *result;

    if (c == NULL) {
        return NULL;
    }
    if (b == c->thread->data) {
        result = read_data(c, fn, size);
    } else {
        result = c->body.dropped ? refuse_dropped() : fn(&c->body, size);
    }
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
