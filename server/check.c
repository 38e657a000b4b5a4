/* SPDX-License-Identifier: MIT
 *
 * See check.h.
 */
#include "server/check.h"

#include <errno.h>
#include <libgen.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "server/access_format.h"
#include "server/address.h"
#include "server/manager.h"
#include "server/pidfile.h"
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

/* A file that the manager appends to: there and writable, or to be made. */
static void
check_log(struct findings *f, const char *setting, const char *path)
{
    char why[512];
    int rc = 0;

    if (path == NULL || strcmp(path, "stderr") == 0 ||
        strcmp(path, "syslog") == 0 || strcmp(path, "journald") == 0) {
        return;
    }
    if (access(path, F_OK) != 0) {
        rc = pidfile_check(path, why, sizeof(why));
    } else if (access(path, W_OK) != 0) {
        snprintf(why, sizeof(why), "%.300s: %s", path, strerror(errno));
        rc = -1;
    }
    if (rc != 0) {
        say(f, "error", "%s: %s", setting, why);
    }
}

static void
check_chroot(struct findings *f, const char *root)
{
    struct stat st;

    if (root == NULL) {
        return;
    }
    if (stat(root, &st) != 0 || !S_ISDIR(st.st_mode)) {
        say(f, "error", "chroot: %s is no folder", root);
    } else if (geteuid() != 0) {
        say(f, "error", "chroot: only root can do that");
    } else if ((st.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
        say(f, "warning",
            "chroot: %s can be written by others than its owner: they could "
            "leave it",
            root);
    }
}

/* Where execvp() would find the program. false: nowhere. */
static bool
find_program(const char *name, char *out, size_t size)
{
    const char *path = getenv("PATH");
    struct stat st;

    if (strchr(name, '/') != NULL) {
        snprintf(out, size, "%s", name);
        return access(name, X_OK) == 0 && stat(name, &st) == 0 &&
               S_ISREG(st.st_mode);
    }
    path = path != NULL ? path : "/bin:/usr/bin";
    for (size_t n; *path != '\0'; path += n + (path[n] == ':')) {
        n = strcspn(path, ":");
        snprintf(out, size, "%.*s/%s", (int)n, path, name);
        if (n > 0 && access(out, X_OK) == 0 && stat(out, &st) == 0 &&
            S_ISREG(st.st_mode)) {
            return true;
        }
    }
    snprintf(out, size, "%s", name);
    return false;
}

static void
check_command(struct findings *f, const struct pool_settings *s)
{
    struct conf_error err;
    struct conf_list words;
    char program[VENV_PATH_MAX];

    if (settings_words(s->command, &words, &err) != 0) {
        say(f, "error", "command: %s", err.text);
        return;
    }
    if (s->chroot != NULL) {
        say(f, "ok", "command: %s, which is looked for inside of %s",
            words.item[0], s->chroot);
    } else if (find_program(words.item[0], program, sizeof(program))) {
        say(f, "ok", "command: %s", program);
    } else {
        say(f, "error", "command: there is no program %s that can be run",
            program);
    }
    conf_list_release(&words);
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

static void
check_python(struct findings *f, const struct pool_settings *s)
{
    struct python_version wanted;
    char program[VENV_PATH_MAX], why[1024];

    if (venv_wanted(s->python, s->virtualenv, &wanted, why, sizeof(why)) != 0 ||
        venv_find_worker(&wanted, program, sizeof(program), why, sizeof(why)) !=
            0) {
        say(f, "error", "python: %s", why);
    } else {
        say(f, "ok", "python: %s", program);
        if (f->errors == 0) {
            check_import(f, s, program);
        }
    }
}

int
check_run(const struct pool_settings *s)
{
    struct findings f = { 0 };
    char why[512];

    check_listen(&f, s);
    check_limits(&f, s);
    check_places(&f, s);
    check_chroot(&f, s->chroot);
    check_log(&f, "log", s->log);
    check_log(&f, "access_log", s->access_log);
    check_log(&f, "slow_log", s->slow_log);
    if (access_format_check(s->access_format, why, sizeof(why)) != 0) {
        say(&f, "error", "%s", why);
    }
    if (s->command != NULL) {
        check_command(&f, s);
    } else {
        check_python(&f, s);
    }
    return f.errors == 0 ? MANAGER_EXIT_OK : MANAGER_EXIT_CONFIG;
}

/* What [forebay] says. */
static void
check_manager(struct findings *f, const struct manager_settings *m)
{
    struct address a;
    char why[512];

    if (m->pidfile != NULL &&
        pidfile_check(m->pidfile, why, sizeof(why)) != 0) {
        say(f, "error", "pidfile: %s", why);
    }
    check_log(f, "log", m->log);
    if (m->status_listen != NULL &&
        address_parse(m->status_listen, &a, why, sizeof(why)) != 0) {
        say(f, "error", "status_listen: %s", why);
    }
}

int
check_config(const struct config *c)
{
    struct findings f = { 0 };
    int code = MANAGER_EXIT_OK;

    check_manager(&f, &c->manager);
    if (f.errors > 0) {
        code = MANAGER_EXIT_CONFIG;
    }
    for (unsigned i = 0; i < c->pools; i++) {
        printf("pool %s\n", c->pool[i]->name);
        if (check_run(c->pool[i]) != MANAGER_EXIT_OK) {
            code = MANAGER_EXIT_CONFIG;
        }
    }
    return code;
}
