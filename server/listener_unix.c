/* SPDX-License-Identifier: MIT
 *
 * A listening unix socket appears at its path: complete, with its mode and
 * owner, in the place of nothing but a dead one. Manager (and tools) only, one
 * thread: the umask is changed for a moment.
 */
#include "server/listener_kinds.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "server/log.h"

enum {
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

int
listener_open_unix(const struct address *a, const struct listener_options *o,
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
    if (b.fd < 0 || (b.fd = listener_settle_fd(b.fd)) < 0) {
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
    listener_warn_backlog(o->backlog);
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
