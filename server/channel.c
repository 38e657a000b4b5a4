/* SPDX-License-Identifier: MIT
 *
 * Fixed messages over SOCK_SEQPACKET pairs: one message is one packet, so there
 * is nothing to put together. Manager, template and workers. Does not log.
 */
#include "server/channel.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

/* Room for more descriptors than a message may carry, so that surplus ones are
 * received and closed here; what does not fit the kernel closes itself. */
enum { RECEIVE_DESCRIPTORS = 8 };

int
channel_pair(int ret[2])
{
    int pair[2];

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0,
                   pair) != 0) {
        return -errno;
    }
    ret[0] = pair[0];
    ret[1] = pair[1];
    return 0;
}

int
channel_send(int channel, const struct channel_message *m, int fd)
{
    struct channel_message copy = *m;
    struct iovec iov = { .iov_base = &copy, .iov_len = sizeof(copy) };
    union {
        struct cmsghdr align;
        char space[CMSG_SPACE(sizeof(int))];
    } control;
    struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
    struct cmsghdr *c;

    copy.version = CHANNEL_VERSION;
    copy.text[sizeof(copy.text) - 1] = '\0';
    if (fd >= 0) {
        memset(&control, 0, sizeof(control));
        msg.msg_control = &control;
        msg.msg_controllen = sizeof(control);
        c = CMSG_FIRSTHDR(&msg);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(c), &fd, sizeof(fd));
    }
    while (sendmsg(channel, &msg, MSG_NOSIGNAL) < 0) {
        if (errno != EINTR) {
            return -errno;
        }
    }
    return 0;
}

int
channel_say(int channel, enum channel_type type, int slot, int pid, int value,
            const char *text)
{
    struct channel_message m = {
        .version = CHANNEL_VERSION,
        .type = (uint16_t)type,
        .slot = slot,
        .pid = pid,
        .value = value,
    };

    if (text != NULL) {
        snprintf(m.text, sizeof(m.text), "%s", text);
    }
    return channel_send(channel, &m, -1);
}

/* The descriptors of a message: keep the only one, close all when there are
 * more. Returns how many came. */
static unsigned
take_descriptors(struct msghdr *msg, int *ret_fd)
{
    unsigned count = 0;
    int fd;

    *ret_fd = -1;
    for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c != NULL;
         c = CMSG_NXTHDR(msg, c)) {
        size_t n;

        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) {
            continue;
        }
        n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < n; i++) {
            memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(fd));
            if (count++ == 0) {
                *ret_fd = fd;
            } else {
                close(fd);
            }
        }
    }
    if (count > 1) {
        close(*ret_fd);
        *ret_fd = -1;
    }
    return count;
}

static ssize_t
receive_packet(int channel, struct msghdr *msg)
{
    size_t room = msg->msg_controllen;
    ssize_t n;

    for (;;) {
        msg->msg_controllen = room;
        n = recvmsg(channel, msg, MSG_CMSG_CLOEXEC);
        /* A peer that closed without having read everything leaves ECONNRESET
         * in front of its last messages; the error is taken by being seen, so
         * asking again gives those messages and then the end. */
        if (n >= 0 || (errno != EINTR && errno != ECONNRESET)) {
            return n;
        }
    }
}

int
channel_receive(int channel, struct channel_message *ret, int *ret_fd)
{
    struct channel_message m;
    struct iovec iov = { .iov_base = &m, .iov_len = sizeof(m) };
    union {
        struct cmsghdr align;
        char space[CMSG_SPACE(RECEIVE_DESCRIPTORS * sizeof(int))];
    } control;
    struct msghdr msg = {
        .msg_iov = &iov,
        .msg_iovlen = 1,
        .msg_control = &control,
        .msg_controllen = sizeof(control),
    };
    unsigned count;
    ssize_t n;
    int fd;

    n = receive_packet(channel, &msg);
    if (n < 0) {
        return -errno;
    }
    count = take_descriptors(&msg, &fd);
    if (n == 0 && count == 0) {
        return 0;
    }
    if (n != (ssize_t)sizeof(m) || (msg.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) ||
        count > 1 || m.version != CHANNEL_VERSION ||
        memchr(m.text, '\0', sizeof(m.text)) == NULL) {
        if (fd >= 0) {
            close(fd);
        }
        return -EPROTO;
    }
    *ret = m;
    *ret_fd = fd;
    return 1;
}
