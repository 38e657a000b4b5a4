/* SPDX-License-Identifier: MIT
 *
 * server/listener.c: paths that are never stolen, modes that are right at once,
 * inherited sockets.
 */
#include "tests/unit_server/unit.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/inotify.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "server/listener.h"
#include "server/log.h"

static char why[1024];
static const struct listener_options defaults = {
    .backlog = 64,
    .mode = 0660,
    .owner = (unsigned)-1,
    .group = (unsigned)-1,
};

static int
try_open(const char *text, const struct listener_options *o,
         struct listener *ret, unsigned max)
{
    struct address a;

    if (address_parse(text, &a, why, sizeof(why)) != 0) {
        fail_msg("%s: %s", text, why);
    }
    return listener_open(&a, o, ret, max, why, sizeof(why));
}

static struct listener
opened(const char *text)
{
    struct listener l;

    if (try_open(text, &defaults, &l, 1) != 1) {
        fail_msg("%s: %s", text, why);
    }
    return l;
}

static void
refused(const char *text, const char *part)
{
    struct listener l[8];

    if (try_open(text, &defaults, l, 8) != -1) {
        fail_msg("%s was opened", text);
    }
    assert_contains(why, part);
}

static int
connects(const char *path)
{
    struct sockaddr_un un = { .sun_family = AF_UNIX };
    int fd = socket(AF_UNIX, SOCK_STREAM, 0), rc;

    snprintf(un.sun_path, sizeof(un.sun_path), "%s", path);
    rc = connect(fd, (struct sockaddr *)&un, sizeof(un));
    close(fd);
    return rc == 0;
}

static unsigned
entries(const char *folder)
{
    DIR *dir = opendir(folder);
    struct dirent *entry;
    unsigned n = 0;

    while ((entry = readdir(dir)) != NULL) {
        n += entry->d_name[0] != '.' || strlen(entry->d_name) > 2;
    }
    closedir(dir);
    return n;
}

/* A socket that nobody listens on any more, as kill -9 leaves it. */
static void
leave_stale(const char *path)
{
    struct sockaddr_un un = { .sun_family = AF_UNIX };
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);

    snprintf(un.sun_path, sizeof(un.sun_path), "%s", path);
    assert_int_equal(bind(fd, (struct sockaddr *)&un, sizeof(un)), 0);
    assert_int_equal(listen(fd, 1), 0);
    close(fd);
}

static void
test_unix(void **state)
{
    char *path = unit_path(state, "a.sock"), text[160];
    struct listener l;
    struct stat st;

    l = opened(path);
    assert_true(connects(path));
    assert_true(listener_is_listening(l.fd));
    assert_true(l.fd > 2);
    assert_true(fcntl(l.fd, F_GETFD) & FD_CLOEXEC);
    assert_true(fcntl(l.fd, F_GETFL) & O_NONBLOCK);
    assert_false(l.inherited);
    assert_string_equal(l.path, path);
    snprintf(text, sizeof(text), "unix:%s", path);
    assert_string_equal(l.text, text);
    assert_int_equal(lstat(path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0660);
    assert_int_equal(st.st_ino, l.ino);
    assert_int_equal(st.st_dev, l.dev);
    assert_int_equal(entries(*state), 1); /* no temporary name is left */
    listener_close(&l);
    assert_int_equal(lstat(path, &st), -1);
    assert_int_equal(l.fd, -1);
    listener_close(&l);
    listener_close(NULL);
    free(path);
}

/* The mode and owner are there when the path appears: watched by inotify, the
 * path is moved into place once and its attributes never change there. */
static void
test_mode_from_the_first_moment(void **state)
{
    struct listener_options o = defaults;
    char *path = unit_path(state, "m.sock");
    char events[4096] __attribute__((aligned(8)));
    unsigned moved = 0, others = 0;
    struct listener l;
    struct stat st;
    mode_t saved;
    ssize_t n;
    int watch;

    watch = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    assert_true(inotify_add_watch(watch, *state,
                                  IN_CREATE | IN_MOVED_TO | IN_ATTRIB) >= 0);
    saved = umask(0);
    o.mode = 0604;
    if (geteuid() == 0) {
        o.owner = 61234;
        o.group = 61235;
    }
    assert_int_equal(try_open(path, &o, &l, 1), 1);
    assert_int_equal(umask(saved), 0); /* is as it was */
    while ((n = read(watch, events, sizeof(events))) > 0) {
        for (char *p = events; p < events + n;) {
            struct inotify_event *e = (struct inotify_event *)(void *)p;

            if (strcmp(e->name, "m.sock") == 0) {
                moved += (e->mask & IN_MOVED_TO) != 0;
                others += (e->mask & IN_MOVED_TO) == 0;
            }
            p += sizeof(*e) + e->len;
        }
    }
    close(watch);
    assert_int_equal(moved, 1);
    assert_int_equal(others, 0);
    assert_int_equal(lstat(path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0604);
    if (geteuid() == 0) {
        assert_int_equal(st.st_uid, 61234);
        assert_int_equal(st.st_gid, 61235);
    }
    listener_close(&l);
    free(path);
}

static void
test_live_is_refused(void **state)
{
    char *path = unit_path(state, "live.sock");
    struct listener l = opened(path);
    struct sockaddr_un un = { .sun_family = AF_UNIX };
    struct stat st;
    int fd;

    refused(path, "already in use by a running server");
    assert_true(connects(path));
    lstat(path, &st);
    assert_int_equal(st.st_ino, l.ino);
    assert_int_equal(entries(*state), 1);
    listener_close(&l);

    /* Alive too: another kind of socket, and one whose queue is full. */
    fd = socket(AF_UNIX, SOCK_DGRAM, 0);
    snprintf(un.sun_path, sizeof(un.sun_path), "%s", path);
    assert_int_equal(bind(fd, (struct sockaddr *)&un, sizeof(un)), 0);
    refused(path, "already in use");
    close(fd);
    unlink(path);
    fd = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&un, sizeof(un)), 0);
    assert_int_equal(listen(fd, 0), 0);
    {
        int c1 = socket(AF_UNIX, SOCK_STREAM, 0);

        assert_int_equal(connect(c1, (struct sockaddr *)&un, sizeof(un)), 0);
        refused(path, "already in use");
        close(c1);
    }
    close(fd);
    free(path);
}

static void
test_stale_is_replaced(void **state)
{
    char *path = unit_path(state, "stale.sock");
    struct listener l;
    struct stat before, after;

    leave_stale(path);
    lstat(path, &before);
    l = opened(path);
    lstat(path, &after);
    assert_true(connects(path));
    assert_int_equal(after.st_ino, l.ino);
    assert_int_equal(entries(*state), 1);
    listener_close(&l);
    free(path);
}

static char *
content(const char *path)
{
    static char text[32];
    FILE *f = fopen(path, "r");

    assert_non_null(f);
    memset(text, 0, sizeof(text));
    assert_true(fread(text, 1, sizeof(text) - 1, f) > 0);
    fclose(f);
    return text;
}

static void
test_others_are_not_touched(void **state)
{
    char *path = unit_path(state, "x"), *target = unit_path(state, "target");
    char *socket_path = unit_path(state, "real.sock"), link[256];
    struct listener l;
    FILE *f;

    f = fopen(path, "w");
    fputs("precious", f);
    fclose(f);
    refused(path, "a regular file, not a socket");
    assert_string_equal(content(path), "precious");
    unlink(path);

    assert_int_equal(symlink(target, path), 0); /* dangling */
    refused(path, "a symbolic link");
    assert_int_equal(access(target, F_OK), -1);
    assert_true(readlink(path, link, sizeof(link)) > 0);
    unlink(path);

    /* A link to a socket, dead or alive, is a link as well. */
    leave_stale(socket_path);
    assert_int_equal(symlink(socket_path, path), 0);
    refused(path, "a symbolic link");
    unlink(socket_path);
    l = opened(socket_path);
    refused(path, "a symbolic link");
    assert_true(connects(socket_path));
    listener_close(&l);
    unlink(path);

    assert_int_equal(mkdir(path, 0700), 0);
    refused(path, "a folder");
    assert_int_equal(rmdir(path), 0);
    assert_int_equal(mkfifo(path, 0600), 0);
    refused(path, "a special file");
    free(path);
    free(target);
    free(socket_path);
}

static void
test_folder(void **state)
{
    char *path = unit_path(state, "no/such/x.sock");
    char *file = unit_path(state, "file"), *below = unit_path(state, "file/x");

    refused(path, "does not exist");
    assert_contains(why, "/no/such");
    close(open(file, O_CREAT | O_WRONLY, 0600));
    refused(below, "is no folder");
    free(path);
    free(file);
    free(below);
}

/* Even the longest path that fits can be listened on. */
static void
test_longest_path(void **state)
{
    char path[108];
    struct listener l;
    size_t used = strlen(*state);

    memset(path, 'p', sizeof(path));
    memcpy(path, *state, used);
    path[used] = '/';
    path[107] = '\0';
    l = opened(path);
    assert_true(connects(path));
    assert_int_equal(entries(*state), 1);
    listener_close(&l);
    assert_int_equal(entries(*state), 0);
    leave_stale(path);
    l = opened(path);
    assert_true(connects(path));
    listener_close(&l);
}

/* An old server that stops must not take the new one's path away. */
static void
test_only_own_inode_is_removed(void **state)
{
    char *path = unit_path(state, "own.sock");
    struct listener old, new;
    FILE *f;

    old = opened(path);
    unlink(path);
    new = opened(path);
    listener_close(&old);
    assert_true(connects(path));
    listener_close(&new);
    assert_int_equal(access(path, F_OK), -1);

    old = opened(path);
    unlink(path);
    f = fopen(path, "w");
    fputs("mine", f);
    fclose(f);
    listener_close(&old);
    assert_string_equal(content(path), "mine");
    unlink(path);

    /* Nor is the path of a socket that somebody else made. */
    old = opened(path);
    new.fd = -1;
    assert_int_equal(listener_inherit(dup(old.fd), &new, why, sizeof(why)), 0);
    listener_close(&new);
    assert_true(connects(path));
    listener_close(&old);
    free(path);
}

/* One runner: waits for the word, tries, tells, and keeps what it got until
 * all have tried. */
static void
run_for_path(const char *path, int go, int told, int done)
{
    struct listener l;
    char c;

    if (read(go, &c, 1) != 0) {
        _exit(1);
    }
    c = try_open(path, &defaults, &l, 1) == 1 ? 'w' : 'l';
    if (write(told, &c, 1) != 1 || read(done, &c, 1) != 0) {
        _exit(1);
    }
    _exit(0);
}

/* Of several that start at once on one dead path exactly one gets it. */
static void
test_race_for_one_path(void **state)
{
    enum { RUNNERS = 8, ROUNDS = 10 };
    char *path = unit_path(state, "race.sock"), word[RUNNERS];
    int go[2], told[2], done[2], status, good = 0;

    for (int round = 0; round < ROUNDS; round++) {
        int winners = 0, alive;

        leave_stale(path);
        assert_int_equal(pipe(go), 0);
        assert_int_equal(pipe(told), 0);
        assert_int_equal(pipe(done), 0);
        for (int i = 0; i < RUNNERS; i++) {
            pid_t pid = fork();

            assert_true(pid >= 0);
            if (pid == 0) {
                close(go[1]);
                close(done[1]);
                run_for_path(path, go[0], told[1], done[0]);
            }
        }
        close(go[0]);
        close(go[1]); /* all at once */
        close(told[1]);
        for (int i = 0; i < RUNNERS; i++) {
            winners += read(told[0], &word[i], 1) == 1 && word[i] == 'w';
        }
        alive = connects(path);
        close(told[0]);
        close(done[0]);
        close(done[1]);
        for (int i = 0; i < RUNNERS; i++) {
            alive = alive && wait(&status) > 0 && status == 0;
        }
        unlink(path);
        good += alive && winners == 1;
    }
    assert_int_equal(good, ROUNDS);
    free(path);
}

static unsigned
port_of(int fd)
{
    struct sockaddr_storage sa;
    socklen_t len = sizeof(sa);

    assert_int_equal(getsockname(fd, (struct sockaddr *)&sa, &len), 0);
    return sa.ss_family == AF_INET
               ? ntohs(((struct sockaddr_in *)(void *)&sa)->sin_port)
               : ntohs(((struct sockaddr_in6 *)(void *)&sa)->sin6_port);
}

static int
option(int fd, int level, int name)
{
    int value = -1;
    socklen_t len = sizeof(value);

    assert_int_equal(getsockopt(fd, level, name, &value, &len), 0);
    return value;
}

static void
test_tcp(void **state)
{
    struct listener l, second;
    char text[64];
    int fd, accepted;
    struct sockaddr_storage sa;
    socklen_t len = sizeof(sa);

    (void)state;
    l = opened("127.0.0.1:0");
    assert_true(port_of(l.fd) > 0);
    snprintf(text, sizeof(text), "127.0.0.1:%u", port_of(l.fd));
    assert_string_equal(l.text, text);
    assert_string_equal(l.path, "");
    assert_true(fcntl(l.fd, F_GETFD) & FD_CLOEXEC);
    assert_true(fcntl(l.fd, F_GETFL) & O_NONBLOCK);
    assert_int_equal(option(l.fd, SOL_SOCKET, SO_REUSEADDR), 1);

    /* TCP_NODELAY is inherited by what is accepted. */
    getsockname(l.fd, (struct sockaddr *)&sa, &len);
    fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&sa, len), 0);
    accepted = accept(l.fd, NULL, NULL);
    assert_true(accepted >= 0);
    assert_true(option(accepted, IPPROTO_TCP, TCP_NODELAY) != 0);
    close(fd);
    close(accepted);

    refused(text, "already in use by another program");
    assert_contains(why, text);
    listener_close(&l);
    second = opened(text); /* at once again, whatever is in TIME_WAIT */
    listener_close(&second);
    refused("192.0.2.1:0", "no such address");
}

static void
test_tcp_ipv6(void **state)
{
    struct listener l, v4;
    char text[64];

    (void)state;
    if (try_open("[::1]:0", &defaults, &l, 1) != 1) {
        skip();
    }
    assert_int_equal(option(l.fd, IPPROTO_IPV6, IPV6_V6ONLY), 1);
    snprintf(text, sizeof(text), "[::1]:%u", port_of(l.fd));
    assert_string_equal(l.text, text);
    listener_close(&l);

    /* V6ONLY: the same port of all v4 addresses is free beside [::]. */
    l = opened("[::]:0");
    snprintf(text, sizeof(text), "0.0.0.0:%u", port_of(l.fd));
    v4 = opened(text);
    listener_close(&v4);
    listener_close(&l);
}

/* ":port" is this machine alone. */
static void
test_tcp_loopback(void **state)
{
    struct listener l[4];
    int n;

    (void)state;
    n = try_open(":0", &defaults, l, 4);
    assert_true(n == 1 || n == 2);
    assert_int_equal(strncmp(l[0].text, "127.0.0.1:", 10), 0);
    if (n == 2) {
        assert_int_equal(strncmp(l[1].text, "[::1]:", 6), 0);
        listener_close(&l[1]);
        /* No room for both is an error, not half a service. */
        assert_int_equal(try_open(":0", &defaults, &l[1], 1), -1);
        assert_contains(why, "left room");
    }
    listener_close(&l[0]);
    assert_int_equal(try_open(":0", &defaults, l, 0), -1);
}

/* A program gets one socket: what means several is one. */
static void
test_single(void **state)
{
    struct listener_options o = defaults;
    struct listener l;
    int only = -1;
    socklen_t len = sizeof(only);

    (void)state;
    o.single = true;
    assert_int_equal(try_open(":0", &o, &l, 1), 1);
    assert_int_equal(strncmp(l.text, "127.0.0.1:", 10), 0);
    listener_close(&l);
    assert_int_equal(try_open("*:0", &o, &l, 4), 1);
    if (strncmp(l.text, "[::]:", 5) == 0) {
        assert_int_equal(
            getsockopt(l.fd, IPPROTO_IPV6, IPV6_V6ONLY, &only, &len), 0);
        assert_int_equal(only, 0);
    } else { /* no IPv6 here */
        assert_int_equal(strncmp(l.text, "0.0.0.0:", 8), 0);
    }
    listener_close(&l);
}

/* In the working folder, as `forebay spawn -s NAME` has it. */
static void
test_without_a_folder(void **state)
{
    struct address a = { .kind = ADDRESS_UNIX, .un.sun_family = AF_UNIX };
    char *path = unit_path(state, "a.sock"), *here = getcwd(NULL, 0);
    struct listener l;

    assert_int_equal(chdir(*state), 0);
    snprintf(a.un.sun_path, sizeof(a.un.sun_path), "a.sock");
    assert_int_equal(listener_open(&a, &defaults, &l, 1, why, sizeof(why)), 1);
    assert_true(connects(path));
    assert_int_equal(listener_open(&a, &defaults, &l, 1, why, sizeof(why)), -1);
    assert_contains(why, "already in use");
    assert_int_equal(entries(*state), 1);
    listener_close(&l);
    assert_int_equal(entries(*state), 0);
    assert_int_equal(chdir(here), 0);
    free(here);
    free(path);
}

static void
test_inherit(void **state)
{
    struct listener l = opened("127.0.0.1:0"), other;
    char text[80];
    int fd, stream;

    (void)state;
    fd = dup(l.fd);
    fcntl(fd, F_SETFL, 0);
    snprintf(text, sizeof(text), "fd:%d", fd);
    other = opened(text);
    assert_true(other.inherited);
    assert_int_equal(other.fd, fd);
    assert_true(fcntl(fd, F_GETFL) & O_NONBLOCK);
    assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
    assert_contains(other.text, l.text);
    listener_close(&other);
    refused(text, "not open");

    stream = socket(AF_INET, SOCK_STREAM, 0);
    snprintf(text, sizeof(text), "fd:%d", stream);
    refused(text, "not a listening stream socket");
    assert_false(listener_is_listening(stream));
    close(stream);
    stream = socket(AF_INET, SOCK_DGRAM, 0);
    snprintf(text, sizeof(text), "fd:%d", stream);
    refused(text, "not a listening stream socket");
    close(stream);
    stream = open("/dev/null", O_RDONLY);
    snprintf(text, sizeof(text), "fd:%d", stream);
    refused(text, "not a listening stream socket");
    assert_false(listener_is_listening(stream));
    close(stream);
    assert_false(listener_is_listening(-1));
    listener_close(&l);
}

/* lighttpd and mod_fcgid pass the socket as descriptor 0. */
static void
test_inherit_zero(void **state)
{
    struct listener l = opened("127.0.0.1:0"), other = { .fd = -1 };
    int saved = dup(0), rc, moved, valid;
    struct stat st, null_st;

    (void)state;
    dup2(l.fd, 0);
    rc = listener_inherit(0, &other, why, sizeof(why));
    moved = other.fd;
    fstat(0, &st);
    stat("/dev/null", &null_st);
    valid = listener_is_listening(moved);
    dup2(saved, 0);
    close(saved);
    assert_int_equal(rc, 0);
    assert_true(moved > 2);
    assert_true(valid);
    assert_true(fcntl(moved, F_GETFD) & FD_CLOEXEC);
    assert_int_equal(st.st_rdev, null_st.st_rdev);
    listener_close(&other);
    listener_close(&l);
}

static int
systemd_child(void)
{
    struct listener l[4];
    int a, b, out;
    char pid[24];

    if (try_open("127.0.0.1:0", &defaults, &l[0], 1) != 1 ||
        try_open("127.0.0.1:0", &defaults, &l[1], 1) != 1) {
        return 10;
    }
    /* Descriptors 3 and 4, as systemd does. */
    a = fcntl(l[0].fd, F_DUPFD, 20);
    b = fcntl(l[1].fd, F_DUPFD, 20);
    dup2(a, 3);
    dup2(b, 4);
    snprintf(pid, sizeof(pid), "%ld", (long)getpid());
    setenv("LISTEN_FDS", "2", 1);
    setenv("LISTEN_FDNAMES", "web:admin", 1);
    setenv("LISTEN_PID", "1", 1); /* meant for somebody else */
    if (try_open("systemd", &defaults, l, 4) != -1 ||
        strstr(why, "no sockets were passed") == NULL) {
        return 11;
    }
    setenv("LISTEN_PID", pid, 1);
    if (try_open("systemd:nobody", &defaults, l, 4) != -1 ||
        strstr(why, "web:admin") == NULL) {
        return 12;
    }
    if (try_open("systemd", &defaults, l, 1) != -1) {
        return 13; /* too many; the first was closed again */
    }
    out = dup2(a, 3);
    if (try_open("systemd", &defaults, l, 4) != 2 || l[0].fd != out ||
        l[1].fd != 4 || !l[1].inherited) {
        return 14;
    }
    if (try_open("systemd:admin", &defaults, l, 4) != 1 || l[0].fd != 4) {
        return 15;
    }
    setenv("LISTEN_FDS", "3", 1); /* descriptor 5 is none */
    dup2(open("/dev/null", O_RDONLY), 5);
    return try_open("systemd", &defaults, l, 4) == -1 ? 0 : 16;
}

static void
test_systemd(void **state)
{
    int status;
    pid_t pid;

    (void)state;
    unsetenv("LISTEN_PID");
    refused("systemd", "no sockets were passed");
    pid = fork();
    if (pid == 0) {
        _exit(systemd_child());
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

static char logged[2000];

static void
collect(struct log_output *self, char level, const char *data, size_t len)
{
    size_t used = strlen(logged);

    (void)self;
    (void)level;
    snprintf(logged + used, sizeof(logged) - used, "%.*s", (int)len, data);
}

static struct log_output collector = { .write = collect };

/* The kernel's limit is told with both numbers, once. */
static void
test_backlog_warning(void **state)
{
    struct listener_options o = defaults;
    char *path = unit_path(state, "b.sock"), number[40], *first;
    FILE *f = fopen("/proc/sys/net/core/somaxconn", "r");
    unsigned cap = 0;
    struct listener l;

    if (f == NULL || fscanf(f, "%u", &cap) != 1) {
        skip();
    }
    fclose(f);
    log_set_output(&collector);
    o.backlog = cap;
    assert_int_equal(try_open(path, &o, &l, 1), 1);
    listener_close(&l);
    assert_string_equal(logged, "");
    for (int i = 0; i < 2; i++) {
        o.backlog = cap + 1;
        assert_int_equal(try_open(path, &o, &l, 1), 1);
        listener_close(&l);
    }
    log_set_output(NULL);
    snprintf(number, sizeof(number), "backlog is %u", cap + 1);
    assert_contains(logged, number);
    snprintf(number, sizeof(number), "allows %u", cap);
    assert_contains(logged, number);
    assert_contains(logged, "net.core.somaxconn");
    first = strstr(logged, "somaxconn");
    assert_null(strstr(first + 1, "somaxconn"));
    free(path);
}

#define IN_FOLDER(f)                                                           \
    cmocka_unit_test_setup_teardown(f, unit_make_folder, unit_remove_folder)

int
main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FOLDER(test_unix),
        IN_FOLDER(test_mode_from_the_first_moment),
        IN_FOLDER(test_live_is_refused),
        IN_FOLDER(test_stale_is_replaced),
        IN_FOLDER(test_others_are_not_touched),
        IN_FOLDER(test_folder),
        IN_FOLDER(test_longest_path),
        IN_FOLDER(test_without_a_folder),
        IN_FOLDER(test_only_own_inode_is_removed),
        IN_FOLDER(test_race_for_one_path),
        cmocka_unit_test(test_tcp),
        cmocka_unit_test(test_tcp_ipv6),
        cmocka_unit_test(test_tcp_loopback),
        cmocka_unit_test(test_single),
        cmocka_unit_test(test_inherit),
        cmocka_unit_test(test_inherit_zero),
        cmocka_unit_test(test_systemd),
        IN_FOLDER(test_backlog_warning),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
