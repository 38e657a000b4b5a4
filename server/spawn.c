/* SPDX-License-Identifier: MIT
 *
 * See spawn.h. Does each thing once and ends: no log, no loop, nothing that
 * stays. What the program finds (descriptors, environment, signals, session,
 * rights) is what spawn-fcgi gives it; tests/integration/test_spawn.py holds
 * the two side by side. What the parent blocked, ignores or left open is left
 * so on purpose.
 */
#include "server/spawn.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "server/listener.h"
#include "server/log.h"
#include "server/spawn_options.h"
#include "server/spawn_pool.h"
#include "server/spawn_program.h"

/* All mistakes and failures before the first program. */
enum { EXIT_USAGE = 255 };

struct spawn {
    const char *name;
    struct spawn_options o;
    struct spawn_rights rights;
    struct listener socket;
    int pid_fd;  /* of -P; -1: none */
    int null_fd; /* for 1 and 2 of the program: there may be no /dev in -c */
};

static int __attribute__((format(printf, 2, 3)))
fail(const struct spawn *s, const char *fmt, ...)
{
    va_list args;

    fprintf(stderr, "%s: ", s->name);
    va_start(args, fmt);
    vfprintf(stderr, fmt, args);
    va_end(args);
    fputc('\n', stderr);
    return -1;
}

static void
print_usage(const char *name)
{
    printf(
        "usage: %s [options] -- PROGRAM [ARGUMENT ...]\n"
        "\n"
        "Open a socket and start a FastCGI program on it.\n"
        "\n"
        "  -s PATH     listen on a unix socket\n"
        "  -M MODE     its mode, in octal (0660 without the bits of the "
        "umask)\n"
        "  -p PORT     listen on a TCP port\n"
        "  -a ADDRESS  of this IPv4 or IPv6 address (0.0.0.0)\n"
        "  -b NUMBER   connections that may wait to be accepted (1024)\n"
        "  -d DIR      working folder of the program\n"
        "  -F NUMBER   start the program this many times (1)\n"
        "  -C NUMBER   PHP_FCGI_CHILDREN for the program; php-cgi then makes\n"
        "              that many processes itself\n"
        "  -P FILE     write the numbers of the processes to this file\n"
        "  -n          do not fork: become the program\n"
        "  -f COMMAND  a line for /bin/sh instead of PROGRAM\n"
        "  -v          the version\n"
        "  -h, -?      this text\n"
        "\n"
        "For root:\n"
        "  -u USER     run the program as this user, by name or number\n"
        "  -g GROUP    and in this group (the user's own)\n"
        "  -U USER     owner of the unix socket (as -u)\n"
        "  -G GROUP    group of the unix socket (that of -U, else as -g)\n"
        "  -c DIR      make this folder the root of the file system; -s and "
        "-d\n"
        "              are inside of it\n"
        "  -S          but make the socket before that, outside\n"
        "\n"
        "  --supervise stay and start programs anew when they end. -P is then\n"
        "              the process that supervises; with -n it stays in the\n"
        "              foreground. Settings of a pool are options as well, "
        "such\n"
        "              as --log, --control, --max-worker-memory: see\n"
        "              forebay-spawn(1) and forebay.conf(5).\n",
        name);
}

/* -- the socket -------------------------------------------------------------
 */

static int
socket_address(const struct spawn *s, struct address *ret)
{
    const struct spawn_options *o = &s->o;
    struct in6_addr ignored;
    size_t len;

    *ret = (struct address){ .fd = -1 };
    if (o->path != NULL) {
        len = strlen(o->path);
        if (len == 0 || len >= sizeof(ret->un.sun_path)) {
            return fail(s,
                        "-s: the path of a unix socket has 1 to %zu bytes, not "
                        "%zu",
                        sizeof(ret->un.sun_path) - 1, len);
        }
        ret->kind = ADDRESS_UNIX;
        ret->un.sun_family = AF_UNIX;
        memcpy(ret->un.sun_path, o->path, len + 1);
        snprintf(ret->text, sizeof(ret->text), "%s", o->path);
        return 0;
    }
    ret->kind = ADDRESS_TCP;
    snprintf(ret->host, sizeof(ret->host), "%s",
             o->address != NULL ? o->address : "0.0.0.0");
    snprintf(ret->port, sizeof(ret->port), "%d", o->port);
    snprintf(ret->text, sizeof(ret->text), "%s port %s", ret->host, ret->port);
    if (inet_pton(AF_INET, ret->host, &ignored) != 1 &&
        inet_pton(AF_INET6, ret->host, &ignored) != 1) {
        return fail(s, "-a: \"%s\" is no IPv4 or IPv6 address", o->address);
    }
    return 0;
}

static int
open_socket(struct spawn *s)
{
    const struct listener_options options = {
        .backlog = (unsigned)s->o.backlog,
        .mode = (unsigned)s->o.mode,
        .owner = s->rights.socket_uid,
        .group = s->rights.socket_gid,
        .single = true,
    };
    struct address a;
    char why[512];

    if (socket_address(s, &a) != 0) {
        return -1;
    }
    if (listener_open(&a, &options, &s->socket, 1, why, sizeof(why)) != 1) {
        return fail(s, "%s", why);
    }
    /* Programs accept on a socket that blocks. */
    if (fcntl(s->socket.fd, F_SETFL,
              fcntl(s->socket.fd, F_GETFL) & ~O_NONBLOCK) < 0) {
        return fail(s, "the socket: %s", strerror(errno));
    }
    return 0;
}

/* -- the file of -P ---------------------------------------------------------
 */

/* Before the root changes. It is emptied at once: what it says of an earlier
 * run must not stay when this one fails. Links are followed only to a file that
 * is there. */
static int
open_pidfile(struct spawn *s)
{
    const char *path = s->o.pidfile;
    struct stat st;

    s->pid_fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (s->pid_fd >= 0) {
        return 0;
    }
    if (errno == EEXIST) {
        s->pid_fd = open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC);
    }
    if (s->pid_fd < 0 && errno != ENXIO && errno != EISDIR) {
        return fail(s, "-P: %s cannot be opened: %s", path, strerror(errno));
    }
    if (s->pid_fd < 0 || fstat(s->pid_fd, &st) != 0 || !S_ISREG(st.st_mode)) {
        return fail(s, "-P: %s exists and is no file", path);
    }
    if (ftruncate(s->pid_fd, 0) != 0) {
        return fail(s, "-P: %s: %s", path, strerror(errno));
    }
    return 0;
}

/* -- rights -----------------------------------------------------------------
 */

static int
change_root(const struct spawn *s)
{
    const char *root = s->rights.root ? s->o.root : NULL;

    if (root != NULL && (chroot(root) != 0 || chdir("/") != 0)) {
        return fail(s, "-c: %s cannot be made the root folder: %s", root,
                    strerror(errno));
    }
    return 0;
}

/* Everything that takes root, in the order in which it still can be done. */
static int
prepare(struct spawn *s)
{
    const struct spawn_options *o = &s->o;
    bool early = o->socket_first || o->root == NULL || !s->rights.root;
    char why[512];

    s->null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (s->null_fd < 0) {
        return fail(s, "/dev/null: %s", strerror(errno));
    }
    if (o->pidfile != NULL && !o->stay && open_pidfile(s) != 0) {
        return -1;
    }
    if ((early && open_socket(s) != 0) || change_root(s) != 0 ||
        (!early && open_socket(s) != 0)) {
        return -1;
    }
    if (privileges_change(&s->rights.user, why, sizeof(why)) != 0) {
        return fail(s, "%s", why);
    }
    if (o->folder != NULL && chdir(o->folder) != 0) {
        return fail(s, "-d: %s cannot be the working folder: %s", o->folder,
                    strerror(errno));
    }
    return 0;
}

static int
start_programs(const struct spawn *s)
{
    const struct spawn_program program = {
        .name = s->name,
        .words = s->o.program,
        .shell = s->o.shell,
        .socket_fd = s->socket.fd,
        .null_fd = s->null_fd,
        .pid_fd = s->pid_fd,
        .pid_path = s->o.pidfile,
    };

    if (s->o.php_children >= 0) {
        char number[16];

        snprintf(number, sizeof(number), "%d", s->o.php_children);
        setenv("PHP_FCGI_CHILDREN", number, 1);
    }
    return s->o.stay ? spawn_program_become(&program)
                     : spawn_program_start(&program, s->o.children);
}

/* -- command line -----------------------------------------------------------
 */

/* What no single option can tell. */
static int
check_options(const struct spawn *s)
{
    const struct spawn_options *o = &s->o;
    bool inherited = o->supervise && listener_is_listening(STDIN_FILENO);
    bool named = false;

    for (int i = 1; i < o->more_count; i++) {
        named = named || strncmp(o->more[i], "--listen=", 9) == 0;
    }
    if (o->program == NULL && (o->shell == NULL || o->shell[0] == '\0')) {
        return fail(s, "there is no program to start; it stands behind --");
    }
    if (o->path != NULL && o->port != 0) {
        return fail(s, "-s and -p cannot be given together: a program gets "
                       "one socket");
    }
    if (o->path == NULL && o->port == 0 && !inherited && !named) {
        return fail(s, "there is nothing to listen on; give -s PATH or -p "
                       "PORT");
    }
    /* What a set-user-ID bit would let anybody start as root. */
    if (getuid() != geteuid() || getgid() != getegid()) {
        return fail(s, "this program has a set-user-ID or set-group-ID bit, "
                       "which would give root to everybody; take it away "
                       "(chmod ug-s)");
    }
    return 0;
}

static int
run(struct spawn *s)
{
    char why[512];

    if (s->o.mode < 0) {
        mode_t mask = umask(0);

        umask(mask);
        s->o.mode = (int)(0660 & ~mask);
    }
    if (check_options(s) != 0) {
        return EXIT_USAGE;
    }
    if (spawn_rights_find(&s->o, &s->rights, why, sizeof(why)) != 0) {
        fail(s, "%s", why);
        return EXIT_USAGE;
    }
    if (s->rights.unheard[0] != '\0' && !s->o.supervise) {
        fail(s, "-%s is for root; it is not heeded", s->rights.unheard);
    }
    if (s->o.supervise) {
        return spawn_pool(s->name, &s->o, &s->rights);
    }
    /* Errors come back as sentences. */
    log_set_level(LOG_LEVEL_ERROR);
    return prepare(s) == 0 ? start_programs(s) : EXIT_USAGE;
}

int
spawn_main(const char *name, int argc, char **argv)
{
    struct spawn s = { .name = name, .pid_fd = -1, .null_fd = -1 };
    char why[256];
    int code = 0;

    switch (spawn_options_read(argc, argv, &s.o, why, sizeof(why))) {
    case SPAWN_READ:
        if (s.o.help || argc == 1) {
            print_usage(name);
            code = s.o.help ? 0 : EXIT_USAGE;
        } else if (s.o.version) {
            printf("%s (forebay %s)\n", name, FOREBAY_VERSION);
        } else {
            code = run(&s);
        }
        break;
    case SPAWN_UNKNOWN:
        fail(&s, "%s", why);
        print_usage(name);
        /* spawn-fcgi ends so; scripts may have got used to it. */
        code = strcmp(name, SPAWN_FCGI) == 0 ? 0 : EXIT_USAGE;
        break;
    case SPAWN_BAD:
        fail(&s, "%s", why);
        code = EXIT_USAGE;
        break;
    }
    spawn_options_release(&s.o);
    return code;
}
