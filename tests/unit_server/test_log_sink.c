/* SPDX-License-Identifier: MIT
 *
 * server/log_sink.c and log_target.c: order, reopening, targets that are full,
 * away or wrong. Each test has a loop of its own.
 */
#include "tests/unit_server/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <uv.h>

#include "server/log_sink.h"

static uv_loop_t loop;
static struct log_sink *sink;
static char why[512];
static int saved_stderr = -1;

static int
begin(void **state)
{
    if (unit_make_folder(state) != 0) {
        return -1;
    }
    log_set_level(LOG_LEVEL_INFO);
    return uv_loop_init(&loop);
}

static void
close_any(uv_handle_t *handle, void *arg)
{
    (void)arg;
    if (!uv_is_closing(handle)) {
        uv_close(handle, NULL);
    }
}

static int
end(void **state)
{
    log_sink_finish(&loop, 10000);
    uv_walk(&loop, close_any, NULL);
    uv_run(&loop, UV_RUN_DEFAULT);
    if (saved_stderr >= 0) {
        dup2(saved_stderr, STDERR_FILENO);
        close(saved_stderr);
        saved_stderr = -1;
    }
    return uv_loop_close(&loop) != 0 || unit_remove_folder(state) != 0 ? -1 : 0;
}

/* Descriptor 2 becomes this one until the end of the test. */
static void
replace_stderr(int fd)
{
    fflush(stderr);
    saved_stderr = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 10);
    dup2(fd, STDERR_FILENO);
    close(fd);
}

static struct log_sink *
open_sink(const char *target)
{
    sink = log_sink_open(&loop, target, why, sizeof(why));
    if (sink == NULL) {
        fail_msg("%s", why);
    }
    return sink;
}

static void
add(const char *text)
{
    log_sink_add(sink, text, strlen(text));
}

/* The contents of a file, NUL-terminated; the caller frees them. */
static char *
contents(const char *path)
{
    FILE *f = fopen(path, "r");
    char *text = NULL;
    size_t size = 0;
    ssize_t n;

    if (f == NULL) {
        return strdup("");
    }
    n = getdelim(&text, &size, '\0', f);
    fclose(f);
    if (n <= 0) {
        free(text);
        return strdup("");
    }
    return text;
}

static void
assert_contents(const char *path, const char *expected)
{
    char *text = contents(path);

    assert_string_equal(text, expected);
    free(text);
}

/* Run the loop until the file holds this. */
static void
wait_contents(const char *path, const char *expected)
{
    for (;;) {
        char *text = contents(path);
        bool same = strcmp(text, expected) == 0;

        free(text);
        if (same) {
            return;
        }
        uv_run(&loop, UV_RUN_ONCE);
    }
}

static void
test_file(void **state)
{
    char *path = unit_path(state, "log");
    char *expected = calloc(1, 1 << 20), line[64];
    struct stat st;

    for (int i = 0; i < 10000; i++) {
        if (i == 0) {
            open_sink(path);
        }
        snprintf(line, sizeof(line), "line %d\n", i);
        strcat(expected + 7 * (size_t)i, line);
        add(line);
        if (i % 1000 == 0) {
            uv_run(&loop, UV_RUN_NOWAIT);
        }
    }
    wait_contents(path, expected);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 07, 0);
    /* It is added to. */
    log_sink_release(sink);
    strcpy(expected, "old\n");
    assert_int_equal(truncate(path, 0), 0);
    open_sink(path);
    add("old\n");
    wait_contents(path, "old\n");
    log_sink_release(sink);
    open_sink(path);
    add("new\n");
    wait_contents(path, "old\nnew\n");
    free(expected);
    free(path);
}

static int
open_descriptors(void)
{
    int n = 0;

    for (int fd = 0; fd < 256; fd++) {
        n += fcntl(fd, F_GETFD) >= 0;
    }
    return n;
}

static void
test_one_sink_for_a_target(void **state)
{
    char *path = unit_path(state, "log");
    struct log_sink *first, *second;
    int before;

    uv_run(&loop, UV_RUN_NOWAIT);
    before = open_descriptors();
    first = open_sink(path);
    second = open_sink(path);
    assert_ptr_equal(first, second);
    assert_ptr_equal(log_sink_hold(first), first);
    log_sink_release(first);
    log_sink_release(first);
    add("still there\n");
    /* The last holder leaves before it is written. */
    log_sink_release(second);
    wait_contents(path, "still there\n");
    while (open_descriptors() > before + 2) { /* the thread pool's own */
        uv_run(&loop, UV_RUN_ONCE);
    }
    assert_null(log_sink_hold(NULL));
    log_sink_release(NULL);
    free(path);
}

struct answer {
    int times;
    char why[512];
};

static void
on_reopened(const char *text, void *ctx)
{
    struct answer *a = ctx;

    a->times++;
    snprintf(a->why, sizeof(a->why), "%s", text != NULL ? text : "");
}

static void
test_reopen(void **state)
{
    char *path = unit_path(state, "log"), *old = unit_path(state, "old");
    char *text;
    struct answer a = { 0 }, b = { 0 };

    open_sink(path);
    add("one\n");
    wait_contents(path, "one\n");
    assert_int_equal(rename(path, old), 0);
    add("two\n"); /* perhaps on its way to the old file already */
    log_sink_reopen(on_reopened, &a);
    log_sink_reopen(on_reopened, &b);
    add("three\n");
    while (a.times == 0 || b.times == 0) {
        uv_run(&loop, UV_RUN_ONCE);
    }
    assert_int_equal(a.times + b.times, 2);
    assert_string_equal(a.why, "");
    add("four\n");
    text = contents(old);
    if (strcmp(text, "one\n") == 0) {
        wait_contents(path, "two\nthree\nfour\n");
    } else {
        assert_string_equal(text, "one\ntwo\n");
        wait_contents(path, "three\nfour\n");
    }
    free(text);
    free(path);
    free(old);
}

static void
test_reopen_fails(void **state)
{
    char *folder = unit_path(state, "f"), *path = unit_path(state, "f/log");
    char *moved = unit_path(state, "g"), *old = unit_path(state, "g/log");
    struct answer a = { 0 };

    assert_int_equal(mkdir(folder, 0700), 0);
    open_sink(path);
    add("one\n");
    wait_contents(path, "one\n");
    assert_int_equal(rename(folder, moved), 0);
    log_sink_reopen(on_reopened, &a);
    while (a.times == 0) {
        uv_run(&loop, UV_RUN_ONCE);
    }
    assert_contains(a.why, "No such file or directory");
    assert_contains(a.why, "f/log");
    add("two\n");
    wait_contents(old, "one\ntwo\n");
    /* With no sink that could be opened anew it is over at once. */
    log_sink_release(sink);
    log_sink_finish(&loop, 1000);
    log_sink_reopen(on_reopened, &a);
    assert_int_equal(a.times, 2);
    assert_string_equal(a.why, "");
    log_sink_reopen(NULL, NULL);
    free(folder);
    free(path);
    free(moved);
    free(old);
}

static void
test_wrong_targets(void **state)
{
    char *path = unit_path(state, "no/such");

    assert_null(log_sink_open(&loop, path, why, sizeof(why)));
    assert_contains(why, path);
    assert_contains(why, "No such file or directory");
    assert_null(log_sink_open(&loop, *state, why, sizeof(why)));
    assert_contains(why, "Is a directory");
    free(path);
}

/* A pipe that nobody reads takes nothing more; what is beyond the queue is
 * dropped, counted, and told when there is room again. */
static void
test_full_pipe(void **state)
{
    char *line = malloc(100001), *got = malloc(1 << 20);
    unsigned long lines = 0, dropped = 0;
    char *told = NULL;
    size_t used = 0;
    int fds[2];

    (void)state;
    assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
    fcntl(fds[0], F_SETFL, O_NONBLOCK);
    replace_stderr(fds[1]);
    open_sink("stderr");
    log_set_output(log_sink_output(sink));
    memset(line, 'x', 99999);
    strcpy(line + 99999, "\n");
    for (int i = 0; i < 200; i++) {
        add(line);
    }
    while (told == NULL || strchr(told, '\n') == NULL) {
        ssize_t n = read(fds[0], got + used, (1 << 20) - 1 - used);

        if (n <= 0) {
            uv_run(&loop, UV_RUN_ONCE);
            continue;
        }
        for (ssize_t i = 0; i < n; i++) {
            lines += got[used + (size_t)i] == '\n';
        }
        used += (size_t)n;
        got[used] = '\0';
        told = strstr(got, " lines were dropped");
        if (told == NULL && used > 1 << 19) {
            memmove(got, got + used - 1000, 1000);
            used = 1000;
        }
    }
    while (told[-1] >= '0' && told[-1] <= '9') {
        told--;
    }
    dropped = strtoul(told, NULL, 10);
    assert_int_equal(lines - 1 + dropped, 200);
    assert_in_range(lines - 1, LOG_SINK_QUEUE_MAX / 100000 - 1,
                    LOG_SINK_QUEUE_MAX / 100000 + 2);
    log_set_output(NULL);
    close(fds[0]);
    free(line);
    free(got);
}

/* The other end of descriptor 2 is gone: nothing waits for it. */
static void
test_broken_pipe(void **state)
{
    int fds[2];

    (void)state;
    signal(SIGPIPE, SIG_IGN);
    assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
    replace_stderr(fds[1]);
    close(fds[0]);
    open_sink("stderr");
    for (int i = 0; i < 100000; i++) {
        add("nobody reads this\n");
    }
    assert_true(log_sink_finish(&loop, 0));
}

/* A file that may not grow keeps what is left in memory, in pieces of lines as
 * well, and gets it later. */
static void
test_full_file(void **state)
{
    char *path = unit_path(state, "log"), *err = unit_path(state, "err");
    struct rlimit old, small = { 10, RLIM_INFINITY };
    struct stat st = { 0 };
    char *text;

    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &old);
    open_sink(path);
    add("12345\n");
    wait_contents(path, "12345\n");
    small.rlim_max = old.rlim_max;
    setrlimit(RLIMIT_FSIZE, &small);
    add("7890abc\n");
    add("def\n");
    while (stat(path, &st) != 0 || st.st_size < 10) {
        uv_run(&loop, UV_RUN_ONCE);
    }
    setrlimit(RLIMIT_FSIZE, &old);
    assert_contents(path, "12345\n7890");
    wait_contents(path, "12345\n7890abc\ndef\n");

    /* At the end nothing waits for it; the number of lines is told. */
    replace_stderr(open(err, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    open_sink("/dev/full");
    add("a\nb\n");
    add("c\n");
    assert_true(log_sink_finish(&loop, 10000));
    text = contents(err);
    assert_contains(text, "log /dev/full: cannot be written: No space left");
    assert_contains(text, "log /dev/full: 3 lines could not be written");
    free(text);
    free(path);
    free(err);
}

static int
listen_syslog(const char *path)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    return fd;
}

/* One message, after its header was checked. */
static const char *
receive(int fd, int priority)
{
    static char got[300000];
    char head[16];
    ssize_t n;
    char *text;

    while ((n = recv(fd, got, sizeof(got) - 1, 0)) < 0) {
        uv_run(&loop, UV_RUN_ONCE);
    }
    got[n] = '\0';
    snprintf(head, sizeof(head), "<%d>", priority);
    assert_memory_equal(got, head, strlen(head));
    snprintf(head, sizeof(head), "[%ld]: ", (long)getpid());
    text = strstr(got, head);
    assert_non_null(text);
    return text + strlen(head);
}

static void
test_syslog(void **state)
{
    char *path = unit_path(state, "devlog"), *big = malloc(400001);
    int fd;

    setenv("FOREBAY_SYSLOG_SOCKET", path, 1);
    /* The daemon comes later than we. */
    open_sink("syslog");
    log_relay(log_sink_output(sink), 'E', "shop[7]", "first", 5);
    fd = listen_syslog(path);
    assert_string_equal(receive(fd, 27), "shop[7]: first");
    log_relay(log_sink_output(sink), 'W', "shop[7]",
              "a\x1f"
              "b",
              3);
    assert_string_equal(receive(fd, 28), "shop[7]: a");
    assert_string_equal(receive(fd, 28), "shop[7]: b");
    log_relay(log_sink_output(sink), 'A', "shop[7]", "said", 4);
    assert_string_equal(receive(fd, 30), "shop[7]: said");
    add("raw 1\nraw 2\n");
    assert_string_equal(receive(fd, 30), "raw 1");
    assert_string_equal(receive(fd, 30), "raw 2");
    memset(big, 'x', 399999);
    strcpy(big + 399999, "\n");
    add(big);
    add("next\n");
    assert_true(strlen(receive(fd, 30)) >= 8000);
    assert_string_equal(receive(fd, 30), "next");
    /* It was started anew. */
    close(fd);
    unlink(path);
    fd = listen_syslog(path);
    add("again\n");
    assert_string_equal(receive(fd, 30), "again");
    close(fd);
    unsetenv("FOREBAY_SYSLOG_SOCKET");
    free(path);
    free(big);
}

/* What is told about the log itself reaches it and descriptor 2. */
static void
test_the_log_itself_fails(void **state)
{
    char *err = unit_path(state, "err"), *text;

    replace_stderr(open(err, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    open_sink("/dev/full");
    log_set_output(log_sink_output(sink));
    log_info("hello");
    log_sink_finish(&loop, 10000);
    text = contents(err);
    assert_contains(text, "log /dev/full: cannot be written");
    assert_contains(text, "2 lines could not be written");
    free(text);
    free(err);
}

#define WITH_LOOP(f) cmocka_unit_test_setup_teardown(f, begin, end)

int
main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_LOOP(test_file),          WITH_LOOP(test_one_sink_for_a_target),
        WITH_LOOP(test_reopen),        WITH_LOOP(test_reopen_fails),
        WITH_LOOP(test_wrong_targets), WITH_LOOP(test_full_pipe),
        WITH_LOOP(test_broken_pipe),   WITH_LOOP(test_full_file),
        WITH_LOOP(test_syslog),        WITH_LOOP(test_the_log_itself_fails),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
