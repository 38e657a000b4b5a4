/* SPDX-License-Identifier: MIT
 *
 * See spawn_program.h. What the parent of this process blocked, ignores or left
 * open, programs get as it is.
 */
#include "server/spawn_program.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "server/clock.h"

enum {
    EXIT_NO_PROCESS = 255,
    SETTLE_MS = 100, /* a program that ends within this could not serve */
};

struct child {
    pid_t pid;
    int error;  /* of exec; 0: it went well */
    bool ended; /* with status */
    int status;
};

static void fail(const struct spawn_program *p, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

static void
fail(const struct spawn_program *p, const char *fmt, ...)
{
    va_list args;

    fprintf(stderr, "%s: ", p->name);
    va_start(args, fmt);
    vfprintf(stderr, fmt, args);
    va_end(args);
    fputc('\n', stderr);
}

static const char *
program_name(const struct spawn_program *p)
{
    return p->words != NULL ? p->words[0] : "/bin/sh";
}

/* Only returns when it cannot be run: the error. */
static int
execute(const struct spawn_program *p)
{
    char *line;
    int error;

    dup2(p->socket_fd, STDIN_FILENO);
    if (p->words != NULL) {
        execv(p->words[0], p->words);
        return errno;
    }
    if (asprintf(&line, "exec %s", p->shell) < 0) {
        return ENOMEM;
    }
    execl("/bin/sh", "sh", "-c", line, (char *)NULL);
    error = errno;
    free(line);
    return error;
}

int
spawn_program_become(const struct spawn_program *p)
{
    int error = execute(p);

    fail(p, "%s cannot be run: %s", program_name(p), strerror(error));
    return error;
}

/* In the child; what became of exec goes to said, which closes there. */
static void
be_child(const struct spawn_program *p, int said,
         const struct sigaction *children)
{
    int error;

    sigaction(SIGCHLD, children, NULL);
    setsid();
    dup2(p->null_fd, STDOUT_FILENO);
    dup2(p->null_fd, STDERR_FILENO);
    error = execute(p);
    (void)!write(said, &error, sizeof(error));
    _exit(error);
}

/* children: what the program is to find for SIGCHLD. 0 or -1. */
static int
start_one(const struct spawn_program *p, const struct sigaction *children,
          struct child *ret)
{
    int said[2], error = 0;
    pid_t pid;

    if (pipe2(said, O_CLOEXEC) != 0) {
        return -1;
    }
    pid = fork();
    if (pid == 0) {
        be_child(p, said[1], children);
    }
    close(said[1]);
    if (pid < 0 || read(said[0], &error, sizeof(error)) != sizeof(error)) {
        error = 0;
    }
    close(said[0]);
    *ret = (struct child){ .pid = pid, .error = error };
    return pid > 0 ? 0 : -1;
}

/* Wait until SETTLE_MS have passed, or all have ended. */
static void
settle(struct child *child, struct pollfd *wait, int count)
{
    uint64_t end = clock_now_ns() + SETTLE_MS * NS_PER_MS, now;
    int left = count;

    for (int i = 0; i < count; i++) {
        wait[i].fd = (int)syscall(SYS_pidfd_open, child[i].pid, 0);
        wait[i].events = POLLIN;
    }
    while (left > 0 && (now = clock_now_ns()) < end) {
        if (poll(wait, (nfds_t)count, (int)((end - now) / NS_PER_MS) + 1) < 0 &&
            errno != EINTR) {
            break;
        }
        for (int i = 0; i < count; i++) {
            if (wait[i].fd >= 0 && wait[i].revents != 0) {
                close(wait[i].fd);
                wait[i].fd = -1;
                left--;
            }
        }
    }
    for (int i = 0; i < count; i++) {
        if (wait[i].fd >= 0) {
            close(wait[i].fd);
        }
        child[i].ended =
            waitpid(child[i].pid, &child[i].status, WNOHANG) == child[i].pid;
    }
}

/* Of one that could not serve: a sentence, and the exit code. */
static int
tell_end(const struct spawn_program *p, const struct child *c)
{
    if (c->error != 0) {
        fail(p, "%s cannot be run: %s", program_name(p), strerror(c->error));
        return c->error;
    }
    if (WIFSIGNALED(c->status)) {
        fail(p, "%s was ended at once by signal %d", program_name(p),
             WTERMSIG(c->status));
        return 1;
    }
    fail(p, "%s ended at once with exit code %d", program_name(p),
         WEXITSTATUS(c->status));
    return WEXITSTATUS(c->status);
}

static void
tell_start(const struct spawn_program *p, pid_t pid, bool first)
{
    char text[32];
    int len;

    /* Scripts read this line. */
    printf("spawn-fcgi: child spawned successfully: PID: %ld\n", (long)pid);
    len = snprintf(text, sizeof(text), "%s%ld", first ? "" : "\n", (long)pid);
    if (p->pid_fd >= 0 && write(p->pid_fd, text, (size_t)len) != len) {
        fail(p, "-P: %s cannot be written: %s; the program runs", p->pid_path,
             strerror(errno));
    }
}

static int
tell_all(const struct spawn_program *p, const struct child *child, int count)
{
    bool first = true;
    int code = 0, one;

    for (int i = 0; i < count; i++) {
        if (child[i].ended) {
            one = tell_end(p, &child[i]);
            code = one != 0 ? one : code;
        } else {
            tell_start(p, child[i].pid, first);
            first = false;
        }
    }
    return code;
}

int
spawn_program_start(const struct spawn_program *p, int count)
{
    struct child *child = calloc((size_t)count + 1, sizeof(*child));
    struct pollfd *wait = calloc((size_t)count + 1, sizeof(*wait));
    struct sigaction inherited, usual = { .sa_handler = SIG_DFL };
    int started = 0, code = EXIT_NO_PROCESS, error = ENOMEM;

    /* Ignored, as some parents leave it, it would hide how programs end. */
    sigaction(SIGCHLD, &usual, &inherited);
    if (child != NULL && wait != NULL) {
        while (started < count &&
               start_one(p, &inherited, &child[started]) == 0) {
            started++;
        }
        error = errno;
        settle(child, wait, started);
        code = tell_all(p, child, started);
    }
    if (started < count || child == NULL || wait == NULL) {
        fail(p, "no process for %s: %s", program_name(p), strerror(error));
        code = EXIT_NO_PROCESS;
    }
    free(child);
    free(wait);
    return code;
}
