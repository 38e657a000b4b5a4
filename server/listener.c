/* SPDX-License-Identifier: MIT
 *
 * Opens, inherits and gives back listening sockets. Manager (and tools) only,
 * one thread. Never accepts.
 */
#include "server/listener.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "server/listener_kinds.h"
#include "server/log.h"

enum { FIRST_FREE_FD = 3 }; /* 0 to 2 belong to everybody */

int
listener_settle_fd(int fd)
{
    int moved = fd, null_fd, flags;

    if (fd < FIRST_FREE_FD) {
        moved = fcntl(fd, F_DUPFD_CLOEXEC, FIRST_FREE_FD);
        if (moved < 0) {
            return -1;
        }
        null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
        if (null_fd >= 0) {
            dup2(null_fd, fd);
            close(null_fd);
        } else {
            close(fd);
        }
    }
    flags = fcntl(moved, F_GETFL);
    if (flags < 0 || fcntl(moved, F_SETFL, flags | O_NONBLOCK) < 0 ||
        fcntl(moved, F_SETFD, FD_CLOEXEC) < 0) {
        return -1;
    }
    return moved;
}

bool
listener_is_listening(int fd)
{
    int type = 0, listening = 0;
    socklen_t len = sizeof(int);

    if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len) != 0 ||
        type != SOCK_STREAM) {
        return false;
    }
    len = sizeof(int);
    return getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listening, &len) == 0 &&
           listening != 0;
}

void
listener_warn_backlog(unsigned backlog)
{
    static bool warned;
    unsigned cap = 0;
    FILE *f;

    if (warned) {
        return;
    }
    f = fopen("/proc/sys/net/core/somaxconn", "re");
    if (f == NULL) {
        return;
    }
    if (fscanf(f, "%u", &cap) == 1 && cap < backlog) {
        warned = true;
        log_warnx("backlog is %u, but the kernel allows %u waiting "
                  "connections per socket; raise it with: sysctl -w "
                  "net.core.somaxconn=%u",
                  backlog, cap, backlog);
    }
    fclose(f);
}

/* Why a TCP address cannot be had, with what to do. */
static void
explain_bind(int error, const char *where, char *why, size_t size)
{
    switch (error) {
    case EADDRINUSE:
        snprintf(why, size, "%s is already in use by another program", where);
        break;
    case EADDRNOTAVAIL:
        snprintf(why, size, "%s: this machine has no such address", where);
        break;
    case EACCES:
        snprintf(why, size,
                 "%s: user %lu may not listen on this port (ports below 1024 "
                 "need root or CAP_NET_BIND_SERVICE)",
                 where, (unsigned long)geteuid());
        break;
    case EAFNOSUPPORT:
        snprintf(why, size, "%s: this system has no IPv6", where);
        break;
    default:
        snprintf(why, size, "cannot listen on %s: %s", where, strerror(error));
        break;
    }
}

/* One address. 0, or -errno with a sentence. */
static int
open_tcp_one(const struct sockaddr_storage *sa, socklen_t len,
             const struct listener_options *o, struct listener *ret, char *why,
             size_t size)
{
    struct sockaddr_storage bound;
    socklen_t bound_len = sizeof(bound);
    char where[160];
    int fd, moved, error, yes = 1, v6_only = !o->single;

    address_format((const struct sockaddr *)sa, len, where, sizeof(where));
    fd = socket(sa->ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0 || (moved = listener_settle_fd(fd)) < 0) {
        goto fail;
    }
    fd = moved;
    /* SO_REUSEADDR: connections of an earlier run in TIME_WAIT do not matter;
     * on Linux it never lets two servers listen on one port.
     * TCP_NODELAY is inherited by accepted sockets. */
    if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes)) != 0 ||
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes)) != 0 ||
        (sa->ss_family == AF_INET6 &&
         setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &v6_only, sizeof(v6_only)) !=
             0) ||
        bind(fd, (const struct sockaddr *)sa, len) != 0 ||
        listen(fd, (int)o->backlog) != 0 ||
        getsockname(fd, (struct sockaddr *)&bound, &bound_len) != 0) {
        goto fail;
    }
    listener_warn_backlog(o->backlog);
    memset(ret, 0, sizeof(*ret));
    ret->fd = fd;
    address_format((struct sockaddr *)&bound, bound_len, ret->text,
                   sizeof(ret->text));
    return 0;
fail:
    error = errno;
    if (fd >= 0) {
        close(fd);
    }
    explain_bind(error, where, why, size);
    return -error;
}

/* Of every address of this machine the socket that takes both families. */
static void
prefer_v6(struct sockaddr_storage *sa, socklen_t *len, int count)
{
    for (int i = 1; i < count; i++) {
        if (sa[i].ss_family == AF_INET6 && sa[0].ss_family == AF_INET) {
            struct sockaddr_storage other = sa[0];
            socklen_t other_len = len[0];

            sa[0] = sa[i];
            len[0] = len[i];
            sa[i] = other;
            len[i] = other_len;
        }
    }
}

static int
open_tcp(const struct address *a, const struct listener_options *o,
         struct listener *ret, unsigned max, char *why, size_t size)
{
    struct sockaddr_storage sa[ADDRESS_MAX_RESOLVED];
    socklen_t len[ADDRESS_MAX_RESOLVED];
    unsigned opened = 0;
    int count, rc;

    count = address_resolve(a, 1, sa, len, ADDRESS_MAX_RESOLVED, why, size);
    if (count < 0) {
        return -1;
    }
    if (o->single && strcmp(a->host, "*") == 0) {
        prefer_v6(sa, len, count);
    }
    for (int i = 0; i < count; i++) {
        if (opened == 1 && o->single) {
            break;
        }
        if (opened == max) {
            snprintf(why, size,
                     "%s: more addresses than the %u that are left "
                     "room for",
                     a->text, max);
            goto fail;
        }
        rc = open_tcp_one(&sa[i], len[i], o, &ret[opened], why, size);
        if (rc == 0) {
            opened++;
        } else if (count == 1 ||
                   (rc != -EADDRNOTAVAIL && rc != -EAFNOSUPPORT)) {
            /* Of several, a family that this machine does not have is left
             * out. */
            goto fail;
        }
    }
    if (opened > 0) {
        return (int)opened;
    }
fail:
    while (opened > 0) {
        listener_close(&ret[--opened]);
    }
    return -1;
}

int
listener_inherit(int fd, struct listener *ret, char *why, size_t size)
{
    struct sockaddr_storage sa;
    socklen_t len = sizeof(sa);
    char where[160];
    int moved;

    if (!listener_is_listening(fd)) {
        snprintf(why, size,
                 "descriptor %d is %s; it must be a stream socket that "
                 "listens, opened by whoever started forebay",
                 fd,
                 fcntl(fd, F_GETFD) < 0 ? "not open"
                                        : "not a listening stream socket");
        return -1;
    }
    if (getsockname(fd, (struct sockaddr *)&sa, &len) != 0) {
        snprintf(why, size, "descriptor %d: its address cannot be read: %s", fd,
                 strerror(errno));
        return -1;
    }
    moved = listener_settle_fd(fd);
    if (moved < 0) {
        snprintf(why, size, "descriptor %d cannot be taken over: %s", fd,
                 strerror(errno));
        return -1;
    }
    memset(ret, 0, sizeof(*ret));
    ret->fd = moved;
    ret->inherited = true;
    address_format((struct sockaddr *)&sa, len, where, sizeof(where));
    snprintf(ret->text, sizeof(ret->text), "%s (descriptor %d)", where, fd);
    return 0;
}

int
listener_adopt(int fd, const char *path, const char *text, struct listener *ret)
{
    struct stat st;
    char why[256];

    if (listener_inherit(fd, ret, why, sizeof(why)) != 0) {
        return -1;
    }
    snprintf(ret->text, sizeof(ret->text), "%s", text);
    if (path != NULL && stat(path, &st) == 0 &&
        strlen(path) < sizeof(ret->path)) {
        memcpy(ret->path, path, strlen(path) + 1);
        ret->dev = st.st_dev;
        ret->ino = st.st_ino;
        ret->inherited = false;
    }
    return 0;
}

int
listener_open(const struct address *a, const struct listener_options *o,
              struct listener *ret, unsigned max, char *why, size_t size)
{
    if (max == 0) {
        snprintf(why, size, "%s: there are too many addresses to listen on",
                 a->text);
        return -1;
    }
    switch (a->kind) {
    case ADDRESS_UNIX:
        return listener_open_unix(a, o, ret, why, size) == 0 ? 1 : -1;
    case ADDRESS_TCP:
        return open_tcp(a, o, ret, max, why, size);
    case ADDRESS_FD:
        return listener_inherit(a->fd, ret, why, size) == 0 ? 1 : -1;
    case ADDRESS_SYSTEMD:
        return listener_open_systemd(a, ret, max, why, size);
    }
    snprintf(why, size, "%s: unknown kind of address", a->text);
    return -1;
}

bool
listener_is_own_tcp(const struct listener *l)
{
    struct sockaddr_storage sa = { .ss_family = AF_UNSPEC };
    socklen_t len = sizeof(sa);

    return l->fd >= 0 && !l->inherited &&
           getsockname(l->fd, (struct sockaddr *)&sa, &len) == 0 &&
           (sa.ss_family == AF_INET || sa.ss_family == AF_INET6);
}

bool
listener_refuse(struct listener *l, bool also_waiting)
{
    struct pollfd p = { .fd = l->fd, .events = POLLIN };

    if (!also_waiting && poll(&p, 1, 0) != 0) {
        return false;
    }
    /* Of all processes that have it. */
    shutdown(l->fd, SHUT_RDWR);
    listener_close(l);
    return true;
}

/* While our descriptor is open the inode cannot be given to another file, so
 * the same number means that it is still our socket. */
bool
listener_is_lost(const struct listener *l)
{
    struct stat st;

    return l->path[0] != '\0' && !l->inherited &&
           (lstat(l->path, &st) != 0 || !S_ISSOCK(st.st_mode) ||
            st.st_dev != l->dev || st.st_ino != l->ino);
}

void
listener_close(struct listener *l)
{
    if (l == NULL || l->fd < 0) {
        return;
    }
    if (l->path[0] != '\0' && !l->inherited && !listener_is_lost(l)) {
        unlink(l->path);
    }
    l->path[0] = '\0';
    close(l->fd);
    l->fd = -1;
}
