/* SPDX-License-Identifier: MIT
 *
 * What an import left behind that a fork would share or lose: threads,
 * connected sockets, epoll sets, files open for writing, child processes. See
 * interp.h. Template, GIL held; reads /proc.
 */
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "python/interp.h"
#include "python/pyref.h"

enum { NAME_BYTES = 64, NAMES_MAX = 8 };

/* Findings, one after the other, separated by commas. */
struct report {
    char *out;
    size_t size;
    size_t len;
    unsigned count;
};

static void __attribute__((format(printf, 2, 3)))
add(struct report *r, const char *fmt, ...)
{
    va_list ap;
    int n;

    if (r->count++ > 0 && r->len + 3 < r->size) {
        memcpy(r->out + r->len, ", ", 3);
        r->len += 2;
    }
    va_start(ap, fmt);
    n = vsnprintf(r->out + r->len, r->size - r->len, fmt, ap);
    va_end(ap);
    if (n > 0) {
        r->len +=
            (size_t)n < r->size - r->len ? (size_t)n : r->size - r->len - 1;
    }
}

/* The first line of a file of /proc. */
static void
first_line(const char *path, char *out, size_t size)
{
    FILE *in = fopen(path, "re");

    snprintf(out, size, "?");
    if (in != NULL) {
        if (fgets(out, (int)size, in) != NULL) {
            out[strcspn(out, "\n")] = '\0';
        }
        fclose(in);
    }
}

/* Append to a list of names, cut where it is too long. */
static void
add_name(char *names, size_t size, const char *name)
{
    size_t len = strlen(names);

    snprintf(names + len, size - len, "%s%s", len > 0 ? ", " : "", name);
}

/* -- threads -------------------------------------------------------------- */

/* The name that Python knows for a thread id, else what the kernel calls it. */
static void
thread_name(long tid, PyObject *threads, char *out, size_t size)
{
    Py_ssize_t n = threads != NULL ? PyList_GET_SIZE(threads) : 0;
    char path[64];

    snprintf(path, sizeof(path), "/proc/self/task/%ld/comm", tid);
    first_line(path, out, size);
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *thread_b = PyList_GET_ITEM(threads, i);
        PyObject *id = PyObject_GetAttrString(thread_b, "native_id");
        PyObject *name = NULL;

        if (id != NULL && PyLong_Check(id) && PyLong_AsLong(id) == tid) {
            name = PyObject_GetAttrString(thread_b, "name");
        }
        if (name != NULL && PyUnicode_Check(name) &&
            PyUnicode_AsUTF8(name) != NULL) {
            snprintf(out, size, "%s", PyUnicode_AsUTF8(name));
        }
        Py_XDECREF(id);
        Py_XDECREF(name);
        PyErr_Clear();
    }
}

/* threading.enumerate(), or NULL when nobody has imported threading. */
static PyObject *
python_threads(void)
{
    PyObject *name = PyUnicode_FromString("threading");
    PyObject *module = name != NULL ? PyImport_GetModule(name) : NULL;
    PyObject *threads = NULL;

    if (module != NULL) {
        threads = PyObject_CallMethod(module, "enumerate", NULL);
    }
    if (threads != NULL && !PyList_Check(threads)) {
        Py_CLEAR(threads);
    }
    PyErr_Clear();
    Py_XDECREF(name);
    Py_XDECREF(module);
    return threads;
}

static void
find_threads(struct report *r)
{
    DIR *dir = opendir("/proc/self/task");
    PyObject *threads = python_threads();
    char names[NAME_BYTES * NAMES_MAX] = "";
    struct dirent *e;
    unsigned count = 0;

    while (dir != NULL && (e = readdir(dir)) != NULL) {
        long tid = strtol(e->d_name, NULL, 10);
        char name[NAME_BYTES];

        if (tid > 0 && tid != (long)getpid()) {
            count++;
            thread_name(tid, threads, name, sizeof(name));
            add_name(names, sizeof(names), name);
        }
    }
    if (dir != NULL) {
        closedir(dir);
    }
    Py_XDECREF(threads);
    if (count > 0) {
        add(r, "%u thread%s (%s)", count, count == 1 ? "" : "s", names);
    }
}

/* -- descriptors ---------------------------------------------------------- */

static void
find_socket(struct report *r, int fd)
{
    union {
        struct sockaddr any;
        struct sockaddr_in in;
        struct sockaddr_in6 in6;
        struct sockaddr_un un;
        struct sockaddr_storage storage;
    } peer;
    socklen_t len = sizeof(peer);
    char text[INET6_ADDRSTRLEN];

    memset(&peer, 0, sizeof(peer));
    if (getpeername(fd, &peer.any, &len) != 0) {
        return;
    }
    switch (peer.any.sa_family) {
    case AF_INET:
        inet_ntop(AF_INET, &peer.in.sin_addr, text, sizeof(text));
        add(r, "a socket connected to %s:%u", text,
            (unsigned)ntohs(peer.in.sin_port));
        break;
    case AF_INET6:
        inet_ntop(AF_INET6, &peer.in6.sin6_addr, text, sizeof(text));
        add(r, "a socket connected to [%s]:%u", text,
            (unsigned)ntohs(peer.in6.sin6_port));
        break;
    case AF_UNIX:
        if (len > offsetof(struct sockaddr_un, sun_path) &&
            peer.un.sun_path[0] != '\0') {
            add(r, "a socket connected to %.*s", (int)sizeof(peer.un.sun_path),
                peer.un.sun_path);
        } else {
            add(r, "a socket pair (descriptor %d)", fd);
        }
        break;
    default:
        add(r, "a connected socket (descriptor %d)", fd);
    }
}

static void
find_file(struct report *r, int fd)
{
    int flags = fcntl(fd, F_GETFL);
    char link[64], path[512];
    ssize_t n;

    if (flags < 0 || (flags & O_ACCMODE) == O_RDONLY) {
        return;
    }
    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    n = readlink(link, path, sizeof(path) - 1);
    path[n < 0 ? 0 : n] = '\0';
    add(r, "%s open for writing", path);
}

static void
find_epoll(struct report *r, int fd)
{
    char link[64], path[64];
    ssize_t n;

    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    n = readlink(link, path, sizeof(path) - 1);
    path[n < 0 ? 0 : n] = '\0';
    if (strcmp(path, "anon_inode:[eventpoll]") == 0) {
        add(r, "an epoll set (descriptor %d; an event loop)", fd);
    }
}

static void
find_descriptor(struct report *r, int fd)
{
    struct stat st;

    if (fstat(fd, &st) != 0) {
        return;
    }
    if (S_ISSOCK(st.st_mode)) {
        find_socket(r, fd);
    } else if (S_ISREG(st.st_mode)) {
        find_file(r, fd);
    } else if ((st.st_mode & S_IFMT) == 0) {
        find_epoll(r, fd);
    }
}

static bool
is_own(const int *own, int fd)
{
    for (; own != NULL && *own >= 0; own++) {
        if (*own == fd) {
            return true;
        }
    }
    return false;
}

static void
find_descriptors(struct report *r, const int *own)
{
    DIR *dir = opendir("/proc/self/fd");
    struct dirent *e;

    while (dir != NULL && (e = readdir(dir)) != NULL) {
        char *end;
        long fd = strtol(e->d_name, &end, 10);

        if (end != e->d_name && *end == '\0' && fd > 2 && fd != dirfd(dir) &&
            !is_own(own, (int)fd)) {
            find_descriptor(r, (int)fd);
        }
    }
    if (dir != NULL) {
        closedir(dir);
    }
}

/* -- children ------------------------------------------------------------- */

static void
find_children(struct report *r)
{
    char list[1024], path[64], names[NAME_BYTES * NAMES_MAX] = "";
    char name[NAME_BYTES], *rest = NULL;
    siginfo_t info;
    unsigned count = 0;

    if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0 &&
        errno == ECHILD) {
        return;
    }
    snprintf(path, sizeof(path), "/proc/self/task/%ld/children",
             (long)getpid());
    first_line(path, list, sizeof(list));
    for (char *pid = strtok_r(list, " ", &rest); pid != NULL && *pid != '?';
         pid = strtok_r(NULL, " ", &rest)) {
        snprintf(path, sizeof(path), "/proc/%.20s/comm", pid);
        first_line(path, name, sizeof(name));
        add_name(names, sizeof(names), name);
        count++;
    }
    if (count > 0) {
        add(r, "%u child process%s (%s)", count, count == 1 ? "" : "es", names);
    } else {
        add(r, "child processes");
    }
}

bool
interp_unsafe_to_fork(const int *own, char *out, size_t size)
{
    struct report r = { out, size, 0, 0 };

    out[0] = '\0';
    find_threads(&r);
    find_descriptors(&r, own);
    find_children(&r);
    return r.count > 0;
}
