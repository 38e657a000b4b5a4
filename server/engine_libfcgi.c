/* SPDX-License-Identifier: MIT
 *
 * See engine_libfcgi.h.
 */
#include "server/engine_libfcgi.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <fcgiapp.h>

#include "protocol/response.h"
#include "python/interp.h"
#include "server/access_log.h"
#include "server/allow.h"
#include "server/channel.h"
#include "server/clock.h"
#include "server/log.h"
#include "server/lookout.h"

struct fcgx_io {
    struct wsgi_io io;
    FCGX_Request *fcgx;
    struct request *request;
    bool failed;   /* a write did not succeed */
    bool finished; /* the connection has been let go */
};

static struct fcgx_io *
of(struct wsgi_io *io)
{
    return (struct fcgx_io *)io;
}

/* -- the seam to python/ ----------------------------------------------------
 */

static size_t
left(const struct request *q)
{
    return q->content_length >= 0
               ? (size_t)((uint64_t)q->content_length - q->body_given)
               : SIZE_MAX;
}

static size_t
body_ready(struct wsgi_io *io, const char **ret)
{
    FCGX_Stream *in = of(io)->fcgx->in;
    size_t n = (size_t)(in->stop - in->rdNext);
    size_t most = left(of(io)->request);

    *ret = (const char *)in->rdNext;
    return n < most ? n : most;
}

static void
body_take(struct wsgi_io *io, size_t n)
{
    of(io)->fcgx->in->rdNext += n;
    of(io)->request->body_given += n;
}

static ssize_t
body_read_nogil(struct wsgi_io *io, char *out, size_t len)
{
    struct request *q = of(io)->request;
    FCGX_Stream *in = of(io)->fcgx->in;
    size_t most = left(q);
    int n;

    len = len < most ? len : most;
    if (len == 0) {
        return 0;
    }
    len = len < INT32_MAX ? len : INT32_MAX;
    n = FCGX_GetStr(out, (int)len, in);
    if (n > 0) {
        q->body_given += (uint64_t)n;
        return n;
    }
    if (FCGX_GetError(in) != 0 || q->content_length > 0) {
        return -ECONNRESET; /* ended before CONTENT_LENGTH */
    }
    return 0;
}

static int
write_nogil(struct wsgi_io *io, const struct iovec *iov, int count, bool last)
{
    FCGX_Stream *out = of(io)->fcgx->out;

    for (int i = 0; i < count; i++) {
        const char *p = iov[i].iov_base;
        size_t n = iov[i].iov_len;

        while (n > 0) {
            int piece = n < INT32_MAX ? (int)n : INT32_MAX;

            if (FCGX_PutStr(p, piece, out) != piece) {
                of(io)->failed = true;
                return -EPIPE;
            }
            p += piece;
            n -= (size_t)piece;
        }
    }
    if (!last && count > 0 && FCGX_FFlush(out) != 0) {
        return -EPIPE;
    }
    return FCGX_GetError(out) != 0 ? -EPIPE : 0;
}

static int64_t
sendfile_nogil(struct wsgi_io *io, const struct iovec *head, int fd,
               off_t offset, uint64_t len, bool last)
{
    uint64_t sent = 0;
    char bytes[16384];
    int rc = head != NULL ? write_nogil(io, head, 1, false) : 0;

    while (rc == 0 && sent < len) {
        size_t want =
            len - sent < sizeof(bytes) ? (size_t)(len - sent) : sizeof(bytes);
        ssize_t n = pread(fd, bytes, want, offset + (off_t)sent);
        struct iovec iov = { bytes, n > 0 ? (size_t)n : 0 };

        if (n <= 0) {
            return (int64_t)sent;
        }
        rc = write_nogil(io, &iov, 1, false);
        sent += (uint64_t)n;
    }
    if (rc == 0 && last) {
        rc = write_nogil(io, NULL, 0, true);
    }
    return rc == 0 ? (int64_t)sent : rc;
}

static bool
connected(struct wsgi_io *io)
{
    struct pollfd p = { .fd = of(io)->fcgx->ipcFd, .events = POLLRDHUP };

    return !of(io)->finished && poll(&p, 1, 0) == 0;
}

/* The end of a request. On a kept connection libfcgi leaves the rest of a body
 * for the next request to trip over; the answer goes out before that is waited
 * for. */
static void
finish(FCGX_Request *f)
{
    char bytes[16384];

    if (f->keepConnection) {
        FCGX_FFlush(f->out);
        while (FCGX_GetStr(bytes, sizeof(bytes), f->in) > 0) {
        }
    }
    FCGX_Finish_r(f);
}

/* Work after the response follows: the peer must not wait for it. */
static void
response_over_nogil(struct wsgi_io *io)
{
    FCGX_Request *f = of(io)->fcgx;

    if (!of(io)->failed) {
        f->keepConnection = 0;
        finish(f);
        of(io)->finished = true;
    }
}

static const struct wsgi_io_ops ops = {
    .body_ready = body_ready,
    .body_take = body_take,
    .body_read_nogil = body_read_nogil,
    .write_nogil = write_nogil,
    .sendfile_nogil = sendfile_nogil,
    .connected = connected,
    .response_over_nogil = response_over_nogil,
};

/* -- a request --------------------------------------------------------------
 */

/* The parameters that libfcgi has parsed, "NAME=VALUE" each. */
static int
fill(struct request *q, const struct request_limits *limits, FCGX_Request *f)
{
    q->protocol = REQUEST_FCGI;
    q->role = (enum request_role)f->role;
    q->id = (uint16_t)f->requestId;
    q->keep_conn = f->keepConnection != 0;
    q->active = q->head_done = true;
    for (char **p = f->envp; *p != NULL; p++) {
        char *value = strchr(*p, '=');
        uint32_t at = (uint32_t)q->params.len;
        uint32_t name_len, value_len;

        if (value == NULL) {
            continue;
        }
        name_len = (uint32_t)(value - *p);
        value_len = (uint32_t)strlen(value + 1);
        if (buf_append(&q->params, *p, name_len) != 0 ||
            buf_append(&q->params, value + 1, value_len) != 0) {
            request_refuse(q, 431, "parameters of more than %zu bytes",
                           limits->params_bytes);
            return 0;
        }
        if (request_add_param(q, limits, at, name_len, at + name_len,
                              value_len) != 0 &&
            q->refuse_status == 0) {
            return -1;
        }
    }
    if (limits->body_bytes > 0 && q->content_length >= 0 &&
        (uint64_t)q->content_length > limits->body_bytes) {
        request_refuse(q, 413, "a body of %lld bytes is over max_body_size",
                       (long long)q->content_length);
    }
    return 0;
}

static void
refuse(struct executor *x, struct fcgx_io *io)
{
    struct iovec iov;

    log_warnx("%s: answered %d, not run", io->request->refuse_why,
              io->request->refuse_status);
    if (response_simple(&x->scratch, io->request->refuse_status, false) == 0) {
        iov = (struct iovec){ x->scratch.data, x->scratch.len };
        write_nogil(&io->io, &iov, 1, true);
    }
}

static void
show_begin(struct executor *x, const struct request *q, uint64_t begun_ns)
{
    size_t method_len = 0, uri_len = 0;
    const char *method = request_param(q, "REQUEST_METHOD", &method_len);
    const char *uri = request_param(q, "REQUEST_URI", &uri_len);

    scoreboard_begin(x->score, method != NULL ? method : "", method_len,
                     uri != NULL ? uri : "", uri_len, begun_ns);
}

static void
note_access(struct executor *x, const struct request *q,
            const struct wsgi_outcome *outcome, uint64_t begun_ns)
{
    struct access_entry e = {
        .request = q,
        .status = q->refuse_status != 0 ? q->refuse_status : outcome->status,
        .body_bytes = outcome->body_bytes,
        .client_closed = outcome->peer_gone,
    };

    access_log_write(x->worker->access, &e, begun_ns, clock_now_ns());
}

static void
serve(struct executor *x, struct request *q,
      const struct request_limits *limits, FCGX_Request *f)
{
    struct fcgx_io io = { .io = { &ops }, .fcgx = f, .request = q };
    struct wsgi_outcome outcome = { 0 };
    uint64_t begun_ns;

    request_clear(q);
    if (fill(q, limits, f) != 0) {
        FCGX_Free(f, 1);
        return;
    }
    begun_ns = clock_now_ns();
    show_begin(x, q, begun_ns);
    lookout_begin(x->worker);
    if (q->refuse_status != 0) {
        refuse(x, &io);
    } else {
        wsgi_run_nogil(x->wsgi, q, &io.io, &outcome);
    }
    if (x->worker->access != NULL) {
        note_access(x, q, &outcome, begun_ns);
    }
    scoreboard_end(x->score, outcome.failed);
    if (outcome.exit_worker) {
        executor_stop(x->worker);
    }
    /* A broken response is never ended as if it were whole. */
    if (outcome.broken || outcome.peer_gone) {
        FCGX_Free(f, 1);
    } else if (!io.finished) {
        finish(f);
    }
}

/* -- the loop ---------------------------------------------------------------
 */

/* Wait for a connection, for the next request on the kept one, or for the order
 * to stop. The listener that is ready, or -1 to stop, or -2 to look again. */
static int
wait_for_work(struct executor *x, int kept_fd)
{
    struct worker *w = x->worker;
    struct pollfd p[EXECUTOR_MAX_LISTENERS + 3];
    nfds_t n = 0, first;

    p[n++] = (struct pollfd){ w->wake_fd, POLLIN, 0 };
    p[n++] = (struct pollfd){ x->main_thread ? w->channel : -1, POLLIN, 0 };
    p[n++] = (struct pollfd){ x->main_thread ? w->signal_fd : -1, POLLIN, 0 };
    first = n;
    if (kept_fd >= 0) {
        p[n++] = (struct pollfd){ kept_fd, POLLIN, 0 };
    } else {
        for (unsigned i = 0; i < w->listen_count; i++) {
            p[n++] = (struct pollfd){ w->listen_fd[i], POLLIN, 0 };
        }
    }
    if (poll(p, n, -1) < 0) {
        if (errno == EINTR && x->main_thread) {
            interp_check_signals_nogil();
        }
        return -2;
    }
    if (p[2].revents != 0) {
        interp_check_signals_nogil();
    }
    if (p[0].revents != 0) {
        return -1;
    }
    if (p[1].revents != 0) {
        struct channel_message m;
        int fd = -1;
        int rc = channel_receive(w->channel, &m, &fd);

        if (fd >= 0) {
            close(fd);
        }
        if (rc != -EAGAIN && (rc <= 0 || m.type == CHANNEL_STOP)) {
            executor_stop(w);
            return -1;
        }
        return -2;
    }
    for (nfds_t i = first; i < n; i++) {
        if (p[i].revents != 0) {
            return kept_fd >= 0 ? 0 : (int)(i - first);
        }
    }
    return -2;
}

void
engine_libfcgi_init(void)
{
    FCGX_Init();
}

void
engine_libfcgi_run(struct executor *x)
{
    struct worker *w = x->worker;
    struct request_limits limits = w->conns.limits;
    FCGX_Request f;
    struct request q;
    bool kept = false;

    memset(&f, 0, sizeof(f));
    FCGX_InitRequest(&f, w->listen_fd[0], FCGI_FAIL_ACCEPT_ON_INTR);
    request_init(&q, &limits);
    for (;;) {
        int ready = wait_for_work(x, kept ? f.ipcFd : -1);

        if (ready == -1) {
            break;
        }
        if (ready == -2) {
            continue;
        }
        if (!kept) {
            f.listen_sock = w->listen_fd[ready];
        }
        /* Non-blocking listeners: another process may have been faster. */
        if (FCGX_Accept_r(&f) < 0) {
            kept = false;
            continue;
        }
        fcntl(f.ipcFd, F_SETFD, FD_CLOEXEC); /* accept() alone does not */
        if (!kept && w->allow != NULL && !allow_peer(w->allow, f.ipcFd)) {
            FCGX_Free(&f, 1);
            continue;
        }
        serve(x, &q, &limits, &f);
        kept = f.ipcFd >= 0;
    }
    FCGX_Free(&f, 1);
    request_release(&q);
}
