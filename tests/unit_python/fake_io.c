/* SPDX-License-Identifier: MIT
 *
 * See fake_io.h.
 */
#include "fake_io.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "python/interp.h"

static struct fake_io *
of(struct wsgi_io *io)
{
    return (struct fake_io *)io;
}

static size_t
body_ready(struct wsgi_io *io, const char **ret)
{
    *ret = of(io)->ready;
    return of(io)->ready_len;
}

static void
body_take(struct wsgi_io *io, size_t n)
{
    of(io)->ready += n;
    of(io)->ready_len -= n;
}

static ssize_t
take_piece(struct fake_io *f, struct fake_piece *p, char *out, size_t len)
{
    ssize_t n;

    switch (p->kind) {
    case FAKE_ERROR:
        return p->number;
    case FAKE_SIGNAL:
        f->piece++;
        f->pieces--;
        raise(p->number);
        return -EINTR;
    case FAKE_FD:
        n = read(p->number, out, len);
        if (n == 0) {
            f->piece++;
            f->pieces--;
        }
        return n < 0 ? -errno : n;
    case FAKE_BYTES:
    default:
        n = (ssize_t)(p->len < len ? p->len : len);
        memcpy(out, p->data, (size_t)n);
        p->data += n;
        p->len -= (size_t)n;
        if (p->len == 0) {
            f->piece++;
            f->pieces--;
        }
        return n;
    }
}

static ssize_t
body_read_nogil(struct wsgi_io *io, char *out, size_t len)
{
    struct fake_io *f = of(io);

    f->reads++;
    if (f->ready_len > 0) {
        size_t n = f->ready_len < len ? f->ready_len : len;

        memcpy(out, f->ready, n);
        body_take(io, n);
        return (ssize_t)n;
    }
    return f->pieces > 0 ? take_piece(f, f->piece, out, len) : 0;
}

static int
send_bytes(struct fake_io *f, const void *data, size_t len)
{
    if (f->fail_after >= 0 && (uint64_t)f->fail_after < f->out_bytes + len) {
        return f->fail_with;
    }
    f->out_bytes += len;
    return f->keep_out ? buf_append(&f->out, data, len) : 0;
}

static int
write_nogil(struct wsgi_io *io, const struct iovec *iov, int count, bool last)
{
    struct fake_io *f = of(io);

    f->writes++;
    f->lasts += last;
    if (f->write_signal != 0 && f->writes == 2) {
        raise(f->write_signal);
        interp_check_signals_nogil();
    }
    for (int i = 0; i < count; i++) {
        int rc = send_bytes(f, iov[i].iov_base, iov[i].iov_len);

        if (rc < 0) {
            f->lasts -= last;
            f->fail_after = 0;
            return rc;
        }
    }
    if (f->keep_out) {
        buf_append(&f->cuts, &f->out.len, sizeof(f->out.len));
    }
    return 0;
}

static int64_t
sendfile_nogil(struct wsgi_io *io, const struct iovec *head, int fd,
               off_t offset, uint64_t len, bool last)
{
    struct fake_io *f = of(io);
    uint64_t sent = 0;

    f->sendfiles++;
    if (f->resize >= 0) {
        char path[64];

        snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
        if (truncate(path, f->resize) != 0) {
            return -errno;
        }
    }
    if (head->iov_len > 0 && send_bytes(f, head->iov_base, head->iov_len) < 0) {
        return f->fail_with;
    }
    while (sent < len) {
        char block[65536];
        size_t want = len - sent < sizeof(block) ? len - sent : sizeof(block);
        ssize_t n = (ssize_t)want;

        if (f->keep_out) {
            n = pread(fd, block, want, offset + (off_t)sent);
        }

        if (n <= 0) {
            return (int64_t)sent;
        }
        if (send_bytes(f, block, (size_t)n) < 0) {
            return f->fail_with;
        }
        sent += (uint64_t)n;
    }
    f->file_bytes += sent;
    f->lasts += last;
    return (int64_t)sent;
}

static bool
connected(struct wsgi_io *io)
{
    struct fake_io *f = of(io);

    if (f->connected_calls > 0) {
        f->connected_calls--;
        return true;
    }
    return f->connected_calls < 0;
}

static void
response_over_nogil(struct wsgi_io *io)
{
    of(io)->overs++;
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

void
fake_io_init(struct fake_io *f)
{
    memset(f, 0, sizeof(*f));
    f->io.ops = &ops;
    f->fail_after = -1;
    f->fail_with = -EPIPE;
    f->resize = -1;
    f->connected_calls = -1;
    f->keep_out = true;
    buf_init(&f->out, SIZE_MAX / 2);
    buf_init(&f->cuts, SIZE_MAX / 2);
}

void
fake_io_release(struct fake_io *f)
{
    buf_release(&f->out);
    buf_release(&f->cuts);
}
