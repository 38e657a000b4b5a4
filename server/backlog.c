/* SPDX-License-Identifier: MIT
 *
 * See backlog.h.
 */
#include "server/backlog.h"

#include <errno.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <linux/unix_diag.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

struct question {
    struct nlmsghdr head;
    struct unix_diag_req unix_socket;
};

/* An answer is a head, a unix_diag_msg and a few attributes. */
union answer {
    struct nlmsghdr head;
    char bytes[1024];
};

/* For a listening socket rqueue is how many wait, wqueue how many may. */
static int
read_attributes(const union answer *a, struct backlog *ret)
{
    const size_t start = NLMSG_LENGTH(sizeof(struct unix_diag_msg));
    size_t at = start;

    while (at + NLA_HDRLEN <= a->head.nlmsg_len) {
        struct unix_diag_rqlen queue;
        struct nlattr attr;

        memcpy(&attr, a->bytes + at, sizeof(attr));
        if (attr.nla_len < NLA_HDRLEN ||
            attr.nla_len > a->head.nlmsg_len - at) {
            return -EPROTO;
        }
        if (attr.nla_type == UNIX_DIAG_RQLEN &&
            attr.nla_len >= NLA_HDRLEN + sizeof(queue)) {
            memcpy(&queue, a->bytes + at + NLA_HDRLEN, sizeof(queue));
            *ret = (struct backlog){ true, queue.udiag_rqueue,
                                     queue.udiag_wqueue };
            return 0;
        }
        at += NLA_ALIGN(attr.nla_len);
    }
    return -ENODATA;
}

static int
read_answer(int netlink, struct backlog *ret)
{
    union answer a;
    ssize_t n = recv(netlink, &a, sizeof(a), MSG_DONTWAIT);

    if (n < 0) {
        return -errno;
    }
    if ((size_t)n < sizeof(a.head) || a.head.nlmsg_len > (size_t)n) {
        return -EPROTO;
    }
    if (a.head.nlmsg_type == NLMSG_ERROR) {
        struct nlmsgerr error = { .error = -EPROTO };

        if (a.head.nlmsg_len >= NLMSG_LENGTH(sizeof(error.error))) {
            memcpy(&error.error, NLMSG_DATA(&a.head), sizeof(error.error));
        }
        return error.error < 0 ? error.error : -EPROTO;
    }
    if (a.head.nlmsg_type != SOCK_DIAG_BY_FAMILY) {
        return -EPROTO;
    }
    return read_attributes(&a, ret);
}

/* The kernel answers before send() returns. */
static int
read_unix(int fd, struct backlog *ret)
{
    struct question q = {
        .head = { .nlmsg_len = sizeof(q),
                  .nlmsg_type = SOCK_DIAG_BY_FAMILY,
                  .nlmsg_flags = NLM_F_REQUEST,
                  .nlmsg_seq = 1 },
        .unix_socket = { .sdiag_family = AF_UNIX,
                         .udiag_states = ~0u,
                         .udiag_show = UDIAG_SHOW_RQLEN,
                         /* INET_DIAG_NOCOOKIE: the inode is enough */
                         .udiag_cookie = { ~0u, ~0u } },
    };
    struct stat st;
    int netlink, rc;

    if (fstat(fd, &st) != 0) {
        return -errno;
    }
    q.unix_socket.udiag_ino = (unsigned)st.st_ino;
    netlink = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
    if (netlink < 0) {
        return -errno;
    }
    rc = send(netlink, &q, sizeof(q), MSG_DONTWAIT) == sizeof(q)
             ? read_answer(netlink, ret)
             : -errno;
    close(netlink);
    return rc;
}

/* For a listening socket the kernel reports the queue in these two fields. */
static int
read_tcp(int fd, struct backlog *ret)
{
    struct tcp_info info = { 0 };
    socklen_t len = sizeof(info);

    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len) != 0) {
        return -errno;
    }
    *ret = (struct backlog){ true, info.tcpi_unacked, info.tcpi_sacked };
    return 0;
}

int
backlog_read(int fd, struct backlog *ret)
{
    int domain = 0, listening = 0;
    socklen_t len = sizeof(int);

    *ret = (struct backlog){ false, 0, 0 };
    if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &len) != 0) {
        return -errno;
    }
    len = sizeof(int);
    if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listening, &len) != 0) {
        return -errno;
    }
    if (!listening) {
        return -EINVAL;
    }
    switch (domain) {
    case AF_UNIX:
        return read_unix(fd, ret);
    case AF_INET:
    case AF_INET6:
        return read_tcp(fd, ret);
    default:
        return -EAFNOSUPPORT;
    }
}
