/* SPDX-License-Identifier: MIT
 *
 * server/log.c: lines for people, messages for the manager, escaping.
 */
#include "tests/unit_server/unit.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>

#include "server/log.h"
#include "server/log_pipe.h"

static int saved_stderr, in, out;
static char text[300000];

/* Descriptor 2 becomes a pipe; what cmocka has to say goes to the old one. */
static int
catch_stderr(void **state)
{
    int fds[2];

    (void)state;
    if (pipe2(fds, O_CLOEXEC) != 0) {
        return -1;
    }
    in = fds[0];
    out = fds[1];
    fcntl(in, F_SETFL, O_NONBLOCK);
    fcntl(in, F_SETPIPE_SZ, 1 << 20);
    fflush(stderr);
    saved_stderr = dup(STDERR_FILENO);
    dup2(out, STDERR_FILENO);
    log_set_level(LOG_LEVEL_INFO);
    log_to_manager(-1);
    return 0;
}

static int
give_stderr_back(void **state)
{
    (void)state;
    log_to_manager(-1);
    log_set_output(NULL);
    dup2(saved_stderr, STDERR_FILENO);
    close(saved_stderr);
    close(in);
    close(out);
    return 0;
}

/* All that was written, NUL-terminated in text. */
static size_t
caught(void)
{
    size_t len = 0;
    ssize_t n;

    while ((n = read(in, text + len, sizeof(text) - 1 - len)) > 0) {
        len += (size_t)n;
    }
    text[len] = '\0';
    return len;
}

/* The message of a line for people, after its prefix has been checked:
 * "2024-01-31 12:00:00.123 INFO  forebay[4711]: ". */
static const char *
after_prefix(const char *line, const char *level, const char *who)
{
    static const char shape[] = "0000-00-00 00:00:00.000 ";
    char expected[80];

    for (size_t i = 0; shape[i] != '\0'; i++) {
        if (shape[i] == '0' ? !isdigit((unsigned char)line[i])
                            : line[i] != shape[i]) {
            fail_msg("no time in front of: %s", line);
        }
    }
    line += sizeof(shape) - 1;
    snprintf(expected, sizeof(expected), "%-5s %s: ", level, who);
    if (strncmp(line, expected, strlen(expected)) != 0) {
        fail_msg("\"%s\" does not begin with \"%s\"", line, expected);
    }
    return line + strlen(expected);
}

static const char *
me(void)
{
    static char who[40];

    snprintf(who, sizeof(who), "forebay[%ld]", (long)getpid());
    return who;
}

/* A configuration's level counts until the command line has set one. */
static void
test_suggested_level(void **state)
{
    enum log_level level;

    (void)state;
    assert_int_equal(log_get_level(), LOG_LEVEL_INFO);
    log_suggest_level(LOG_LEVEL_DEBUG);
    assert_int_equal(log_get_level(), LOG_LEVEL_DEBUG);
    log_suggest_level(LOG_LEVEL_WARN);
    assert_int_equal(log_get_level(), LOG_LEVEL_WARN);
    log_set_level(LOG_LEVEL_ERROR);
    log_suggest_level(LOG_LEVEL_DEBUG);
    assert_int_equal(log_get_level(), LOG_LEVEL_ERROR);

    assert_int_equal(log_level_named("debug", &level), 0);
    assert_int_equal(level, LOG_LEVEL_DEBUG);
    assert_int_equal(log_level_named("error", &level), 0);
    assert_int_equal(level, LOG_LEVEL_ERROR);
    assert_int_equal(log_level_named("Error", &level), -1);
    assert_int_equal(log_level_named("", &level), -1);
}

static void
test_levels(void **state)
{
    (void)state;
    log_error("e %d", 1);
    caught();
    assert_string_equal(after_prefix(text, "ERROR", me()), "e 1\n");
    log_warnx("w");
    caught();
    assert_string_equal(after_prefix(text, "WARN", me()), "w\n");
    log_info("i");
    caught();
    assert_string_equal(after_prefix(text, "INFO", me()), "i\n");
    log_debug("d");
    assert_int_equal(caught(), 0);
    log_set_level(LOG_LEVEL_DEBUG);
    assert_int_equal(log_get_level(), LOG_LEVEL_DEBUG);
    log_debug("d");
    caught();
    assert_string_equal(after_prefix(text, "DEBUG", me()), "d\n");
    log_set_level(LOG_LEVEL_ERROR);
    log_warnx("w");
    log_text('I', "x", 1);
    assert_int_equal(caught(), 0);
    log_text('E', "x", 1);
    assert_true(caught() > 0);
}

static void
test_errno(void **state)
{
    (void)state;
    errno = ENOENT;
    log_warn("open %s", "/x");
    assert_int_equal(errno, ENOENT);
    caught();
    assert_string_equal(after_prefix(text, "WARN", me()),
                        "open /x: No such file or directory\n");
    errno = EACCES;
    log_error("x");
    log_info("x");
    log_debug("x");
    log_warnx("x");
    log_text('I', "x", 1);
    assert_int_equal(errno, EACCES);
}

/* Nothing from outside makes a line of its own or moves a cursor; text in any
 * language stays as it is. */
static void
test_outside_bytes(void **state)
{
    (void)state;
    log_info("a%sb", "\n2024-01-01 00:00:00.000 ERROR forebay[1]: forged");
    caught();
    assert_string_equal(after_prefix(text, "INFO", me()),
                        "a\\n2024-01-01 00:00:00.000 ERROR forebay[1]: "
                        "forgedb\n");
    log_info("%s",
             "\033[31m\r\a\x7f\ttab \xc3\x89\xe2\x82\xac\xf0\x9f\x98\x80");
    caught();
    assert_string_equal(after_prefix(text, "INFO", me()),
                        "\\x1b[31m\\x0d\\x07\\x7f\ttab "
                        "\xc3\x89\xe2\x82\xac\xf0\x9f\x98\x80\n");
    /* Not UTF-8: a lone byte, overlong, a surrogate, cut, C1 controls. */
    log_info("%s", "\xff \xc0\xaf \xed\xa0\x80 \xc2\x9b \xe2\x82");
    caught();
    assert_string_equal(after_prefix(text, "INFO", me()),
                        "\\xff \\xc0\\xaf \\xed\\xa0\\x80 \\xc2\\x9b "
                        "\\xe2\\x82\n");
}

/* A traceback is one message of several lines, each with its prefix. */
static void
test_text_of_several_lines(void **state)
{
    static const char traceback[] = "Traceback:\n  File \"x\"\n\nBoom\n";
    const char *expected[] = { "Traceback:", "  File \"x\"", "", "Boom" };
    char *line = text, *end;

    (void)state;
    log_text('E', traceback, sizeof(traceback) - 1);
    caught();
    for (size_t i = 0; i < COUNT(expected); i++) {
        end = strchr(line, '\n');
        assert_non_null(end);
        *end = '\0';
        assert_string_equal(after_prefix(line, "ERROR", me()), expected[i]);
        line = end + 1;
    }
    assert_string_equal(line, "");
    log_text('W', "", 0);
    caught();
    assert_string_equal(after_prefix(text, "WARN", me()), "\n");
    log_text('?', "a\0b", 3);
    caught();
    assert_string_equal(after_prefix(text, "INFO", me()), "a\\x00b\n");
}

static void
test_long_lines(void **state)
{
    char *big = malloc(200001);
    size_t sizes[] = { 800, 895, 896, 897, 1023, 1024, 1025, 60000 };

    (void)state;
    memset(big, 'x', 200000);
    big[200000] = '\0';
    for (size_t i = 0; i < COUNT(sizes); i++) {
        errno = EPIPE;
        log_warn("%.*s", (int)sizes[i], big);
        caught();
        assert_int_equal(strlen(after_prefix(text, "WARN", me())),
                         sizes[i] + strlen(": Broken pipe\n"));
    }
    /* Endless ones are cut, and still end. */
    log_text('I', big, 200000);
    assert_true(caught() <= 200000 + 100);
    assert_int_equal(text[strlen(text) - 1], '\n');
    free(big);
}

static void
test_to_manager(void **state)
{
    char expected[] = LOG_MARK "Ea?b\n";
    char hostile[] = LOG_MARK "E\x1fx";
    char *big = malloc(100000);
    size_t len;

    (void)state;
    *strchr(expected, '?') = LOG_NEWLINE;
    log_to_manager(out);
    log_text('E', "a\nb\n", 4);
    caught();
    assert_string_equal(text, expected);
    log_warnx("%s", "w");
    caught();
    assert_string_equal(text, LOG_MARK "Ww\n");
    log_text('S', "slow", 4);
    caught();
    assert_string_equal(text, LOG_MARK "Sslow\n");
    log_debug("not wanted");
    assert_int_equal(caught(), 0);

    /* Bytes that mean something on this pipe cannot come from outside. */
    log_info("%s", hostile);
    caught();
    assert_string_equal(text, LOG_MARK "I\\x1e\\x1f\\x1eE\\x1fx\n");

    memset(big, 'y', 100000);
    big[99999] = '\0';
    log_error("%s", big);
    len = caught();
    assert_int_equal(len, LOG_MESSAGE_MAX);
    assert_int_equal(text[len - 1], '\n');
    assert_null(memchr(text, '\n', len - 1));
    free(big);
}

static char collected[1000];

static char collected_level;

static void
collect(struct log_output *self, char level, const char *data, size_t len)
{
    (void)self;
    collected_level = level;
    snprintf(collected, sizeof(collected), "%.*s", (int)len, data);
}

static void
test_relay(void **state)
{
    char joined[] = { 'a', LOG_NEWLINE, 'b', '\0' };
    struct log_output own = { .write = collect };
    struct log_output bare = { .write = collect, .bare = true };
    char *end;

    (void)state;
    log_relay(NULL, 'W', "shop[77]", "hello", 5);
    caught();
    assert_string_equal(after_prefix(text, "WARN", "shop[77]"), "hello\n");
    log_relay(NULL, 'A', "shop[77]", "print", 5);
    caught();
    assert_string_equal(after_prefix(text, "app", "shop[77]"), "print\n");
    log_relay(NULL, 'D', "shop[77]", "hidden", 6);
    assert_int_equal(caught(), 0);
    log_set_level(LOG_LEVEL_ERROR);
    log_relay(NULL, 'A', "shop[77]", "still shown", 11);
    assert_true(caught() > 0);
    log_relay(NULL, '\0', "x", "hidden", 6);
    assert_int_equal(caught(), 0);

    log_set_output(&own);
    log_relay(NULL, 'E', "x", joined, 3);
    assert_int_equal(caught(), 0);
    end = strchr(collected, '\n');
    *end = '\0';
    assert_string_equal(after_prefix(collected, "ERROR", "x"), "a");
    assert_string_equal(after_prefix(end + 1, "ERROR", "x"), "b\n");
    assert_int_equal(collected_level, 'E');

    /* One that adds the time itself, for some sources only. */
    log_set_output(NULL);
    log_relay(&bare, 'E', "shop[77]", joined, 3);
    assert_string_equal(collected, "shop[77]: a\nshop[77]: b\n");
    assert_int_equal(collected_level, 'E');
    /* What the application wrote is one line, whatever is in it. */
    log_relay(&bare, 'A', "shop[77]", joined, 3);
    assert_string_equal(collected, "shop[77]: a\\x1fb\n");
    assert_int_equal(collected_level, 'A');
    assert_int_equal(caught(), 0);
}

/* A reader that does not read must not stop a thread for ever, and a reader
 * that has gone must not kill it. */
static void
test_dead_reader(void **state)
{
    struct sigaction ignore = { .sa_handler = SIG_IGN }, old;

    (void)state;
    sigaction(SIGPIPE, &ignore, &old);
    close(in);
    errno = 0;
    log_error("nobody hears this");
    log_to_manager(out);
    log_error("nor this");
    assert_int_equal(errno, 0);
    sigaction(SIGPIPE, &old, NULL);
    in = open("/dev/null", O_RDONLY);
}

/* The manager does not read (it is stopped, say): given up after a while, then
 * at once, and the number is told. */
static void
test_stopped_manager(void **state)
{
    char *big = malloc(100001), got[16384], expected[200];
    size_t len = 0, kept = 0;
    bool begun = false;
    int fds[2];
    ssize_t n;

    (void)state;
    assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
    assert_int_equal(fcntl(fds[1], F_SETPIPE_SZ, 4096), 4096);
    fcntl(fds[0], F_SETFL, O_NONBLOCK);
    log_to_manager(fds[1]);
    memset(big, 'x', 100000);
    big[100000] = '\n';
    assert_int_equal(log_write_text(fds[1], 0, &begun, big, 100001, true),
                     -EAGAIN);
    for (int i = 0; i < 100; i++) {
        assert_int_equal(log_write_text(fds[1], 0, &begun, "lost\n", 5, true),
                         -EAGAIN);
    }
    while ((n = read(fds[0], got, sizeof(got))) > 0) {
        kept += (size_t)n;
    }
    assert_int_equal(kept, 4096);
    assert_int_equal(fcntl(fds[1], F_SETPIPE_SZ, 65536), 65536);
    assert_int_equal(log_write_text(fds[1], 0, &begun, "next\n", 5, true), 0);
    while ((n = read(fds[0], got + len, sizeof(got) - 1 - len)) > 0) {
        len += (size_t)n;
    }
    got[len] = '\0';
    snprintf(expected, sizeof(expected),
             LOG_MARK "W%zu bytes for the log were lost: the manager did not "
                      "read them\nnext\n",
             100001 - kept + 500);
    assert_string_equal(got, expected);
    close(fds[0]);
    close(fds[1]);
    free(big);
}

static void *
write_long_lines(void *arg)
{
    char line[20001];
    bool begun = false;

    memset(line, *(const char *)arg, 20000);
    line[20000] = '\n';
    for (int i = 0; i < 20; i++) {
        if (log_write_text(out, 0, &begun, line, sizeof(line), true) != 0) {
            return arg;
        }
        log_info("%.20000s", line);
    }
    return NULL;
}

static void *
read_lines(void *arg)
{
    FILE *f = fdopen(*(int *)arg, "r");
    char *line = NULL;
    size_t size = 0;
    intptr_t lines = 0;

    while (getline(&line, &size, f) > 0) {
        const char *at = line;

        if (strncmp(line, LOG_MARK "I", LOG_MARK_LEN + 1) == 0) {
            at += LOG_MARK_LEN + 1;
        }
        if (strlen(at) != 20001 ||
            strspn(at, (char[]){ at[0], '\0' }) != 20000) {
            break;
        }
        lines++;
    }
    fclose(f);
    free(line);
    return (void *)lines;
}

/* What of a text is sent as a piece of a line. */
static void
test_pieces(void **state)
{
    static const struct {
        const char *text;
        const char *sent; /* P and Q: a mark, the letter, the number */
        bool begun;
    } steps[] = {
        { "whole\n", "whole\n", false },
        { "two\nlines\n", "two\nlines\n", false },
        { "beg", "Pbeg\n", true },
        { "", "", true },
        { "in", "Pin\n", true },
        { "ner\n", "Qner\n", false },
        { "a\nb\nc", "a\nb\nPc\n", true },
        { "d\ne\nf", "Qd\ne\nPf\n", true },
        { "\n", "Q\n", false },
        { "\n", "\n", false },
    };
    char id[LOG_ID_LEN + 1], *big = malloc(100000);
    bool begun = false, other = false;
    size_t pieces = 0;

    (void)state;
    log_to_manager(out);
    snprintf(id, sizeof(id), "%016llx", (unsigned long long)gettid() << 4 | 2);
    for (size_t i = 0; i < COUNT(steps); i++) {
        char expected[200] = "";

        for (const char *p = steps[i].sent; *p != '\0'; p++) {
            size_t len = strlen(expected);

            if (*p == 'P' || *p == 'Q') {
                snprintf(expected + len, sizeof(expected) - len,
                         LOG_MARK "%c%s", *p, id);
            } else {
                expected[len] = *p;
            }
        }
        for (int wait = 1; wait >= 0; wait--) {
            bool now = begun;

            assert_int_equal(log_write_text(out, 2, &now, steps[i].text,
                                            strlen(steps[i].text), wait),
                             0);
            caught();
            assert_string_equal(text, expected);
            assert_int_equal(now, steps[i].begun);
        }
        begun = steps[i].begun;
    }
    log_end_line(2);
    caught();
    assert_memory_equal(text, LOG_MARK "Q", LOG_MARK_LEN + 1);
    assert_memory_equal(text + LOG_MARK_LEN + 1, id, LOG_ID_LEN);
    assert_string_equal(text + LOG_MARK_LEN + 1 + LOG_ID_LEN, "\n");

    /* Large ones come in several. */
    memset(big, 'x', 100000);
    assert_int_equal(log_write_text(out, 1, &begun, big, 100000, false),
                     -EAGAIN);
    assert_false(begun);
    assert_int_equal(caught(), 0);
    assert_int_equal(log_write_text(out, 1, &begun, big, 100000, true), 0);
    assert_true(begun);
    caught();
    for (char *p = text; (p = strstr(p, LOG_MARK "P")) != NULL; p++) {
        pieces++;
    }
    assert_in_range(pieces, 2, 10);

    /* A file that stands in for the log gets the text and nothing else. */
    log_to_manager(open("/dev/null", O_WRONLY | O_CLOEXEC));
    assert_int_equal(log_write_text(out, 1, &other, "plain", 5, true), 0);
    assert_false(other);
    caught();
    assert_string_equal(text, "plain");
    log_to_manager(-1);
    assert_int_equal(log_write_text(out, 1, &other, "plain", 5, false), 0);
    caught();
    assert_string_equal(text, "plain");
    free(big);
}

/* Lines and messages beyond PIPE_BUF, of several threads, through a pipe that
 * is always full. */
static void
test_long_lines_of_threads(void **state)
{
    const char *letters = "abcdefgh";
    pthread_t thread[8], reader;
    void *lines;
    int fds[2], saved = out;

    (void)state;
    assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
    out = fds[1];
    log_to_manager(out);
    pthread_create(&reader, NULL, read_lines, &fds[0]);
    for (int i = 0; i < 8; i++) {
        pthread_create(&thread[i], NULL, write_long_lines,
                       (void *)(uintptr_t)(letters + i));
    }
    for (int i = 0; i < 8; i++) {
        void *failed;

        pthread_join(thread[i], &failed);
        assert_null(failed);
    }
    log_to_manager(-1);
    close(out);
    out = saved;
    pthread_join(reader, &lines);
    assert_int_equal((intptr_t)lines, 2 * 8 * 20);
}

static void *
write_lines(void *arg)
{
    char line[201];

    memset(line, *(const char *)arg, 200);
    line[200] = '\0';
    for (int i = 0; i < 100; i++) {
        log_info("%s", line);
    }
    return NULL;
}

/* Eight threads at once: no line holds a piece of another. */
static void
test_threads(void **state)
{
    pthread_t thread[8];
    const char *letters = "abcdefgh";
    unsigned lines = 0;
    char *line = text, *end;

    (void)state;
    for (int i = 0; i < 8; i++) {
        pthread_create(&thread[i], NULL, write_lines,
                       (void *)(uintptr_t)(letters + i));
    }
    for (int i = 0; i < 8; i++) {
        pthread_join(thread[i], NULL);
    }
    caught();
    for (; *line != '\0'; line = end + 1, lines++) {
        const char *message;

        end = strchr(line, '\n');
        *end = '\0';
        message = after_prefix(line, "INFO", me());
        assert_int_equal(strlen(message), 200);
        assert_int_equal(strspn(message, (char[]){ message[0], '\0' }), 200);
    }
    assert_int_equal(lines, 800);
}

static void
test_escape(void **state)
{
    char escaped[64], tight[6];

    (void)state;
    log_escape(escaped, sizeof(escaped), "a\\b\n\x00\xff~ ", 8);
    assert_string_equal(escaped, "a\\\\b\\x0a\\x00\\xff~ ");
    assert_string_equal(log_escape(escaped, sizeof(escaped), "", 0), "");
    /* An escape is whole or not there. */
    assert_string_equal(log_escape(tight, 6, "ab\n", 3), "ab");
    assert_string_equal(log_escape(tight, 6, "a\n", 2), "a\\x0a");
    assert_string_equal(log_escape(tight, 6, "abcd\\", 5), "abcd");
    assert_string_equal(log_escape(tight, 1, "abc", 3), "");
}

#define CATCHING(f)                                                            \
    cmocka_unit_test_setup_teardown(f, catch_stderr, give_stderr_back)

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_suggested_level), /* first: nothing set yet */
        CATCHING(test_levels),
        CATCHING(test_errno),
        CATCHING(test_outside_bytes),
        CATCHING(test_text_of_several_lines),
        CATCHING(test_long_lines),
        CATCHING(test_to_manager),
        CATCHING(test_relay),
        CATCHING(test_dead_reader),
        CATCHING(test_threads),
        CATCHING(test_stopped_manager),
        CATCHING(test_pieces),
        CATCHING(test_long_lines_of_threads),
        cmocka_unit_test(test_escape),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
