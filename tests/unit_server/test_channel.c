/* SPDX-License-Identifier: MIT
 *
 * server/channel.c: whole messages, descriptors that never leak, the end.
 */
#include "tests/unit_server/unit.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>

#include "server/channel.h"

static int pair[2];

static int
open_pair(void **state)
{
    (void)state;
    return channel_pair(pair);
}

static int
close_pair(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        if (pair[i] >= 0) {
            close(pair[i]);
        }
    }
    return 0;
}

static unsigned
open_descriptors(void)
{
    DIR *dir = opendir("/proc/self/fd");
    unsigned n = 0;

    assert_non_null(dir);
    while (readdir(dir) != NULL) {
        n++;
    }
    closedir(dir);
    return n;
}

/* Bytes and descriptors as a damaged peer might send them. */
static void
send_raw(const void *data, size_t len, const int *fds, size_t count)
{
    struct iovec iov = { .iov_base = (void *)(uintptr_t)data, .iov_len = len };
    char space[CMSG_SPACE(16 * sizeof(int))]
        __attribute__((aligned(sizeof(struct cmsghdr))));
    struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
    struct cmsghdr *c;

    memset(space, 0, sizeof(space));
    if (count > 0) {
        msg.msg_control = space;
        msg.msg_controllen = CMSG_SPACE(count * sizeof(int));
        c = CMSG_FIRSTHDR(&msg);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(count * sizeof(int));
        memcpy(CMSG_DATA(c), fds, count * sizeof(int));
    }
    assert_int_equal(sendmsg(pair[0], &msg, MSG_NOSIGNAL), len);
}

static void
test_pair(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        assert_true(fcntl(pair[i], F_GETFD) & FD_CLOEXEC);
        assert_true(fcntl(pair[i], F_GETFL) & O_NONBLOCK);
    }
}

static void
test_say(void **state)
{
    struct channel_message m;
    char text[CHANNEL_TEXT_MAX + 100];
    int fd = 7;

    (void)state;
    assert_int_equal(channel_receive(pair[1], &m, &fd), -EAGAIN);
    assert_int_equal(channel_say(pair[0], CHANNEL_FAILED, -1, 42, -7, "why"),
                     0);
    memset(text, 'x', sizeof(text));
    text[sizeof(text) - 1] = '\0';
    assert_int_equal(channel_say(pair[0], CHANNEL_READY, 3, 0, 1, text), 0);
    assert_int_equal(channel_say(pair[0], CHANNEL_STOP, 5, 6, 7, NULL), 0);

    assert_int_equal(channel_receive(pair[1], &m, &fd), 1);
    assert_int_equal(fd, -1);
    assert_int_equal(m.type, CHANNEL_FAILED);
    assert_int_equal(m.slot, -1);
    assert_int_equal(m.pid, 42);
    assert_int_equal(m.value, -7);
    assert_string_equal(m.text, "why");
    assert_int_equal(channel_receive(pair[1], &m, &fd), 1);
    assert_int_equal(strlen(m.text), CHANNEL_TEXT_MAX - 1);
    assert_int_equal(channel_receive(pair[1], &m, &fd), 1);
    assert_string_equal(m.text, "");
    assert_int_equal(channel_receive(pair[1], &m, &fd), -EAGAIN);
}

static void
test_descriptor(void **state)
{
    struct channel_message m = { .type = CHANNEL_SPAWN, .slot = 2 }, got;
    struct stat a, b;
    int pipe_fd[2], fd;

    (void)state;
    assert_int_equal(pipe(pipe_fd), 0);
    memset(m.text, 'x', sizeof(m.text)); /* without an end: is terminated */
    assert_int_equal(channel_send(pair[0], &m, pipe_fd[1]), 0);
    assert_int_equal(channel_receive(pair[1], &got, &fd), 1);
    assert_int_equal(got.version, CHANNEL_VERSION);
    assert_int_equal(got.slot, 2);
    assert_true(fd >= 0 && fd != pipe_fd[1]);
    assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
    fstat(fd, &a);
    fstat(pipe_fd[1], &b);
    assert_int_equal(a.st_ino, b.st_ino);
    close(fd);
    close(pipe_fd[0]);
    close(pipe_fd[1]);
}

/* Whatever is wrong with a message, its descriptors are closed. */
static void
test_bad_messages(void **state)
{
    struct channel_message m, got = { .slot = 99 };
    char longer[sizeof(m) + 1];
    int fds[12], fd = 99;
    unsigned before;

    (void)state;
    memset(&m, 0, sizeof(m));
    memset(longer, 0, sizeof(longer));
    m.version = CHANNEL_VERSION;
    m.type = CHANNEL_SPAWN;
    for (size_t i = 0; i < COUNT(fds); i++) {
        fds[i] = open("/dev/null", O_RDONLY | O_CLOEXEC);
    }
    before = open_descriptors();

    send_raw(&m, sizeof(m) - 1, fds, 1);
    send_raw(longer, sizeof(longer), fds, 1);
    send_raw(&m, 1, NULL, 0);
    send_raw(&m, sizeof(m), fds, 2);
    send_raw(&m, sizeof(m), fds, 12); /* more than there is room for */
    m.version = CHANNEL_VERSION + 1;
    send_raw(&m, sizeof(m), fds, 1);
    m.version = CHANNEL_VERSION;
    memset(m.text, 'x', sizeof(m.text));
    send_raw(&m, sizeof(m), fds, 1);
    for (int i = 0; i < 7; i++) {
        assert_int_equal(channel_receive(pair[1], &got, &fd), -EPROTO);
    }
    assert_int_equal(channel_receive(pair[1], &got, &fd), -EAGAIN);
    assert_int_equal(got.slot, 99);
    assert_int_equal(fd, 99);
    assert_int_equal(open_descriptors(), before);

    /* The channel itself still works. */
    assert_int_equal(channel_say(pair[0], CHANNEL_KILL, 1, 0, 0, ""), 0);
    assert_int_equal(channel_receive(pair[1], &got, &fd), 1);
    for (size_t i = 0; i < COUNT(fds); i++) {
        close(fds[i]);
    }
}

static void
test_end(void **state)
{
    struct channel_message m;
    int fd;

    (void)state;
    close(pair[0]);
    pair[0] = -1;
    assert_int_equal(channel_receive(pair[1], &m, &fd), 0);
    assert_int_equal(channel_receive(pair[1], &m, &fd), 0);
    assert_int_equal(channel_say(pair[1], CHANNEL_READY, 0, 0, 0, NULL),
                     -EPIPE);
}

/* A template that cannot start says why and ends, without having read what the
 * manager sent meanwhile: its last words must arrive all the same. */
static void
test_last_words(void **state)
{
    struct channel_message m;
    int fd;

    (void)state;
    assert_int_equal(channel_say(pair[1], CHANNEL_SPAWN, 0, 0, 0, NULL), 0);
    assert_int_equal(channel_say(pair[0], CHANNEL_FAILED, 0, 0, 0, "no app"),
                     0);
    close(pair[0]);
    pair[0] = -1;
    assert_int_equal(channel_receive(pair[1], &m, &fd), 1);
    assert_string_equal(m.text, "no app");
    assert_int_equal(channel_receive(pair[1], &m, &fd), 0);
}

static void
test_full(void **state)
{
    struct channel_message m;
    int fd, sent = 0, received = 0, rc;

    (void)state;
    while ((rc = channel_say(pair[0], CHANNEL_READY, sent, 0, 0, NULL)) == 0) {
        sent++;
    }
    assert_int_equal(rc, -EAGAIN);
    while ((rc = channel_receive(pair[1], &m, &fd)) == 1) {
        assert_int_equal(m.slot, received);
        received++;
    }
    assert_int_equal(rc, -EAGAIN);
    assert_true(sent > 0);
    assert_int_equal(received, sent);
}

#define ON_PAIR(f) cmocka_unit_test_setup_teardown(f, open_pair, close_pair)

int
main(void)
{
    const struct CMUnitTest tests[] = {
        ON_PAIR(test_pair),         ON_PAIR(test_say), ON_PAIR(test_descriptor),
        ON_PAIR(test_bad_messages), ON_PAIR(test_end), ON_PAIR(test_last_words),
        ON_PAIR(test_full),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
