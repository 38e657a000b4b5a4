/* SPDX-License-Identifier: MIT
 *
 * See check.h.
 */
#include "server/check.h"

#include <errno.h>
#include <libgen.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "server/address.h"
#include "server/manager.h"
#include "server/privileges.h"
#include "server/venv.h"

/* Descriptors of a worker that are no connection: standard streams, channels,
 * epoll, and what an application usually opens. */
enum { SPARE_DESCRIPTORS = 64 };

struct findings {
    unsigned errors;
};

static void say(struct findings *f, const char *kind, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

static void
say(struct findings *f, const char *kind, const char *fmt, ...)
{
    va_list args;

    printf("%-7s ", kind);
    va_start(args, fmt);
    vprintf(fmt, args);
    va_end(args);
    putchar('\n');
    f->errors += strcmp(kind, "error") == 0;
}

static void
check_unix_path(struct findings *f, const char *path)
{
    struct sockaddr_un un = { .sun_family = AF_UNIX };
    char folder[sizeof(un.sun_path)];
    struct stat st;
    int fd;

    snprintf(folder, sizeof(folder), "%s", path);
    if (access(dirname(folder), W_OK | X_OK) != 0) {
        say(f, "error", "listen: no socket can be made in %s: %s", folder,
            strerror(errno));
        return;
    }
    if (lstat(path, &st) != 0) {
        say(f, "ok", "listen: %s is free", path);
        return;
    }
    if (!S_ISSOCK(st.st_mode)) {
        say(f, "error", "listen: %s exists and is no socket", path);
        return;
    }
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    snprintf(un.sun_path, sizeof(un.sun_path), "%s", path);
    if (connect(fd, (struct sockaddr *)&un, sizeof(un)) == 0) {
        say(f, "error", "listen: a running server answers on %s", path);
    } else {
        say(f, "ok", "listen: %s is left over and will be replaced", path);
    }
    close(fd);
}

static void
check_listen(struct findings *f, const struct pool_settings *s)
{
    char why[512];

    for (unsigned i = 0; i < s->listen.count; i++) {
        struct sockaddr_storage sa[ADDRESS_MAX_RESOLVED];
        socklen_t len[ADDRESS_MAX_RESOLVED];
        struct address a;

        if (address_parse(s->listen.item[i], &a, why, sizeof(why)) != 0) {
            say(f, "error", "listen: %s", why);
        } else if (a.kind == ADDRESS_UNIX) {
            check_unix_path(f, a.un.sun_path);
        } else if (a.kind == ADDRESS_TCP &&
                   address_resolve(&a, 1, sa, len, ADDRESS_MAX_RESOLVED, why,
                                   sizeof(why)) < 0) {
            say(f, "error", "listen: %s", why);
        }
    }
}

static void
check_limits(struct findings *f, const struct pool_settings *s)
{
    FILE *in = fopen("/proc/sys/net/core/somaxconn", "re");
    struct rlimit files;
    unsigned kernel;

    if (in != NULL) {
        if (fscanf(in, "%u", &kernel) == 1 && kernel < s->backlog) {
            say(f, "warning",
                "backlog = %u, but the kernel allows %u (raise "
                "net.core.somaxconn)",
                s->backlog, kernel);
        }
        fclose(in);
    }
    if (getrlimit(RLIMIT_NOFILE, &files) == 0 &&
        files.rlim_cur < s->max_connections + SPARE_DESCRIPTORS) {
        say(f, "warning",
            "max_connections = %u, but a process may open %llu files "
            "(LimitNOFILE=, ulimit -n)",
            s->max_connections, (unsigned long long)files.rlim_cur);
    }
}

static void
check_places(struct findings *f, const struct pool_settings *s)
{
    struct privileges p;
    char why[512];
    struct stat st;

    if (privileges_lookup(s->user, s->group, &p, why, sizeof(why)) != 0) {
        say(f, "error", "user: %s", why);
    } else if (s->user != NULL && geteuid() != 0 && p.uid != geteuid()) {
        say(f, "error", "user: only root can become %s", s->user);
    } else if (s->user == NULL && geteuid() == 0) {
        say(f, "warning",
            "user is not set: the application would run as "
            "root");
    }
    if (s->chdir != NULL &&
        (stat(s->chdir, &st) != 0 || !S_ISDIR(st.st_mode))) {
        say(f, "error", "chdir: %s is no folder that can be entered", s->chdir);
    }
    for (unsigned i = 0; i < s->pythonpath.count; i++) {
        if (access(s->pythonpath.item[i], R_OK) != 0) {
            say(f, "warning", "pythonpath: %s: %s", s->pythonpath.item[i],
                strerror(errno));
        }
    }
}

/* Let the worker program import the application as the pool's user would. */
static void
check_import(struct findings *f, const struct pool_settings *s,
             const char *program)
{
    int fd = memfd_create("forebay-settings", 0);
    FILE *out = fd >= 0 ? fdopen(dup(fd), "w") : NULL;
    char arg[64];
    pid_t pid;
    int status = -1;

    if (out == NULL || settings_write(s, out) != 0 || fclose(out) != 0) {
        say(f, "error", "out of memory");
        return;
    }
    snprintf(arg, sizeof(arg), "--settings=%d", fd);
    fflush(stdout);
    pid = fork();
    if (pid == 0) {
        dup2(1, 2);
        execl(program, program, "--check", arg, (char *)NULL);
        _exit(127);
    }
    close(fd);
    if (pid > 0) {
        waitpid(pid, &status, 0);
    }
    if (status == 0) {
        say(f, "ok", "app: %s can be imported and called", s->app);
    } else {
        say(f, "error", "app: %s cannot be served (see above)", s->app);
    }
}

int
check_run(const struct pool_settings *s)
{
    struct findings f = { 0 };
    struct python_version wanted;
    char program[VENV_PATH_MAX], why[1024];

    check_listen(&f, s);
    check_limits(&f, s);
    check_places(&f, s);
    if (venv_wanted(s->python, s->virtualenv, &wanted, why, sizeof(why)) != 0 ||
        venv_find_worker(&wanted, program, sizeof(program), why, sizeof(why)) !=
            0) {
        say(&f, "error", "python: %s", why);
    } else {
        say(&f, "ok", "python: %s", program);
        if (f.errors == 0) {
            check_import(&f, s, program);
        }
    }
    return f.errors == 0 ? MANAGER_EXIT_OK : MANAGER_EXIT_CONFIG;
}
