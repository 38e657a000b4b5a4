/* SPDX-License-Identifier: MIT
 *
 * See ctl_ask.h. A tool.
 */
#include "server/ctl_ask.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "server/address.h"
#include "server/clock.h"
#include "server/ctl_wait.h"

enum {
    DIAL_MS = 20, /* between two attempts at a queue that is full */
};

static int __attribute__((format(printf, 3, 4)))
fail(char *why, size_t size, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    vsnprintf(why, size, fmt, args);
    va_end(args);
    return -1;
}

/* Its queue may be full: of a manager that is stopped, or has much to do. */
static int
connect_within(int fd, const struct address *a, uint64_t ms)
{
    uint64_t end = clock_now_ns() + ms * NS_PER_MS;

    while (connect(fd, (const struct sockaddr *)&a->un, sizeof(a->un)) != 0) {
        if (errno != EAGAIN && errno != EINTR) {
            return -errno;
        }
        if (ctl_wait_interrupted() || clock_now_ns() >= end) {
            return -ETIMEDOUT;
        }
        ctl_wait_readable(-1, DIAL_MS);
    }
    return 0;
}

static int
fail_silent(const struct ctl_options *c, char *why, size_t size)
{
    return fail(
        why, size,
        "the manager at %s does not answer within %.4g s: it is stopped "
        "or hangs, or this is no forebay (--wait waits longer)",
        c->control, (double)c->silence_ms / 1000);
}

/* A connection to the manager, or -errno with a sentence. */
static int
dial(const struct ctl_options *c, char *why, size_t size)
{
    struct address a;
    int fd, rc;

    if (address_parse(c->control, &a, why, size) != 0) {
        return -EINVAL;
    }
    if (a.kind != ADDRESS_UNIX) {
        fail(why, size, "%s is no path of a unix socket", c->control);
        return -EINVAL;
    }
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) {
        rc = -errno;
        fail(why, size, "socket: %s", strerror(-rc));
        return rc;
    }
    rc = connect_within(fd, &a, c->silence_ms);
    if (rc == 0) {
        return fd;
    }
    close(fd);
    if (rc == -ETIMEDOUT) {
        fail_silent(c, why, size);
        return rc;
    }
    fail(why, size, "no forebay is reached at %s: %s%s", c->control,
         strerror(-rc),
         rc == -ENOENT && !c->given
             ? " (is its control socket elsewhere? --control PATH)"
         : rc == -EACCES ? " (only the user that it runs as may)"
                         : "");
    return rc;
}

static int
say(int fd, const char *line)
{
    char text[CONTROL_LINE_MAX + 1];
    size_t len, sent = 0;

    snprintf(text, sizeof(text), "%s\n", line);
    len = strlen(text);
    while (sent < len) {
        ssize_t n = send(fd, text + sent, len - sent, MSG_NOSIGNAL);

        if (n < 0 && errno != EINTR) {
            return -errno;
        }
        sent += n > 0 ? (size_t)n : 0;
    }
    return 0;
}

static bool is_alive(const struct ctl_options *c);

/* Everything up to the end of the connection. 0 or -errno. What takes its time
 * goes on as long as the manager answers others. */
static int
hear(const struct ctl_options *c, int fd, struct buf *in)
{
    uint64_t end = clock_now_ns() + c->silence_ms * NS_PER_MS;

    while (!ctl_wait_interrupted()) {
        uint64_t now = clock_now_ns();
        int64_t wait = now < end ? (int64_t)((end - now) / NS_PER_MS) + 1 : 0;
        ssize_t n;

        if (ctl_wait_readable(fd, wait) == 0) {
            if (!c->patient || !is_alive(c)) {
                return -ETIMEDOUT;
            }
            end = clock_now_ns() + c->silence_ms * NS_PER_MS;
        }
        if (buf_reserve(in, 16384) != 0) {
            return -ENOMEM;
        }
        n = recv(fd, in->data + in->len, 16384, MSG_DONTWAIT);
        if (n == 0) {
            return 0;
        }
        if (n > 0) {
            in->len += (size_t)n;
        } else if (errno != EAGAIN && errno != EINTR) {
            return -errno;
        }
    }
    return -EINTR;
}

/* Does it answer a ping? When it ends just now, the connection that waits says
 * so. */
static bool
is_alive(const struct ctl_options *c)
{
    struct ctl_options ping = *c;
    struct buf answer;
    char why[512];
    int fd, rc;

    ping.patient = false;
    buf_init(&answer, 4096);
    fd = rc = dial(&ping, why, sizeof(why));
    if (fd >= 0) {
        rc = say(fd, "ping") == 0 ? hear(&ping, fd, &answer) : 0;
        close(fd);
    }
    buf_release(&answer);
    return rc != -ETIMEDOUT;
}

int
ctl_ask(const struct ctl_options *c, struct buf *answer, char *why, size_t size)
{
    const char *newline;
    int fd = dial(c, why, size);
    int rc;

    if (fd < 0) {
        return -1;
    }
    rc = say(fd, c->line);
    if (rc == 0 || rc == -EPIPE) { /* then it has said why */
        rc = hear(c, fd, answer);
    }
    close(fd);
    if (rc == -ETIMEDOUT) {
        return fail_silent(c, why, size);
    }
    if (rc != 0) {
        return fail(why, size, "the manager at %s broke off: %s", c->control,
                    strerror(-rc));
    }
    newline = answer->len > 0 ? memchr(answer->data, '\n', answer->len) : NULL;
    if (newline == NULL) {
        return fail(why, size,
                    "the manager at %s ended the connection without an answer",
                    c->control);
    }
    if (newline - answer->data == 2 && memcmp(answer->data, "ok", 2) == 0) {
        answer->len -= 3;
        memmove(answer->data, newline + 1, answer->len);
        return 0;
    }
    rc = strncmp(answer->data, "error: ", 7) == 0 ? 7 : 0;
    return fail(why, size, "%.*s", (int)(newline - answer->data) - rc,
                answer->data + rc);
}
