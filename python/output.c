/* SPDX-License-Identifier: MIT
 *
 * See output.h. Worker process.
 */
#include "python/output.h"

#include <errno.h>
#include <string.h>
#include <sys/uio.h>

#include "protocol/response.h"
#include "python/call.h"
#include "python/errors.h"
#include "python/offload.h"

/* Chunks that are handed to the server at once. */
enum { BATCH = 256 };

/* -- head ----------------------------------------------------------------- */

int
output_need_head(struct call *c)
{
    if (c->out.head_ready) {
        return 0;
    }
    PyErr_SetString(PyExc_AssertionError,
                    c->out.called
                        ? "start_response failed, and the application "
                          "returned a body all the same"
                        : "start_response was not called before the first "
                          "byte of the body");
    return -1;
}

/* Finish the head. length: the Content-Length to add, or -1. */
static int
seal(struct call *c, int64_t length)
{
    struct buf *head = &c->thread->head;

    if ((length >= 0 && response_put_length(head, (uint64_t)length) < 0) ||
        response_put_end(head) < 0) {
        PyErr_NoMemory();
        return -1;
    }
    return 0;
}

/* The body is whole and has len bytes: tell so when the application did not
 * (wsgi checklist H1). A HEAD's body may have been left out by the
 * application, so nothing is said about it. */
static int
seal_whole(struct call *c, uint64_t len)
{
    struct output *o = &c->out;

    if (o->bodyless || o->length >= 0) {
        return seal(c, -1);
    }
    o->length = (int64_t)len;
    return seal(c, o->length);
}

static int
refuse_empty(struct call *c)
{
    PyErr_Format(PyExc_ValueError,
                 "Content-Length is %lld, but the body is empty",
                 (long long)c->out.length);
    return -1;
}

bool
output_is_short(const struct output *o)
{
    return o->head_sent && !o->done && !o->bodyless && o->length >= 0 &&
           o->sent < (uint64_t)o->length;
}

/* -- bytes ---------------------------------------------------------------- */

static void
log_surplus(const struct call *c, uint64_t surplus)
{
    char who[400];

    errors_log('W',
               "%s: the application sent %llu bytes more than its "
               "Content-Length of %lld; they were dropped",
               call_describe(c, who, sizeof(who)), (unsigned long long)surplus,
               (long long)c->out.length);
}

/* How many of len body bytes may be sent, and whether they are the last. */
static uint64_t
clip(struct call *c, uint64_t len, bool *ret_last)
{
    struct output *o = &c->out;
    uint64_t room;

    *ret_last = o->bodyless;
    if (o->bodyless) {
        return 0;
    }
    if (o->length < 0) {
        return len;
    }
    room = (uint64_t)o->length - o->sent;
    *ret_last = len >= room;
    if (len > room) {
        log_surplus(c, len - room);
        return room;
    }
    return len;
}

/* A write of len body bytes came back. */
static int
note_write(struct call *c, int rc, uint64_t len, bool last)
{
    if (rc < 0) {
        c->out.error = rc;
        return rc;
    }
    c->out.sent += len;
    c->out.done = last;
    return 0;
}

static int
write_gil(struct call *c, const struct iovec *iov, int n, uint64_t len,
          bool last)
{
    PyThreadState *saved;
    int rc;

    c->out.head_sent = true;
    saved = PyEval_SaveThread();
    rc = c->io->ops->write_nogil(c->io, iov, n, last);
    PyEval_RestoreThread(saved);
    return note_write(c, rc, len, last);
}

int
output_send(struct call *c, const char *data, size_t len)
{
    struct output *o = &c->out;
    struct iovec iov[2];
    int n = 0;
    bool last;

    if (o->error != 0 || o->done) {
        return o->error;
    }
    if (!o->head_sent) {
        if (seal(c, -1) < 0) {
            PyErr_Clear();
            o->error = -ENOMEM;
            return o->error;
        }
        iov[n++] = (struct iovec){ c->thread->head.data, c->thread->head.len };
    }
    len = clip(c, len, &last);
    if (len > 0) {
        iov[n++] = (struct iovec){ (void *)data, len };
    }
    return write_gil(c, iov, n, len, last);
}

/* The executor is never inside the gate here, so entering it only waits. */
static void
enter(struct call *c)
{
    if (gate_enter(&c->thread->gate) < 0) {
        Py_FatalError("forebay: the executor is inside its own gate");
    }
}

int
output_chunk(struct call *c, PyObject *bytes)
{
    int rc;

    enter(c);
    rc = output_send(c, PyBytes_AS_STRING(bytes),
                     (size_t)PyBytes_GET_SIZE(bytes));
    gate_leave(&c->thread->gate);
    return rc;
}

/* -- whole bodies --------------------------------------------------------- */

/* The items' bytes together, or -1 with an exception set. */
static int64_t
total_of(PyObject *sequence)
{
    PyObject **item = PySequence_Fast_ITEMS(sequence);
    Py_ssize_t n = PySequence_Fast_GET_SIZE(sequence);
    int64_t total = 0;

    for (Py_ssize_t i = 0; i < n; i++) {
        if (!PyBytes_Check(item[i])) {
            PyErr_Format(PyExc_TypeError,
                         "item %zd of the response is of type %.100s; PEP "
                         "3333 wants bytes",
                         i, Py_TYPE(item[i])->tp_name);
            return -1;
        }
        total += PyBytes_GET_SIZE(item[i]);
    }
    return total;
}

/* Append len bytes of the items to the head, to be sent in one piece. */
static int
gather(struct call *c, PyObject *sequence, uint64_t len)
{
    PyObject **item = PySequence_Fast_ITEMS(sequence);
    struct buf *head = &c->thread->head;
    struct output *o = &c->out;
    uint64_t sent = len;

    if (buf_reserve(head, len) < 0) {
        PyErr_NoMemory();
        return -1;
    }
    for (Py_ssize_t i = 0; len > 0; i++) {
        size_t n = (size_t)PyBytes_GET_SIZE(item[i]);

        n = n < len ? n : (size_t)len;
        memcpy(head->data + head->len, PyBytes_AS_STRING(item[i]), n);
        head->len += n;
        len -= n;
    }
    o->sent += sent;
    o->head_sent = true;
    o->done = true;
    o->pending = true;
    return 0;
}

/* Send the head, if it is to be, and len bytes of the items. Their references
 * are held by a tuple that nobody can change. */
static int
send_nogil(struct call *c, PyObject *const *item, bool head, uint64_t len,
           bool last)
{
    struct iovec iov[BATCH];
    int n = 0, rc;

    if (head) {
        iov[n++] = (struct iovec){ c->thread->head.data, c->thread->head.len };
    }
    for (;;) {
        while (len > 0 && n < BATCH) {
            size_t size = (size_t)PyBytes_GET_SIZE(*item);

            size = size < len ? size : (size_t)len;
            if (size > 0) {
                iov[n++] = (struct iovec){ PyBytes_AS_STRING(*item), size };
            }
            len -= size;
            item++;
        }
        rc = c->io->ops->write_nogil(c->io, iov, n, last && len == 0);
        if (rc < 0 || len == 0) {
            return rc;
        }
        n = 0;
    }
}

static int
send_items(struct call *c, PyObject *sequence, uint64_t len, bool last)
{
    PyObject *tuple = PySequence_Tuple(sequence);
    bool head = !c->out.head_sent;
    PyThreadState *saved;
    int rc;

    if (tuple == NULL) {
        return -1;
    }
    c->out.head_sent = true;
    saved = PyEval_SaveThread();
    rc = send_nogil(c, PySequence_Fast_ITEMS(tuple), head, len, last);
    PyEval_RestoreThread(saved);
    note_write(c, rc, len, last);
    Py_DECREF(tuple);
    return 0;
}

static int
items_inside(struct call *c, PyObject *sequence)
{
    struct output *o = &c->out;
    int64_t total = total_of(sequence);
    uint64_t len;
    bool last;

    if (total < 0 || output_need_head(c) < 0) {
        return -1;
    }
    if (o->done || o->error != 0) {
        return 0;
    }
    if (!o->head_sent) {
        if (total == 0 && o->length > 0 && !o->bodyless) {
            return refuse_empty(c);
        }
        if (seal_whole(c, (uint64_t)total) < 0) {
            return -1;
        }
    }
    len = clip(c, (uint64_t)total, &last);
    last = last || o->length < 0;
    if (last && len <= CALL_GATHER_BYTES) {
        if (o->head_sent) {
            buf_clear(&c->thread->head);
        }
        return gather(c, sequence, len);
    }
    return send_items(c, sequence, len, last);
}

int
output_items(struct call *c, PyObject *sequence)
{
    int rc;

    enter(c);
    rc = items_inside(c, sequence);
    gate_leave(&c->thread->gate);
    return rc;
}

/* The front end sends the file: a whole one, in an ordinary answer. */
static bool
offloads(struct call *c, int fd, off_t offset, uint64_t len)
{
    const struct output *o = &c->out;

    return c->config->sendfile_header != NULL && offset == 0 &&
           o->status == 200 && !o->bodyless &&
           (o->length < 0 || (uint64_t)o->length == len) &&
           offload_file(c->config, &c->thread->head, fd, len);
}

static int
send_offloaded(struct call *c)
{
    struct buf *head = &c->thread->head;
    struct iovec iov;

    c->out.length = 0;
    if (seal(c, -1) < 0) {
        return -1;
    }
    iov = (struct iovec){ head->data, head->len };
    write_gil(c, &iov, 1, 0, true);
    return 0;
}

static int
file_inside(struct call *c, int fd, off_t offset, uint64_t len)
{
    struct output *o = &c->out;
    struct iovec head = { NULL, 0 };
    PyThreadState *saved;
    int64_t n;
    bool last;

    if (output_need_head(c) < 0) {
        return -1;
    }
    if (o->done || o->error != 0) {
        return 0;
    }
    if (o->length >= 0 && len > (uint64_t)o->length - o->sent) {
        len = (uint64_t)o->length - o->sent; /* a range of the file */
    }
    if (!o->head_sent && offloads(c, fd, offset, len)) {
        return send_offloaded(c);
    }
    if (!o->head_sent) {
        if (seal_whole(c, len) < 0) {
            return -1;
        }
        head = (struct iovec){ c->thread->head.data, c->thread->head.len };
    }
    len = clip(c, len, &last);
    last = last || o->length < 0;
    if (len == 0) {
        write_gil(c, &head, head.iov_len > 0, 0, last);
        return 0;
    }
    o->head_sent = true;
    saved = PyEval_SaveThread();
    n = c->io->ops->sendfile_nogil(c->io, &head, fd, offset, len, last);
    PyEval_RestoreThread(saved);
    if (n >= 0 && (uint64_t)n < len) {
        o->sent += (uint64_t)n;
        o->error = -EIO;
        return 0;
    }
    note_write(c, n < 0 ? (int)n : 0, len, last);
    return 0;
}

int
output_file(struct call *c, int fd, off_t offset, uint64_t len)
{
    int rc;

    enter(c);
    rc = file_inside(c, fd, offset, len);
    gate_leave(&c->thread->gate);
    return rc;
}

/* -- the end -------------------------------------------------------------- */

static int
end_inside(struct call *c)
{
    struct output *o = &c->out;
    struct iovec iov = { NULL, 0 };
    int n = 0;

    if (o->done || o->error != 0) {
        return 0;
    }
    if (output_need_head(c) < 0) {
        return -1;
    }
    if (!o->head_sent) {
        if (o->length > 0 && !o->bodyless) {
            return refuse_empty(c);
        }
        if (seal_whole(c, 0) < 0) {
            return -1;
        }
        iov = (struct iovec){ c->thread->head.data, c->thread->head.len };
        n = 1;
    } else if (output_is_short(o)) {
        return 0;
    }
    write_gil(c, &iov, n, 0, true);
    return 0;
}

int
output_end(struct call *c)
{
    int rc;

    enter(c);
    rc = end_inside(c);
    gate_leave(&c->thread->gate);
    return rc;
}

void
output_simple(struct call *c, int status)
{
    struct output *o = &c->out;
    struct buf *head = &c->thread->head;
    const char *body;

    o->status = status;
    o->head_sent = true;
    if (response_simple(head, status, o->head_only) < 0) {
        o->error = -ENOMEM;
        return;
    }
    body = memmem(head->data, head->len, "\r\n\r\n", 4);
    if (body != NULL) {
        o->sent = (uint64_t)(head->data + head->len - body) - 4;
    }
    o->done = true;
    o->pending = true;
}

void
output_pending_nogil(struct call *c)
{
    struct output *o = &c->out;
    struct iovec iov = { c->thread->head.data, c->thread->head.len };
    int rc;

    o->pending = false;
    rc = c->io->ops->write_nogil(c->io, &iov, 1, true);
    if (rc < 0) {
        o->error = rc;
        o->done = false;
        o->sent = 0;
    }
}

void
output_pending(struct call *c)
{
    PyThreadState *saved;

    enter(c);
    saved = PyEval_SaveThread();
    output_pending_nogil(c);
    PyEval_RestoreThread(saved);
    gate_leave(&c->thread->gate);
}
