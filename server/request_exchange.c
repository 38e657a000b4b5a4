/* SPDX-License-Identifier: MIT
 *
 * See request_exchange.h. The tool only; does not log and does not print: what
 * arrives goes to the two callbacks.
 */
#include "server/request_exchange.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "protocol/fcgi.h"

enum {
    REQUEST_ID = 1,
    READ_SIZE = 65536,
    QUEUE_FULL_PAUSE_MS = 20,
};

/* Which stream of the request is being sent. */
enum sending { SENDING_BODY, SENDING_DATA, SENDING_DONE };

/* One run: what is local to exchange_run(). */
struct run {
    struct exchange *x;
    struct message *m;
    enum sending sending;
    bool write_failed; /* the peer takes no more; its answer may still come */
    bool input_failed;
    uint64_t deadline_ms;
};

uint64_t
exchange_now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

/* For poll(): -1 for ever, 0 the deadline has passed. */
static int
time_left(uint64_t deadline_ms)
{
    uint64_t now = exchange_now_ms();

    if (deadline_ms == 0) {
        return -1;
    }
    if (now >= deadline_ms) {
        return 0;
    }
    return deadline_ms - now > 1000000 ? 1000000 : (int)(deadline_ms - now);
}

void
exchange_init(struct exchange *x)
{
    memset(x, 0, sizeof(*x));
    x->fd = -1;
    x->role = FCGI_RESPONDER;
    buf_init(&x->out, SIZE_MAX / 2);
}

static void
disconnect(struct exchange *x)
{
    if (x->fd >= 0) {
        close(x->fd);
        x->fd = -1;
    }
}

void
exchange_release(struct exchange *x)
{
    if (x == NULL) {
        return;
    }
    disconnect(x);
    buf_release(&x->out);
}

/* -- connecting
 * ---------------------------------------------------------------- */

/* 0, or errno: ETIMEDOUT when the deadline passed first. */
static int
connect_one(const struct sockaddr_storage *sa, socklen_t len,
            uint64_t deadline_ms, int *ret_fd)
{
    struct pollfd wait = { .events = POLLOUT };
    socklen_t error_len = sizeof(int);
    int fd, left, error = 0;

    fd = socket(sa->ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) {
        return errno;
    }
    while (connect(fd, (const struct sockaddr *)sa, len) != 0) {
        left = time_left(deadline_ms);
        if (errno == EAGAIN && left != 0) {
            /* The queue of a unix socket is full, and poll() does not tell
             * when it is not any more. */
            poll(NULL, 0, QUEUE_FULL_PAUSE_MS);
            continue;
        }
        error = errno;
        if (error == EINPROGRESS) {
            wait.fd = fd;
            error = ETIMEDOUT;
            if (poll(&wait, 1, left) != 0 &&
                getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &error_len) != 0) {
                error = errno;
            }
        } else if (error == EAGAIN) {
            error = ETIMEDOUT;
        }
        break;
    }
    if (error != 0) {
        close(fd);
        return error;
    }
    *ret_fd = fd;
    return 0;
}

static const char *
connect_advice(int error)
{
    switch (error) {
    case ENOENT:
        return " (there is no such socket: is the server running?)";
    case ECONNREFUSED:
        return " (nobody listens there: is the server running?)";
    case EACCES:
        return " (see socket_mode, socket_owner and socket_group)";
    default:
        return "";
    }
}

enum exchange_code
exchange_connect(struct exchange *x, const struct address *a,
                 uint64_t deadline_ms)
{
    struct sockaddr_storage sa[ADDRESS_MAX_RESOLVED];
    socklen_t len[ADDRESS_MAX_RESOLVED];
    char where[160], why[256];
    int count, error;

    if (x->fd >= 0) {
        return EXCHANGE_OK;
    }
    count =
        address_resolve(a, 0, sa, len, ADDRESS_MAX_RESOLVED, why, sizeof(why));
    if (count < 0) {
        snprintf(x->why, sizeof(x->why), "%s", why);
        return EXCHANGE_NO_CONNECTION;
    }
    for (int i = 0; i < count; i++) {
        error = connect_one(&sa[i], len[i], deadline_ms, &x->fd);
        if (error == 0) {
            x->connections++;
            memset(&x->in, 0, sizeof(x->in));
            return EXCHANGE_OK;
        }
        address_format((struct sockaddr *)&sa[i], len[i], where, sizeof(where));
        snprintf(x->why, sizeof(x->why), "cannot connect to %s: %s%s", where,
                 strerror(error), connect_advice(error));
        if (error == ETIMEDOUT && time_left(deadline_ms) == 0) {
            return EXCHANGE_TIMEOUT;
        }
    }
    return EXCHANGE_NO_CONNECTION;
}

/* -- sending
 * --------------------------------------------------------------------- */

static struct body *
current_body(struct run *r)
{
    return r->sending == SENDING_BODY ? &r->m->body : &r->m->data;
}

/* The stream that is being sent has ended: say so, go to the next. */
static int
end_stream(struct run *r)
{
    struct exchange *x = r->x;
    char header[FCGI_HEADER_LEN];
    bool filter = !x->scgi && x->role == FCGI_FILTER;

    if (!x->scgi) {
        fcgi_put_header(header,
                        r->sending == SENDING_BODY ? FCGI_STDIN : FCGI_DATA,
                        REQUEST_ID, 0, 0);
        if (buf_append(&x->out, header, sizeof(header)) != 0) {
            return -1;
        }
    }
    r->sending =
        r->sending == SENDING_BODY && filter ? SENDING_DATA : SENDING_DONE;
    return 0;
}

/* The next piece of the body behind what waits in x->out. 0, or -1 with why. */
static int
add_piece(struct run *r)
{
    struct exchange *x = r->x;
    struct body *body = current_body(r);
    size_t head = x->scgi ? 0 : FCGI_HEADER_LEN, start = x->out.len;
    unsigned padding;
    ssize_t n;

    if (buf_reserve(&x->out, head + FCGI_CONTENT_MAX + 8) != 0) {
        snprintf(x->why, sizeof(x->why), "out of memory");
        return -1;
    }
    n = body_read(body, x->out.data + start + head, FCGI_CONTENT_MAX);
    if (n < 0) {
        snprintf(x->why, sizeof(x->why), "cannot read the body: %s",
                 errno == EIO ? "the file became shorter while it was sent"
                              : strerror(errno));
        r->input_failed = true;
        return -1;
    }
    if (n == 0) {
        return end_stream(r);
    }
    if (x->scgi) {
        x->out.len += (size_t)n;
        return 0;
    }
    padding = (unsigned)(-(size_t)n & 7);
    fcgi_put_header(x->out.data + start,
                    r->sending == SENDING_BODY ? FCGI_STDIN : FCGI_DATA,
                    REQUEST_ID, (size_t)n, padding);
    memset(x->out.data + start + head + n, 0, padding);
    x->out.len += head + (size_t)n + padding;
    return 0;
}

/* Keep a good piece of data ready, as far as it is there without waiting. */
static int
fill_output(struct run *r)
{
    struct exchange *x = r->x;
    struct pollfd ready = { .events = POLLIN };

    if (x->out_sent == x->out.len) {
        buf_clear(&x->out);
        x->out_sent = 0;
    }
    while (r->sending != SENDING_DONE && !x->ended && !r->write_failed &&
           x->out.len < READ_SIZE) {
        ready.fd = body_wait_fd(current_body(r));
        if (ready.fd >= 0 && poll(&ready, 1, 0) == 0) {
            break;
        }
        if (add_piece(r) != 0) {
            return -1;
        }
    }
    return 0;
}

static void
send_some(struct run *r)
{
    struct exchange *x = r->x;
    ssize_t n;

    n = send(x->fd, x->out.data + x->out_sent, x->out.len - x->out_sent,
             MSG_NOSIGNAL);
    if (n >= 0) {
        x->out_sent += (size_t)n;
    } else if (errno != EAGAIN && errno != EINTR) {
        /* The peer may have answered already and be right to hang up. */
        r->write_failed = true;
        buf_clear(&x->out);
        x->out_sent = 0;
    }
}

/* -- receiving
 * ------------------------------------------------------------------- */

static enum exchange_code
broken(struct exchange *x, const char *sentence)
{
    snprintf(x->why, sizeof(x->why), "%s", sentence);
    return EXCHANGE_BROKEN;
}

static enum exchange_code
end_request(struct exchange *x)
{
    const unsigned char *b = x->in.small;
    static const char *const status[] = {
        "FCGI_REQUEST_COMPLETE",
        "FCGI_CANT_MPX_CONN",
        "FCGI_OVERLOADED",
        "FCGI_UNKNOWN_ROLE",
    };

    if (x->in.small_len < sizeof(FCGI_EndRequestBody)) {
        return broken(x, "the server sent an END_REQUEST record that is too "
                         "short");
    }
    x->ended = true;
    x->app_status = (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 |
                    (uint32_t)b[2] << 8 | b[3];
    x->protocol_status = b[4];
    if (b[4] != FCGI_REQUEST_COMPLETE) {
        snprintf(x->why, sizeof(x->why),
                 "the server refused the request with protocol status %u (%s)",
                 b[4], b[4] < 4 ? status[b[4]] : "unknown");
        return EXCHANGE_BROKEN;
    }
    return EXCHANGE_OK;
}

/* A header is complete. */
static enum exchange_code
check_header(struct exchange *x)
{
    const unsigned char *h = x->in.header;
    unsigned id = (unsigned)h[2] << 8 | h[3];

    if (h[0] != FCGI_VERSION_1) {
        snprintf(x->why, sizeof(x->why),
                 "the answer is not FastCGI: a record begins with byte 0x%02x "
                 "(does the server speak another protocol? see --scgi)",
                 h[0]);
        return EXCHANGE_BROKEN;
    }
    if (h[1] < FCGI_BEGIN_REQUEST || h[1] > FCGI_MAXTYPE) {
        snprintf(x->why, sizeof(x->why),
                 "the server sent a record of type %u, which does not exist",
                 h[1]);
        return EXCHANGE_BROKEN;
    }
    if (id != REQUEST_ID && id != FCGI_NULL_REQUEST_ID) {
        snprintf(x->why, sizeof(x->why),
                 "the server sent a record for request %u, which was never "
                 "begun",
                 id);
        return EXCHANGE_BROKEN;
    }
    x->in.content_left = (size_t)h[4] << 8 | h[5];
    x->in.padding_left = h[6];
    x->in.small_len = 0;
    return EXCHANGE_OK;
}

static enum exchange_code
give_content(struct exchange *x, const char *data, size_t len)
{
    size_t room;
    int rc = 0;

    switch (x->in.header[1]) {
    case FCGI_STDOUT:
        rc = x->on_stdout(x->ctx, data, len);
        break;
    case FCGI_STDERR:
        rc = x->on_stderr(x->ctx, data, len);
        break;
    default:
        room = sizeof(x->in.small) - x->in.small_len;
        room = len < room ? len : room;
        memcpy(x->in.small + x->in.small_len, data, room);
        x->in.small_len += (unsigned)room;
        break;
    }
    return rc == 0 ? EXCHANGE_OK : EXCHANGE_OUTPUT;
}

/* Take bytes of records; stops behind END_REQUEST. *ret_used: how many. */
static enum exchange_code
feed_records(struct exchange *x, const char *data, size_t len, size_t *ret_used)
{
    struct exchange_record *in = &x->in;
    enum exchange_code code = EXCHANGE_OK;
    size_t at = 0, n;

    while (code == EXCHANGE_OK && at < len && !x->ended) {
        if (in->header_len < FCGI_HEADER_LEN) {
            in->header[in->header_len++] = (unsigned char)data[at++];
            if (in->header_len < FCGI_HEADER_LEN) {
                continue;
            }
            code = check_header(x);
        } else if (in->content_left > 0) {
            n = len - at < in->content_left ? len - at : in->content_left;
            code = give_content(x, data + at, n);
            in->content_left -= n;
            at += n;
        } else {
            n = len - at < in->padding_left ? len - at : in->padding_left;
            in->padding_left -= (unsigned)n;
            at += n;
        }
        if (code == EXCHANGE_OK && in->content_left == 0 &&
            in->padding_left == 0) {
            in->header_len = 0;
            if (in->header[1] == FCGI_END_REQUEST) {
                code = end_request(x);
            }
        }
    }
    *ret_used = at;
    return code;
}

static enum exchange_code
end_of_file(struct exchange *x, bool reset)
{
    disconnect(x);
    if (x->scgi && !reset) {
        x->ended = true;
        return EXCHANGE_OK;
    }
    if (reset) {
        return broken(x, "the server reset the connection before the answer "
                         "was complete");
    }
    return broken(x, "the answer was broken off: the server closed the "
                     "connection without an END_REQUEST record");
}

static enum exchange_code
receive_some(struct exchange *x)
{
    static char data[READ_SIZE];
    enum exchange_code code;
    size_t used;
    ssize_t n;

    n = recv(x->fd, data, sizeof(data), 0);
    if (n < 0) {
        if (errno == EAGAIN || errno == EINTR) {
            return EXCHANGE_OK;
        }
        return end_of_file(x, true);
    }
    if (n == 0) {
        return end_of_file(x, false);
    }
    if (x->scgi) {
        return x->on_stdout(x->ctx, data, (size_t)n) == 0 ? EXCHANGE_OK
                                                          : EXCHANGE_OUTPUT;
    }
    code = feed_records(x, data, (size_t)n, &used);
    if (code == EXCHANGE_OK && used < (size_t)n) {
        return broken(x, "the server went on sending behind its END_REQUEST "
                         "record");
    }
    return code;
}

/* -- both at once
 * ------------------------------------------------------------------ */

/* After END_REQUEST: a record that was begun must be finished before the
 * connection can carry another request. */
static bool
is_done(const struct run *r)
{
    const struct exchange *x = r->x;

    return x->ended &&
           (x->fd < 0 || !x->keep_conn || x->out_sent == x->out.len);
}

/* Wait for one of: the answer, room to send, the body's source. */
static enum exchange_code
step(struct run *r)
{
    struct exchange *x = r->x;
    struct pollfd p[2] = { { .fd = x->fd, .events = POLLIN }, { .fd = -1 } };
    enum exchange_code code = EXCHANGE_OK;
    int n, left;

    if (x->out_sent < x->out.len) {
        p[0].events |= POLLOUT;
    } else if (r->sending != SENDING_DONE && !r->write_failed && !x->ended) {
        p[1].fd = body_wait_fd(current_body(r));
        p[1].events = POLLIN;
    }
    left = time_left(r->deadline_ms);
    n = left == 0 ? 0 : poll(p, 2, left);
    if (n == 0) {
        snprintf(x->why, sizeof(x->why), "no complete answer in time%s",
                 x->out_sent < x->out.len || r->sending != SENDING_DONE
                     ? " (the request was not even taken whole)"
                     : "");
        return EXCHANGE_TIMEOUT;
    }
    if (p[0].revents & (POLLIN | POLLHUP | POLLERR)) {
        code = receive_some(x);
    }
    if (code == EXCHANGE_OK && x->fd >= 0 && (p[0].revents & POLLOUT)) {
        send_some(r);
    }
    return code;
}

enum exchange_code
exchange_run(struct exchange *x, struct message *m, uint64_t deadline_ms)
{
    struct run r = { .x = x, .m = m, .deadline_ms = deadline_ms };
    enum exchange_code code = EXCHANGE_OK;
    int rc;

    x->ended = false;
    x->app_status = 0;
    x->protocol_status = 0;
    buf_clear(&x->out);
    x->out_sent = 0;
    body_rewind(&m->body);
    body_rewind(&m->data);
    rc = x->scgi
             ? message_put_scgi(m, &x->out)
             : message_put_fcgi(m, REQUEST_ID, x->role, x->keep_conn, &x->out);
    if (rc != 0) {
        return broken(x, "out of memory");
    }
    /* An authorizer is sent no STDIN at all (FastCGI 1.0, section 6.3). */
    if (!x->scgi && x->role == FCGI_AUTHORIZER) {
        r.sending = SENDING_DONE;
    }
    while (code == EXCHANGE_OK && !is_done(&r)) {
        if (fill_output(&r) != 0) {
            code = r.input_failed ? EXCHANGE_INPUT : EXCHANGE_BROKEN;
            break;
        }
        code = step(&r);
    }
    if (code != EXCHANGE_OK || !x->keep_conn || r.write_failed) {
        disconnect(x);
    }
    return code;
}
