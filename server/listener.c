/* SPDX-License-Identifier: MIT
 *
 * Opens, binds and inherits listening sockets. Manager (and tools) only, one
 * thread: binding a unix socket changes the umask for a moment. Never accepts.
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
#include <sys/file.h>
#include <unistd.h>

#include "server/log.h"

enum {
    FIRST_FREE_FD = 3,    /* 0 to 2 belong to everybody */
    SYSTEMD_FIRST_FD = 3, /* sd_listen_fds(3): SD_LISTEN_FDS_START */
    SYSTEMD_MAX = 4096,
    LOCK_TRIES = 100, /* times LOCK_PAUSE_MS: for a folder's lock */
    LOCK_PAUSE_MS = 10,
    UNCHANGED = -1,
};

/* A unix socket on its way to its path. */
struct binding {
    const char *path; /* where it is to appear */
    char folder[108];
    const char *name;   /* last part of path */
    char temporary[40]; /* name in the same folder until it is ready */
    int dir_fd;
    int fd;
    bool stale; /* a dead socket stands at the path */
    bool bound; /* temporary exists */
};

/* Say what failed, and free what the error message should not hold back. */
static int
fail_errno(char *why, size_t size, const char *what, const char *where)
{
    snprintf(why, size, "%s %s: %s", what, where, strerror(errno));
    return -1;
}

/* Above 2, close-on-exec, non-blocking; the old number is closed, or for 0 to 2
 * given to /dev/null so that nothing else is ever opened there. Returns the
 * new one or -1 with errno. */
static int
settle_fd(int fd)
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

/* The kernel cuts the backlog without a word; say it once. */
static void
warn_capped_backlog(unsigned backlog)
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

/* A service with its own /tmp (systemd's PrivateTmp) makes sockets there that
 * no front end can see. */
static void
warn_private_tmp(const char *path)
{
    char *line = NULL, root[512], mount[512];
    const char *tmp;
    size_t cap = 0;
    FILE *f;

    if (strncmp(path, "/tmp/", 5) == 0) {
        tmp = "/tmp";
    } else if (strncmp(path, "/var/tmp/", 9) == 0) {
        tmp = "/var/tmp";
    } else {
        return;
    }
    f = fopen("/proc/self/mountinfo", "re");
    if (f == NULL) {
        return;
    }
    while (getline(&line, &cap, f) > 0) {
        /* proc(5): id, parent, device, root, mount point ... */
        if (sscanf(line, "%*s %*s %*s %511s %511s", root, mount) == 2 &&
            strcmp(mount, tmp) == 0 && strstr(root, "systemd-private-")) {
            log_warnx("%s: %s is private to this service (PrivateTmp), so a "
                      "front end outside of it will not find the socket; use "
                      "a path below /run",
                      path, tmp);
            break;
        }
    }
    free(line);
    fclose(f);
}

/* Does somebody live behind a socket that stands at the path? 1 yes, 0 no
 * (*ret_stale: a dead one is there), -1 with a sentence. Nothing but a dead
 * socket may ever be replaced. */
static int
probe_path(struct binding *b, char *why, size_t size)
{
    struct sockaddr_un un = { .sun_family = AF_UNIX };
    struct stat st;
    int fd, rc, error;

    if (fstatat(b->dir_fd, b->name, &st, AT_SYMLINK_NOFOLLOW) != 0) {
        if (errno == ENOENT) {
            return 0;
        }
        return fail_errno(why, size, "cannot look at", b->path);
    }
    if (!S_ISSOCK(st.st_mode)) {
        snprintf(why, size,
                 "%s is %s, not a socket; forebay does not touch it: remove it "
                 "or choose another path",
                 b->path,
                 S_ISLNK(st.st_mode)   ? "a symbolic link"
                 : S_ISDIR(st.st_mode) ? "a folder"
                 : S_ISREG(st.st_mode) ? "a regular file"
                                       : "a special file");
        return -1;
    }
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) {
        return fail_errno(why, size, "cannot make a socket to try", b->path);
    }
    memcpy(un.sun_path, b->path, strlen(b->path) + 1);
    rc = connect(fd, (struct sockaddr *)&un, sizeof(un));
    error = errno;
    close(fd);
    if (rc != 0 && error == ECONNREFUSED) {
        b->stale = true;
        return 0;
    }
    if (rc != 0 && error == ENOENT) {
        return 0;
    }
    /* EAGAIN: its queue is full; EPROTOTYPE: not a stream, but alive. */
    if (rc == 0 || error == EAGAIN || error == EPROTOTYPE) {
        snprintf(why, size,
                 "the socket %s is already in use by a running server; stop "
                 "that one or choose another path",
                 b->path);
        return -1;
    }
    snprintf(why, size,
             "cannot find out whether a server listens on the socket %s that "
             "is already there: %s",
             b->path, strerror(error));
    return -1;
}

/* Two servers that start at once on one path take turns. The lock is only
 * waited for a little: anybody may lock a folder that all can read. */
static void
lock_folder(int dir_fd)
{
    for (int i = 0; i < LOCK_TRIES; i++) {
        if (flock(dir_fd, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) {
            return;
        }
        poll(NULL, 0, LOCK_PAUSE_MS);
    }
}

static int
open_folder(struct binding *b, char *why, size_t size)
{
    const char *slash = strrchr(b->path, '/');
    size_t len = slash != NULL ? (size_t)(slash - b->path) : 0;

    if (slash == NULL) { /* in the working folder */
        snprintf(b->folder, sizeof(b->folder), ".");
        b->name = b->path;
    } else {
        snprintf(b->folder, sizeof(b->folder), "%.*s", len > 0 ? (int)len : 1,
                 len > 0 ? b->path : "/");
        b->name = slash + 1;
    }
    b->dir_fd = open(b->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (b->dir_fd < 0 && errno == EACCES) {
        b->dir_fd = open(b->folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
    }
    if (b->dir_fd >= 0) {
        return 0;
    }
    if (errno == ENOENT) {
        snprintf(why, size,
                 "the folder %s for the socket %s does not exist; create it "
                 "(for folders below /run see RuntimeDirectory= in "
                 "systemd.exec(5) or tmpfiles.d(5))",
                 b->folder, b->path);
    } else if (errno == ENOTDIR) {
        snprintf(why, size, "%s, where the socket %s should be, is no folder",
                 b->folder, b->path);
    } else {
        fail_errno(why, size, "cannot open the folder", b->folder);
    }
    return -1;
}

/* Bind under a temporary name. It is reached through the open folder, because
 * the path itself may already be as long as sun_path allows. */
static int
bind_temporary(struct binding *b, unsigned mode, char *why, size_t size)
{
    struct sockaddr_un un = { .sun_family = AF_UNIX };
    static unsigned counter;
    mode_t saved;
    int n, rc, error;

    snprintf(b->temporary, sizeof(b->temporary), ".forebay.%ld.%u",
             (long)getpid(), counter++);
    n = snprintf(un.sun_path, sizeof(un.sun_path), "%s/%s", b->folder,
                 b->temporary);
    if (n >= (int)sizeof(un.sun_path)) {
        snprintf(un.sun_path, sizeof(un.sun_path), "/proc/self/fd/%d/%s",
                 b->dir_fd, b->temporary);
    }
    /* The kernel gives a socket the mode 0777 without the umask's bits, so it
     * never exists with more than it should have. */
    saved = umask(~mode & 0777);
    rc = bind(b->fd, (struct sockaddr *)&un, sizeof(un));
    error = errno;
    umask(saved);
    if (rc != 0) {
        snprintf(why, size,
                 "user %lu cannot make a socket in the folder %s: %s",
                 (unsigned long)geteuid(), b->folder, strerror(error));
        return -1;
    }
    b->bound = true;
    return 0;
}

/* Owner and mode of the temporary socket, which is held by an O_PATH descriptor
 * so that nobody who may write to the folder can put a link in its place. */
static int
set_owner_and_mode(struct binding *b, const struct listener_options *o,
                   struct stat *st, char *why, size_t size)
{
    char link[40];
    int rc = -1, fd;

    fd = openat(b->dir_fd, b->temporary, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || fstat(fd, st) != 0 || !S_ISSOCK(st->st_mode)) {
        snprintf(why, size, "the new socket in %s vanished while it was made",
                 b->folder);
        goto out;
    }
    if ((o->owner != (unsigned)UNCHANGED || o->group != (unsigned)UNCHANGED) &&
        fchownat(fd, "", o->owner, o->group, AT_EMPTY_PATH) != 0) {
        snprintf(why, size,
                 "cannot give the socket %s to user %ld, group %ld "
                 "(socket_owner, socket_group; -1: unchanged): %s",
                 b->path, (long)(int)o->owner, (long)(int)o->group,
                 strerror(errno));
        goto out;
    }
    /* A default ACL of the folder makes bind() ignore the umask. */
    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    if ((st->st_mode & 07777) != o->mode && chmod(link, o->mode) != 0) {
        snprintf(why, size, "cannot set the mode of the socket %s to %04o: %s",
                 b->path, o->mode, strerror(errno));
        goto out;
    }
    rc = 0;
out:
    if (fd >= 0) {
        close(fd);
    }
    return rc;
}

/* The finished socket takes its path. */
static int
put_in_place(struct binding *b, char *why, size_t size)
{
    int rc = -1;

    if (!b->stale) {
        rc = renameat2(b->dir_fd, b->temporary, b->dir_fd, b->name,
                       RENAME_NOREPLACE);
        if (rc != 0 && errno == EEXIST) {
            snprintf(why, size,
                     "somebody else made %s at the same moment; is another "
                     "server starting on this path?",
                     b->path);
            return -1;
        }
    }
    /* Stale, or a file system without RENAME_NOREPLACE. */
    if (rc != 0) {
        rc = renameat(b->dir_fd, b->temporary, b->dir_fd, b->name);
    }
    if (rc != 0) {
        return fail_errno(why, size, "cannot put the new socket at", b->path);
    }
    b->bound = false;
    return 0;
}

static int
open_unix(const struct address *a, const struct listener_options *o,
          struct listener *ret, char *why, size_t size)
{
    struct binding b = { .path = a->un.sun_path, .dir_fd = -1, .fd = -1 };
    struct stat st;
    int rc = -1;

    if (open_folder(&b, why, size) != 0) {
        goto out;
    }
    lock_folder(b.dir_fd);
    if (probe_path(&b, why, size) != 0) {
        goto out;
    }
    b.fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (b.fd < 0 || (b.fd = settle_fd(b.fd)) < 0) {
        fail_errno(why, size, "cannot make the socket", b.path);
        goto out;
    }
    if (bind_temporary(&b, o->mode, why, size) != 0 ||
        set_owner_and_mode(&b, o, &st, why, size) != 0) {
        goto out;
    }
    /* Before it has its path: whoever finds it can connect. */
    if (listen(b.fd, (int)o->backlog) != 0) {
        fail_errno(why, size, "cannot listen on", b.path);
        goto out;
    }
    if (put_in_place(&b, why, size) != 0) {
        goto out;
    }
    warn_capped_backlog(o->backlog);
    warn_private_tmp(b.path);
    memset(ret, 0, sizeof(*ret));
    ret->fd = b.fd;
    ret->dev = st.st_dev;
    ret->ino = st.st_ino;
    snprintf(ret->path, sizeof(ret->path), "%s", b.path);
    snprintf(ret->text, sizeof(ret->text), "unix:%s", b.path);
    b.fd = -1;
    rc = 0;
out:
    if (b.bound) {
        unlinkat(b.dir_fd, b.temporary, 0);
    }
    if (b.fd >= 0) {
        close(b.fd);
    }
    if (b.dir_fd >= 0) {
        close(b.dir_fd); /* gives the lock back */
    }
    return rc;
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
    if (fd < 0 || (moved = settle_fd(fd)) < 0) {
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
    warn_capped_backlog(o->backlog);
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
    moved = settle_fd(fd);
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

/* How many sockets the service manager passed to this very process, 0 none. */
static int
systemd_count(void)
{
    const char *pid = getenv("LISTEN_PID"), *fds = getenv("LISTEN_FDS");
    char *end;
    long n;

    if (pid == NULL || fds == NULL || strtol(pid, &end, 10) != getpid() ||
        *end != '\0') {
        return 0;
    }
    n = strtol(fds, &end, 10);
    return *end == '\0' && n > 0 && n <= SYSTEMD_MAX ? (int)n : 0;
}

/* Is the name of the index'th passed socket this one? (sd_listen_fds(3)) */
static bool
systemd_name_is(int index, const char *name)
{
    const char *names = getenv("LISTEN_FDNAMES");
    size_t len;

    if (names == NULL) {
        return strcmp(name, "unknown") == 0;
    }
    while (index-- > 0) {
        names = strchr(names, ':');
        if (names == NULL) {
            return false;
        }
        names++;
    }
    len = strcspn(names, ":");
    return strlen(name) == len && memcmp(names, name, len) == 0;
}

/* Without a name: all that nobody has asked for by name before. */
static int
open_systemd(const struct address *a, struct listener *ret, unsigned max,
             char *why, size_t size)
{
    static bool taken[SYSTEMD_MAX];
    int passed = systemd_count();
    unsigned opened = 0;

    if (passed == 0) {
        snprintf(why, size,
                 "%s: no sockets were passed to this process (LISTEN_FDS and "
                 "LISTEN_PID); start it from a systemd socket unit",
                 a->text);
        return -1;
    }
    for (int i = 0; i < passed; i++) {
        if (a->name[0] != '\0' ? !systemd_name_is(i, a->name) : taken[i]) {
            continue;
        }
        if (opened == max) {
            snprintf(why, size,
                     "%s: more sockets were passed than the %u that "
                     "are left room for",
                     a->text, max);
            goto fail;
        }
        if (listener_inherit(SYSTEMD_FIRST_FD + i, &ret[opened], why, size) !=
            0) {
            goto fail;
        }
        opened++;
        taken[i] = true;
    }
    if (opened > 0) {
        return (int)opened;
    }
    if (a->name[0] == '\0') {
        snprintf(why, size,
                 "%s: all %d sockets that were passed are taken by others",
                 a->text, passed);
        return -1;
    }
    snprintf(why, size,
             "%s: none of the %d sockets that were passed has this name "
             "(FileDescriptorName= in the socket unit; LISTEN_FDNAMES is "
             "\"%s\")",
             a->text, passed,
             getenv("LISTEN_FDNAMES") ? getenv("LISTEN_FDNAMES") : "");
fail:
    while (opened > 0) {
        opened--;
        taken[ret[opened].fd - SYSTEMD_FIRST_FD] = false;
        listener_close(&ret[opened]);
    }
    return -1;
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
        return open_unix(a, o, ret, why, size) == 0 ? 1 : -1;
    case ADDRESS_TCP:
        return open_tcp(a, o, ret, max, why, size);
    case ADDRESS_FD:
        return listener_inherit(a->fd, ret, why, size) == 0 ? 1 : -1;
    case ADDRESS_SYSTEMD:
        return open_systemd(a, ret, max, why, size);
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
