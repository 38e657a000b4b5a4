/* SPDX-License-Identifier: MIT
 *
 * See log_target.h.
 */
#include "server/log_target.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syslog.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#ifdef FOREBAY_HAVE_SYSTEMD
#define SD_JOURNAL_SUPPRESS_LOCATION
#include <systemd/sd-journal.h>
#endif

/* What a syslog daemon takes in one message when the kernel refuses a longer
 * one. */
enum { SYSLOG_SHORT = 8000 };

#define JOURNAL_SOCKET "/run/systemd/journal/socket"

/* -- open -------------------------------------------------------------------
 */

/* What the kind of a descriptor asks for. */
static enum log_target_kind
kind_of(int fd)
{
    struct stat st;

    return fstat(fd, &st) == 0 && S_ISREG(st.st_mode) ? TARGET_FILE
                                                      : TARGET_STREAM;
}

/* A FIFO is opened for reading as well: it then exists without a reader, and
 * one that comes back goes on. */
static int
open_path(const char *path, char *why, size_t size)
{
    struct stat st;
    bool fifo = stat(path, &st) == 0 && S_ISFIFO(st.st_mode);
    int flags = fifo ? O_RDWR : O_WRONLY | O_APPEND | O_CREAT;
    int fd = open(path, flags | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0640);

    if (fd < 0) {
        snprintf(why, size, "log %s: %s", path, strerror(errno));
        return -1;
    }
    return fd;
}

/* The datagram socket of the syslog daemon; -1 with errno. */
static int
connect_syslog(void)
{
    const char *path = getenv("FOREBAY_SYSLOG_SOCKET");
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    int fd;

    snprintf(address.sun_path, sizeof(address.sun_path), "%s",
             path != NULL ? path : "/dev/log");
    fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd >= 0 &&
        connect(fd, (struct sockaddr *)&address, sizeof(address)) != 0) {
        int error = errno;

        close(fd);
        errno = error;
        return -1;
    }
    return fd;
}

static int
open_journal(char *why, size_t size)
{
#ifdef FOREBAY_HAVE_SYSTEMD
    if (access(JOURNAL_SOCKET, F_OK) == 0) {
        return 0;
    }
    snprintf(why, size, "log journald: %s: %s", JOURNAL_SOCKET,
             strerror(errno));
#else
    snprintf(why, size,
             "log journald: this forebay was built without libsystemd; what it "
             "writes on stderr reaches the journal as well when systemd "
             "starts it");
#endif
    return -1;
}

int
log_target_open(struct log_target *t, const char *name, char *why, size_t size)
{
    *t = (struct log_target){ .fd = -1 };
    if (strcmp(name, "stderr") == 0) {
        t->fd = STDERR_FILENO;
        t->kind = kind_of(t->fd);
        return 0;
    }
    if (strcmp(name, "syslog") == 0) {
        t->kind = TARGET_SYSLOG;
        t->fd = connect_syslog();
        return 0;
    }
    if (strcmp(name, "journald") == 0) {
        t->kind = TARGET_JOURNAL;
        return open_journal(why, size);
    }
    t->is_path = true;
    t->fd = open_path(name, why, size);
    t->kind = kind_of(t->fd);
    return t->fd >= 0 ? 0 : -1;
}

void
log_target_close(struct log_target *t)
{
    if (t->fd > STDERR_FILENO) {
        close(t->fd);
    }
    t->fd = -1;
}

int
log_target_reopen(struct log_target *t, const char *name, char *why,
                  size_t size)
{
    struct log_target fresh;

    if (!t->is_path) {
        return 0;
    }
    if (log_target_open(&fresh, name, why, size) != 0) {
        return -1;
    }
    log_target_close(t);
    *t = fresh;
    return 0;
}

/* -- write ------------------------------------------------------------------
 */

static int
write_file(int fd, const char *data, size_t len, size_t *ret_taken)
{
    while (*ret_taken < len) {
        ssize_t n = write(fd, data + *ret_taken, len - *ret_taken);

        if (n > 0) {
            *ret_taken += (size_t)n;
        } else if (n == 0) {
            return -EIO;
        } else if (errno != EINTR) {
            return -errno;
        }
    }
    return 0;
}

/* POLLOUT on a pipe promises room for PIPE_BUF bytes (pipe(7)). */
static int
write_stream(int fd, const char *data, size_t len, size_t *ret_taken)
{
    while (*ret_taken < len) {
        struct pollfd p = { .fd = fd, .events = POLLOUT };
        size_t n = len - *ret_taken;
        ssize_t rc;

        if (poll(&p, 1, 0) == 0) {
            return -EAGAIN;
        }
        rc = write(fd, data + *ret_taken, n < PIPE_BUF ? n : PIPE_BUF);
        if (rc >= 0) {
            *ret_taken += (size_t)rc;
        } else if (errno != EINTR) {
            return -errno;
        }
    }
    return 0;
}

/* The lines of data one by one: digit, text, newline. */
static int
each_line(struct log_target *t, const char *data, size_t len, size_t *ret_taken,
          int (*send)(struct log_target *t, int severity, const char *text,
                      size_t len))
{
    while (*ret_taken < len) {
        const char *line = data + *ret_taken;
        const char *end = memchr(line, '\n', len - *ret_taken);
        size_t n = end != NULL ? (size_t)(end - line) : len - *ret_taken;
        int rc = n > 0 ? send(t, line[0] - '0', line + 1, n - 1) : 0;

        if (rc < 0) {
            return rc;
        }
        *ret_taken += n + (end != NULL);
    }
    return 0;
}

/* RFC 3164 as syslog(3) speaks it on the local socket:
 * "<30>Jan  2 03:04:05 forebay[4711]: text". */
static int
send_syslog(struct log_target *t, int severity, const char *text, size_t len)
{
    time_t now = time(NULL);
    struct tm tm;
    char stamp[32] = "", head[96];
    struct iovec iov[2] = { { head, 0 }, { (char *)(uintptr_t)text, len } };
    struct msghdr m = { .msg_iov = iov, .msg_iovlen = 2 };

    if (t->fd < 0 && (t->fd = connect_syslog()) < 0) {
        return -errno;
    }
    if (localtime_r(&now, &tm) != NULL) {
        strftime(stamp, sizeof(stamp), "%b %e %H:%M:%S", &tm);
    }
    iov[0].iov_len = (size_t)snprintf(
        head, sizeof(head), "<%d>%s forebay[%ld]: ", LOG_DAEMON | severity,
        stamp, (long)getpid());
    while (sendmsg(t->fd, &m, MSG_NOSIGNAL) < 0) {
        if (errno == EMSGSIZE && iov[1].iov_len > SYSLOG_SHORT) {
            iov[1].iov_len = SYSLOG_SHORT;
        } else if (errno == ENOBUFS) {
            return -EAGAIN;
        } else if (errno != EINTR) {
            return -errno;
        }
    }
    return 0;
}

static int
write_syslog(struct log_target *t, const char *data, size_t len,
             size_t *ret_taken)
{
    int rc = each_line(t, data, len, ret_taken, send_syslog);

    /* The daemon was started anew: its socket is another one now. */
    if (rc < 0 && rc != -EAGAIN && t->fd >= 0) {
        log_target_close(t);
        rc = each_line(t, data, len, ret_taken, send_syslog);
    }
    return rc;
}

static int
send_journal(struct log_target *t, int severity, const char *text, size_t len)
{
    (void)t;
#ifdef FOREBAY_HAVE_SYSTEMD
    char priority[] = "PRIORITY=?";
    char identifier[] = "SYSLOG_IDENTIFIER=forebay";
    char *message = malloc(len + sizeof("MESSAGE="));
    struct iovec iov[3] = {
        { priority, sizeof(priority) - 1 },
        { identifier, sizeof(identifier) - 1 },
    };
    int rc;

    if (message == NULL) {
        return -ENOMEM;
    }
    priority[sizeof(priority) - 2] = (char)('0' + severity);
    memcpy(message, "MESSAGE=", sizeof("MESSAGE=") - 1);
    memcpy(message + sizeof("MESSAGE=") - 1, text, len);
    iov[2] = (struct iovec){ message, sizeof("MESSAGE=") - 1 + len };
    rc = sd_journal_sendv(iov, 3);
    free(message);
    return rc;
#else
    (void)severity;
    (void)text;
    (void)len;
    return -ENOTSUP;
#endif
}

int
log_target_write(struct log_target *t, const char *data, size_t len,
                 size_t *ret_taken)
{
    *ret_taken = 0;
    switch (t->kind) {
    case TARGET_FILE:
        return write_file(t->fd, data, len, ret_taken);
    case TARGET_SYSLOG:
        return write_syslog(t, data, len, ret_taken);
    case TARGET_JOURNAL:
        return each_line(t, data, len, ret_taken, send_journal);
    case TARGET_STREAM:
        break;
    }
    return write_stream(t->fd, data, len, ret_taken);
}
