/* SPDX-License-Identifier: MIT
 *
 * server/log_relay.c and access_relay.c: bytes of pipes become lines.
 */
#include "tests/unit_server/unit.h"

#include <fcntl.h>
#include <uv.h>

#include "server/access_relay.h"
#include "server/log_pipe.h"
#include "server/log_relay.h"

static uv_loop_t loop;
static struct log_source *source;
static int out = -1;
static char collected[5 << 20];
static size_t used;

/* "W text\n" each: level and what follows the prefix. */
static void
collect(struct log_output *self, char level, const char *lines, size_t len)
{
    (void)self;
    assert_true(used + len + 3 < sizeof(collected));
    used += (size_t)snprintf(collected + used, sizeof(collected) - used,
                             "%c %.*s", level, (int)len, lines);
}

static struct log_output collector = { .write = collect, .bare = true };

static void
close_any(uv_handle_t *handle, void *arg)
{
    (void)arg;
    if (!uv_is_closing(handle)) {
        uv_close(handle, NULL);
    }
}

static int
begin(void **state)
{
    int fds[2];

    if (unit_make_folder(state) != 0 || pipe2(fds, O_CLOEXEC) != 0) {
        return -1;
    }
    used = 0;
    collected[0] = '\0';
    uv_loop_init(&loop);
    log_set_output(&collector);
    source = log_source_open(&loop, fds[0], "shop", NULL, NULL);
    out = fds[1];
    return source != NULL ? 0 : -1;
}

static int
end(void **state)
{
    if (out >= 0) {
        close(out);
        out = -1;
    }
    log_relay_drain();
    access_relay_drain();
    log_set_output(NULL);
    log_sink_finish(&loop, 10000);
    uv_walk(&loop, close_any, NULL);
    uv_run(&loop, UV_RUN_DEFAULT);
    return uv_loop_close(&loop) != 0 || unit_remove_folder(state) != 0 ? -1 : 0;
}

static void
say_bytes(const char *data, size_t len)
{
    while (len > 0) {
        ssize_t n = write(out, data, len < 65536 ? len : 65536);

        assert_true(n > 0);
        data += n;
        len -= (size_t)n;
        uv_run(&loop, UV_RUN_NOWAIT);
    }
    uv_run(&loop, UV_RUN_NOWAIT);
}

static void
say(const char *text)
{
    say_bytes(text, strlen(text));
}

static void
test_lines(void **state)
{
    (void)state;
    log_source_pid(source, 7);
    say("one\ntwo\n\nth");
    assert_string_equal(collected,
                        "A shop[7]: one\nA shop[7]: two\nA shop[7]: \n");
    used = 0;
    say("ree\nx");
    assert_string_equal(collected, "A shop[7]: three\n");
    used = 0;
    for (const char *p = "y\nz\n"; *p != '\0'; p++) {
        say_bytes(p, 1);
    }
    assert_string_equal(collected, "A shop[7]: xy\nA shop[7]: z\n");
    /* The rest, when the last writer has gone. */
    used = 0;
    say("rest");
    close(out);
    out = -1;
    uv_run(&loop, UV_RUN_NOWAIT);
    assert_string_equal(collected, "A shop[7]: rest\n");
    log_source_pid(source, 8); /* it is gone: nothing happens */
}

static void
test_messages(void **state)
{
    (void)state;
    log_source_pid(source, 7);
    say(LOG_MARK "Whello\n" LOG_MARK "E\n" LOG_MARK "Ea\x1f"
                 "b\n");
    assert_string_equal(collected, "W shop[7]: hello\nE shop[7]: \n"
                                   "E shop[7]: a\nshop[7]: b\n");
    /* Behind text without a newline. */
    used = 0;
    say("begun" LOG_MARK "Iinfo\nended\n");
    assert_string_equal(collected, "A shop[7]: begun\nI shop[7]: info\n"
                                   "A shop[7]: ended\n");
    /* Behind messages that were cut. */
    used = 0;
    say("a" LOG_MARK "Icut" LOG_MARK "P0000000000000001x" LOG_MARK
        "Wwhole\n" LOG_MARK "Q0000000000000001y\n");
    assert_string_equal(collected, "A shop[7]: a\nI shop[7]: cut\n"
                                   "W shop[7]: whole\nA shop[7]: xy\n");
    /* What only looks like one. */
    used = 0;
    say("\x1e"
        "E\n\x1e\x1f\n" LOG_MARK "\n");
    assert_string_equal(collected, "A shop[7]: \\x1eE\nA shop[7]: \\x1e\\x1f\n"
                                   "A shop[7]: \\x1e\\x1f\\x1e\n");
    used = 0;
    say(LOG_MARK "?what\n" LOG_MARK "Dhidden\n");
    assert_string_equal(collected, "I shop[7]: what\n");
}

#define ID_A "00000000000004a1"
#define ID_B "00000000000004b1"

/* Lines of several threads, in pieces that come mixed. */
static void
test_pieces(void **state)
{
    size_t half = LOG_RELAY_LINE_MAX / 2 + 1;
    char *big = malloc(half + 100);

    (void)state;
    log_source_pid(source, 7);
    say(LOG_MARK "P" ID_A "one, \n" LOG_MARK "P" ID_B "two, \n" LOG_MARK
                 "P" ID_A "more\nwhole\n" LOG_MARK "Wwarning\n");
    assert_string_equal(collected, "A shop[7]: whole\nW shop[7]: warning\n");
    used = 0;
    say(LOG_MARK "Q" ID_B "ended\n" LOG_MARK "Q" ID_A "\n");
    assert_string_equal(collected,
                        "A shop[7]: two, ended\nA shop[7]: one, more\n");
    /* Only the end, because the rest was lost. */
    used = 0;
    collected[0] = '\0';
    say(LOG_MARK "Q" ID_A "\n");
    assert_string_equal(collected, "");
    say(LOG_MARK "Q" ID_A "end\n");
    assert_string_equal(collected, "A shop[7]: end\n");
    used = 0;
    say(LOG_MARK "P123\n");
    assert_string_equal(collected, "I shop[7]: 123\n"); /* none of ours */
    /* Too long: broken. */
    used = 0;
    snprintf(big, half, LOG_MARK "P" ID_A);
    memset(big + strlen(big), 'x', half);
    big[half - 1] = '\n';
    say_bytes(big, half);
    say_bytes(big, half);
    say_bytes(big, half);
    assert_int_equal(used, 2 * (half - LOG_MARK_LEN - LOG_ID_LEN - 2) +
                               sizeof("A shop[7]: "));
    /* The process dies within a line. */
    used = 0;
    say(LOG_MARK "P" ID_B "last words\n");
    close(out);
    out = -1;
    uv_run(&loop, UV_RUN_NOWAIT);
    assert_non_null(strstr(collected, "A shop[7]: last words\n"));
    assert_non_null(strstr(collected, "A shop[7]: xxx"));
    free(big);
}

/* Lines that come before anybody knows the number of the process. */
static void
test_late_pid(void **state)
{
    (void)state;
    say("one\ntwo\nthr");
    assert_string_equal(collected, "");
    log_source_pid(source, 7);
    assert_string_equal(collected, "A shop[7]: one\nA shop[7]: two\n");
    used = 0;
    say("ee\n");
    assert_string_equal(collected, "A shop[7]: three\n");
}

static void
test_no_pid_at_all(void **state)
{
    (void)state;
    say("one\ntwo");
    close(out);
    out = -1;
    uv_run(&loop, UV_RUN_NOWAIT);
    assert_string_equal(collected, "A shop[0]: one\nA shop[0]: two\n");
}

/* A megabyte is one line; beyond that it is broken. */
static void
test_long_lines(void **state)
{
    size_t most = LOG_RELAY_LINE_MAX;
    char *big = malloc(most + 11), *line = collected;

    (void)state;
    log_source_pid(source, 7);
    memset(big, 'x', most + 10);
    big[most] = '\n';
    say_bytes(big, most + 1);
    assert_int_equal(used, most + strlen("A shop[7]: \n"));
    used = 0;
    big[most] = 'x';
    big[most + 10] = '\n';
    say_bytes(big, most + 11);
    line = strchr(collected, '\n');
    assert_int_equal(line - collected, most + strlen("A shop[7]: "));
    assert_string_equal(line + 1, "A shop[7]: xxxxxxxxxx\n");
    free(big);
}

/* Bytes that need four times the room in the log. */
static void
test_binary_megabyte(void **state)
{
    size_t most = LOG_RELAY_LINE_MAX;
    char *big = malloc(most + 1);

    (void)state;
    log_source_pid(source, 7);
    memset(big, '\x01', most);
    big[most] = '\n';
    say_bytes(big, most + 1);
    assert_int_equal(used, 4 * most + strlen("A shop[7]: \n"));
    free(big);
}

/* A line that nobody ends. */
static void
test_patience(void **state)
{
    (void)state;
    log_source_pid(source, 7);
    say("whole\nbegun");
    assert_string_equal(collected, "A shop[7]: whole\n");
    used = 0;
    while (used == 0) {
        uv_run(&loop, UV_RUN_ONCE);
    }
    assert_string_equal(collected, "A shop[7]: begun\n");
}

/* Reports about slow requests have a file of their own, if there is one. */
static void
test_sinks(void **state)
{
    char *path = unit_path(state, "slow"), why[200], text[200];
    struct log_sink *slow = log_sink_open(&loop, path, why, sizeof(why));
    int fds[2];
    FILE *f;

    assert_non_null(slow);
    log_source_pid(source, 7);
    say(LOG_MARK "Sslow\n");
    assert_string_equal(collected, "S shop[7]: slow\n");
    used = 0;
    assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
    close(out);
    out = fds[1];
    source = log_source_open(&loop, fds[0], "shop", NULL, slow);
    log_sink_release(slow);
    log_source_pid(source, 8);
    say(LOG_MARK "Sslow\n" LOG_MARK "Wwarning\ntext\n");
    assert_string_equal(collected, "W shop[8]: warning\nA shop[8]: text\n");
    log_relay_drain();
    log_sink_finish(&loop, 10000);
    f = fopen(path, "r");
    assert_non_null(f);
    assert_non_null(fgets(text, sizeof(text), f));
    assert_contains(text, " SLOW  shop[8]: slow\n");
    assert_null(fgets(text, sizeof(text), f));
    fclose(f);
    free(path);
}

/* Lines of the access log go on as they are, many at a time and whole. */
static void
test_access(void **state)
{
    char *path = unit_path(state, "access"), why[200], line[4096];
    struct log_sink *sink = log_sink_open(&loop, path, why, sizeof(why));
    unsigned lines = 0;
    size_t len;
    FILE *f;
    int fd;

    assert_non_null(sink);
    assert_int_equal(access_relay_open(&loop, sink, &fd), 0);
    log_sink_release(sink);
    assert_true(fcntl(fd, F_GETFL) & O_NONBLOCK);
    assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
    for (int i = 0; i < 1000; i++) {
        len = (size_t)(100 + i * 37 % 3900);
        memset(line, 'a' + i % 26, len);
        line[len] = '\n';
        while (write(fd, line, len + 1) < 0) {
            uv_run(&loop, UV_RUN_ONCE);
        }
    }
    assert_int_equal(write(fd, "rest", 4), 4); /* nobody of ours does that */
    close(fd);
    access_relay_drain();
    log_sink_finish(&loop, 10000);
    f = fopen(path, "r");
    assert_non_null(f);
    while (fgets(line, sizeof(line), f) != NULL) {
        len = strlen(line) - 1;
        assert_int_equal(line[len], '\n');
        line[len] = '\0';
        assert_int_equal(len, 100 + lines * 37 % 3900);
        assert_int_equal(
            strspn(line, (char[]){ (char)('a' + lines % 26), '\0' }), len);
        lines++;
    }
    assert_int_equal(lines, 1000);
    fclose(f);
    free(path);
}

/* The pipe closes itself behind the last writer. */
static void
test_access_end(void **state)
{
    char *path = unit_path(state, "access"), why[200], line[100] = "";
    struct log_sink *sink = log_sink_open(&loop, path, why, sizeof(why));
    int fd;

    assert_int_equal(access_relay_open(&loop, sink, &fd), 0);
    log_sink_release(sink);
    assert_int_equal(write(fd, "last\n", 5), 5);
    close(fd);
    while (line[0] == '\0') {
        FILE *f = fopen(path, "r");

        assert_non_null(f);
        if (fgets(line, sizeof(line), f) == NULL) {
            uv_run(&loop, UV_RUN_ONCE);
        }
        fclose(f);
    }
    assert_string_equal(line, "last\n");
    free(path);
}

#define WITH_PIPE(f) cmocka_unit_test_setup_teardown(f, begin, end)

int
main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_PIPE(test_lines),           WITH_PIPE(test_messages),
        WITH_PIPE(test_pieces),          WITH_PIPE(test_late_pid),
        WITH_PIPE(test_no_pid_at_all),   WITH_PIPE(test_long_lines),
        WITH_PIPE(test_binary_megabyte), WITH_PIPE(test_patience),
        WITH_PIPE(test_sinks),           WITH_PIPE(test_access),
        WITH_PIPE(test_access_end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
