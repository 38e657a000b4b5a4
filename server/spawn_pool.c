/* SPDX-License-Identifier: MIT
 *
 * See spawn_pool.h.
 */
#include "server/spawn_pool.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "conf/config.h"
#include "server/inherited.h"
#include "server/listener.h"
#include "server/log.h"
#include "server/manager.h"
#include "server/notify.h"
#include "server/upgrade.h"

enum { EXIT_USAGE = 255 };

struct build {
    struct pool_settings *s;
    struct conf_error err;
    const char *control, *status_listen; /* as in struct manager_settings */
    bool failed;
};

/* -- settings ---------------------------------------------------------------
 */

static void give(struct build *b, const char *setting, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* One setting; after a mistake nothing more happens. */
static void
give(struct build *b, const char *setting, const char *fmt, ...)
{
    char *value = NULL;
    va_list args;
    int rc;

    if (b->failed) {
        return;
    }
    va_start(args, fmt);
    rc = vasprintf(&value, fmt, args);
    va_end(args);
    if (rc < 0) {
        snprintf(b->err.text, sizeof(b->err.text), "out of memory");
        b->failed = true;
        return;
    }
    b->failed = settings_set(b->s, setting, value, &b->err) != 0;
    free(value);
}

/* A word of the setting command, as settings_words() takes it apart. */
static void
put_word(FILE *out, const char *word)
{
    fputs(ftell(out) > 0 ? " \"" : "\"", out);
    for (const char *p = word; *p != '\0'; p++) {
        if (*p == '"' || *p == '\\') {
            fputc('\\', out);
        }
        fputc(*p, out);
    }
    fputc('"', out);
}

static void
give_command(struct build *b, const struct spawn_options *o)
{
    char *text = NULL, *line = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);

    if (out == NULL || asprintf(&line, "exec %s", o->shell) < 0) {
        b->failed = true;
        snprintf(b->err.text, sizeof(b->err.text), "out of memory");
        line = NULL;
        goto out;
    }
    for (char **word = o->program; word != NULL && *word != NULL; word++) {
        put_word(out, *word);
    }
    if (o->program == NULL) {
        put_word(out, "/bin/sh");
        put_word(out, "-c");
        put_word(out, line);
    }
out:
    if (out != NULL) {
        fclose(out);
    }
    if (!b->failed) {
        give(b, "command", "%s", text);
    }
    free(line);
    free(text);
}

/* The pool is called after its program. */
static void
give_name(struct build *b, const struct spawn_options *o)
{
    const char *program = o->program != NULL ? o->program[0] : "sh";
    const char *slash = strrchr(program, '/');
    struct conf_error ignored;

    /* One that cannot be a name leaves the default. */
    (void)settings_set(b->s, "name", slash != NULL ? slash + 1 : program,
                       &ignored);
}

/* path from the root, of which settings want to know; owned by the caller.
 * NULL: b has failed. */
static char *
absolute(struct build *b, const char *path)
{
    char *here = path[0] == '/' ? strdup("") : getcwd(NULL, 0);
    char *whole = NULL;

    if (here == NULL ||
        asprintf(&whole, "%s%s%s", here, path[0] == '/' ? "" : "/", path) < 0) {
        snprintf(b->err.text, sizeof(b->err.text), "the working folder: %s",
                 strerror(errno));
        b->failed = true;
        whole = NULL;
    }
    free(here);
    return whole;
}

/* -c, and -s as the manager sees it, which stays outside. */
static void
give_paths(struct build *b, const struct spawn_options *o)
{
    char *root = o->root != NULL ? absolute(b, o->root) : NULL;
    bool inside = root != NULL && !o->socket_first;
    char *path = o->path != NULL && !inside ? absolute(b, o->path) : NULL;

    if (path != NULL) {
        give(b, "listen", "unix:%s", path);
    } else if (o->path != NULL && root != NULL) {
        give(b, "listen", "unix:%s/%s", root, o->path);
    }
    if (root != NULL) {
        give(b, "chroot", "%s", root);
    }
    free(root);
    free(path);
}

static void
give_listener(struct build *b, const struct spawn_options *o,
              const struct spawn_rights *rights)
{
    const char *host = o->address != NULL ? o->address : "0.0.0.0";

    give_paths(b, o);
    if (o->port != 0) {
        give(b, "listen", strchr(host, ':') != NULL ? "[%s]:%d" : "%s:%d", host,
             o->port);
    }
    give(b, "socket_mode", "%o", (unsigned)o->mode);
    give(b, "backlog", "%d", o->backlog > 0 ? o->backlog : 4096);
    if (rights->socket_uid != (uid_t)-1) {
        give(b, "socket_owner", "%u", (unsigned)rights->socket_uid);
    }
    if (rights->socket_gid != (gid_t)-1) {
        give(b, "socket_group", "%u", (unsigned)rights->socket_gid);
    }
}

static int
other_option(const char *name, const char *value, void *ctx,
             struct conf_error *err)
{
    struct build *b = ctx;
    enum log_level level;

    if (strcmp(name, "control") == 0) {
        b->control = value;
        return 2;
    }
    if (strcmp(name, "status-listen") == 0 ||
        strcmp(name, "status_listen") == 0) {
        b->status_listen = value;
        return 2;
    }
    if (strcmp(name, "log-level") == 0 || strcmp(name, "log_level") == 0) {
        if (value != NULL && log_level_named(value, &level) == 0) {
            log_set_level(level);
            return 2;
        }
        snprintf(err->text, sizeof(err->text),
                 "--log-level is error, warn, info or debug");
        return -1;
    }
    return 0;
}

/* Letters first, so that settings that are spelled out are stronger. */
static void
build_settings(struct build *b, const struct spawn_options *o,
               const struct spawn_rights *rights)
{
    give_name(b, o);
    give_command(b, o);
    give_listener(b, o, rights);
    give(b, "workers", "%d", o->children);
    /* spawn-fcgi takes no such right away: PHP's mail() starts sendmail. */
    give(b, "no_new_privs", "no");
    if (o->php_children >= 0) {
        give(b, "env", "PHP_FCGI_CHILDREN=%d", o->php_children);
    }
    if (o->folder != NULL) {
        give(b, "chdir", "%s", o->folder);
    }
    if (o->user != NULL) {
        give(b, "user", "%s", o->user);
    }
    if (o->group != NULL) {
        give(b, "group", "%s", o->group);
    }
    if (!b->failed) {
        b->failed = settings_parse_args(b->s, o->more_count, o->more,
                                        other_option, b, &b->err) != 0;
    }
}

/* -- in the background ------------------------------------------------------
 */

/* The parent's end of a pipe to the process that was started; it waits for one
 * byte. */
static int ready_fd = -1;

static void
on_ready(void)
{
    int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);

    log_copy_to_stderr(false);
    if (null_fd >= 0) {
        dup2(null_fd, STDERR_FILENO);
        close(null_fd);
    }
    (void)!write(ready_fd, "", 1);
    close(ready_fd);
    ready_fd = -1;
}

/* In the process that stays: nothing of the terminal or of a pipe of the caller
 * is held, but standard error until the programs run. */
static int
settle_in_background(void)
{
    int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);

    if (null_fd < 0) {
        return -1;
    }
    setsid();
    dup2(null_fd, STDIN_FILENO);
    dup2(null_fd, STDOUT_FILENO);
    close(null_fd);
    log_copy_to_stderr(true);
    notify_when_ready(on_ready);
    return 0;
}

/* In the process that was called: wait until the other one serves. */
static int
wait_for_manager(const char *name, pid_t pid, int fd)
{
    char byte;
    int status = 0;
    ssize_t n;

    do {
        n = read(fd, &byte, 1);
    } while (n < 0 && errno == EINTR);
    if (n == 1) {
        printf("spawn-fcgi: child spawned successfully: PID: %ld\n", (long)pid);
        return 0;
    }
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    fprintf(stderr, "%s: it did not start; the lines above say why\n", name);
    return WIFEXITED(status) && WEXITSTATUS(status) != 0 ? WEXITSTATUS(status)
                                                         : MANAGER_EXIT_FAILED;
}

/* 0: go on, in the process that stays. Else *ret_code is the exit code of the
 * one that was called. */
static int
leave(const char *name, int *ret_code)
{
    int pair[2];
    pid_t pid;

    *ret_code = MANAGER_EXIT_FAILED;
    fflush(stdout);
    pid = pipe2(pair, O_CLOEXEC) == 0 ? fork() : -1;
    if (pid == 0) {
        close(pair[0]);
        ready_fd = pair[1];
        return settle_in_background();
    }
    if (pid < 0) {
        fprintf(stderr, "%s: no process to supervise: %s\n", name,
                strerror(errno));
        return -1;
    }
    close(pair[1]);
    *ret_code = wait_for_manager(name, pid, pair[0]);
    return -1;
}

/* -- start ------------------------------------------------------------------
 */

/* A copy of text, if there is any. 0 or -1. */
static int
take(const char *text, char **ret)
{
    char *copy = NULL;

    if (text != NULL && (copy = strdup(text)) == NULL) {
        return -1;
    }
    if (copy != NULL) {
        free(*ret);
        *ret = copy;
    }
    return 0;
}

/* The manager's lines go where those of the programs go; in the background not
 * to a standard error that is soon nobody's. */
static int
run(struct build *b, const struct spawn_options *o, bool inherited, bool stay)
{
    struct config config;
    int code = MANAGER_EXIT_FAILED;

    if (config_of_pool(b->s, &config) != 0) {
        settings_release(b->s);
        free(b->s);
        return code;
    }
    if (take(b->control, &config.manager.control) == 0 &&
        take(b->status_listen, &config.manager.status_listen) == 0 &&
        take(o->pidfile, &config.manager.pidfile) == 0 &&
        take(b->s->log != NULL ? b->s->log
             : stay            ? NULL
                               : "syslog",
             &config.manager.log) == 0) {
        code = manager_run(&config, NULL, inherited);
    }
    config_release(&config);
    return code;
}

int
spawn_pool(const char *name, const struct spawn_options *o,
           const struct spawn_rights *rights)
{
    struct build b = { .s = malloc(sizeof(*b.s)) };
    bool inherited, stay;
    sigset_t none;
    int code;

    if (b.s == NULL || settings_init(b.s) != 0) {
        fprintf(stderr, "%s: out of memory\n", name);
        free(b.s);
        return EXIT_USAGE;
    }
    build_settings(&b, o, rights);
    inherited = !b.failed && b.s->listen.count == 0;
    if (inherited) {
        give(&b, "listen", "fd:0");
    }
    if (b.failed || settings_finish(b.s, &b.err) != 0) {
        fprintf(stderr, "%s: %s\n", name, b.err.text);
        settings_release(b.s);
        free(b.s);
        return EXIT_USAGE;
    }
    /* What a parent blocked or ignores must not make a manager deaf. */
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    signal(SIGCHLD, SIG_DFL);
    upgrade_receive();
    inherited_close(inherited);
    /* Somebody waits for this very process: who has started it on a socket, or
     * the manager that it follows. */
    stay = o->stay || inherited;
    if (!stay && !upgrade_is_pending() && leave(name, &code) != 0) {
        settings_release(b.s);
        free(b.s);
        return code;
    }
    return run(&b, o, inherited, stay);
}
