/* SPDX-License-Identifier: MIT
 *
 * The seam between server/ and python/: what the server gives a request
 * (struct wsgi_io), what it gets back (struct wsgi_outcome), and the one call
 * between them. No <Python.h> here, so that the files of the request path that
 * are not Python stay so. Worker process (and the template for warm-up
 * requests).
 */
#ifndef FOREBAY_PYTHON_IO_H
#define FOREBAY_PYTHON_IO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "protocol/request.h"

/* The server's side of one request. All functions return at once or wait with
 * a deadline; those ending in _nogil are called without the GIL. */
struct wsgi_io {
    const struct wsgi_io_ops *ops;
};

struct wsgi_io_ops {
    /* Body bytes that are already here, without waiting: *ret points to them
     * (valid until the next call of any function of this table); 0 when there
     * are none. May be called with or without the GIL. */
    size_t (*body_ready)(struct wsgi_io *io, const char **ret);
    /* n of them were used. */
    void (*body_take)(struct wsgi_io *io, size_t n);

    /* Wait for body bytes and read up to len of them into out. > 0: that many;
     * 0: the body has ended; < 0: -ETIMEDOUT (deadline), -ECONNRESET (the peer
     * went away, or ended the body early, or aborted), -EFBIG (over the pool's
     * body limit), -EINTR (a signal arrived: run handlers, call again). */
    ssize_t (*body_read_nogil)(struct wsgi_io *io, char *out, size_t len);

    /* The same of a filter's FCGI_DATA, once the body has been read to its end
     * or is not wanted any more; 0 where the stream ends, whatever length was
     * announced; -EOPNOTSUPP: not on this connection. NULL: never. */
    ssize_t (*data_read_nogil)(struct wsgi_io *io, char *out, size_t len);

    /* Send bytes of the CGI response (head and body alike), all of them,
     * waiting where necessary. last: nothing follows, the response is complete
     * and may be ended in the same write. 0 or < 0: -EPIPE (the peer is gone),
     * -ETIMEDOUT. After a failure every further call fails. -EINTR is dealt
     * with inside: the server calls interp_check_signals_nogil(). */
    int (*write_nogil)(struct wsgi_io *io, const struct iovec *iov, int iovcnt,
                       bool last);

    /* Send len bytes of a regular file from offset behind the head bytes.
     * Returns bytes of the file that were sent (less than len: the file
     * shrank), or < 0 as write_nogil. last as there, when all were sent. */
    int64_t (*sendfile_nogil)(struct wsgi_io *io, const struct iovec *head,
                              int fd, off_t offset, uint64_t len, bool last);

    /* False once the peer is known to be gone. Cheap; with or without GIL. */
    bool (*connected)(struct wsgi_io *io);

    /* The response is over (complete, broken off or not wanted any more), and
     * work of after_response() follows: let go of the connection now, so that
     * nobody waits for that work. At most once; nothing else is called after
     * it. May be NULL: the peer then waits until wsgi_run_nogil() returns. */
    void (*response_over_nogil)(struct wsgi_io *io);

    /* Text for the front end's error log (fcgi_stderr), lines with their
     * newlines: sent when the response is written next. Takes no time; by the
     * thread that runs the request. NULL: there is no such way. */
    void (*error_text)(struct wsgi_io *io, const char *text, size_t len);
};

/* What one executor thread keeps between requests. */
struct wsgi_thread;

/* What happened, for the log, the scoreboard and the connection. */
struct wsgi_outcome {
    int status;          /* HTTP status that was sent, 0 if none */
    uint64_t body_bytes; /* body bytes given to write_nogil/sendfile_nogil */
    bool complete;       /* everything was sent, last was said */
    bool broken;         /* begun but broken off: close without an end */
    bool peer_gone;      /* the peer went away first */
    bool failed;         /* the application raised or broke PEP 3333 */
    bool no_memory;      /* by MemoryError */
    bool had_after_work; /* after_response callables were run */
    bool exit_worker;    /* SystemExit and the pool wants the worker gone */
};

/* Run the application for a request whose head is complete. Called without the
 * GIL on the thread t belongs to; takes it, gives it up while it waits, returns
 * without it. io->ops->write_nogil(last) is called at most once, and the common
 * small response is exactly one call of it with the GIL released. Afterwards
 * nothing of the request is referenced by live Python objects that could reach
 * io: they are cut off. Never fails: what went wrong is in *ret and in the
 * log. */
void wsgi_run_nogil(struct wsgi_thread *t, struct request *request,
                    struct wsgi_io *io, struct wsgi_outcome *ret);

#endif
