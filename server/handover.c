/* SPDX-License-Identifier: MIT
 *
 * See handover.h.
 */
#include "server/handover.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

struct message {
    uint16_t version;
    uint16_t kind;
};

enum { VERSION = 1 };

union control {
    struct cmsghdr align;
    char bytes[CMSG_SPACE(sizeof(int))];
};

int
handover_send(int queue, int fd, enum decoder_kind kind)
{
    struct message m = { VERSION, (uint16_t)kind };
    struct iovec iov = { &m, sizeof(m) };
    union control control;
    struct msghdr h = { .msg_iov = &iov,
                        .msg_iovlen = 1,
                        .msg_control = control.bytes,
                        .msg_controllen = sizeof(control.bytes) };
    struct cmsghdr *c;
    ssize_t n;

    memset(&control, 0, sizeof(control));
    c = CMSG_FIRSTHDR(&h);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(c), &fd, sizeof(fd));
    do {
        n = sendmsg(queue, &h, MSG_NOSIGNAL | MSG_DONTWAIT);
    } while (n < 0 && errno == EINTR);
    if (n >= 0) {
        return 0;
    }
    /* The kernel bounds the descriptors of one user that are under way. */
    return errno == ETOOMANYREFS || errno == ENOBUFS ? -EAGAIN : -errno;
}

int
handover_receive(int queue, int *ret_fd, enum decoder_kind *ret_kind)
{
    struct message m;
    struct iovec iov = { &m, sizeof(m) };
    union control control;
    struct msghdr h = { .msg_iov = &iov,
                        .msg_iovlen = 1,
                        .msg_control = control.bytes,
                        .msg_controllen = sizeof(control.bytes) };
    struct cmsghdr *c;
    int fd = -1;
    ssize_t n;

    do {
        n = recvmsg(queue, &h, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    } while (n < 0 && errno == EINTR);
    if (n < 0) {
        return errno == EAGAIN ? 0 : -errno;
    }
    c = CMSG_FIRSTHDR(&h);
    if (c != NULL && c->cmsg_level == SOL_SOCKET &&
        c->cmsg_type == SCM_RIGHTS && c->cmsg_len == CMSG_LEN(sizeof(int))) {
        memcpy(&fd, CMSG_DATA(c), sizeof(fd));
    }
    if (n != (ssize_t)sizeof(m) || (h.msg_flags & MSG_TRUNC) != 0 ||
        m.version != VERSION || m.kind > DECODER_UWSGI || fd < 0) {
        if (fd >= 0) {
            close(fd);
        }
        return -EPROTO;
    }
    *ret_fd = fd;
    *ret_kind = (enum decoder_kind)m.kind;
    return 1;
}
