/* SPDX-License-Identifier: MIT
 *
 * server/handover.c: descriptors through the queue of a pool.
 */
#include "tests/unit_server/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "server/handover.h"

/* The pair of a pool: [0] is read, [1] is written. */
static int
make_queue(void **state)
{
    static int queue[2];

    *state = queue;
    return socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0,
                      queue);
}

static int
remove_queue(void **state)
{
    int *queue = *state;

    close(queue[0]);
    close(queue[1]);
    return 0;
}

static void
test_there_and_back(void **state)
{
    static const enum decoder_kind kinds[] = { DECODER_AUTO, DECODER_FCGI,
                                               DECODER_SCGI };
    int *queue = *state;
    enum decoder_kind kind;
    int fd;

    for (size_t i = 0; i < COUNT(kinds); i++) {
        int pipe_fd[2];
        char byte;

        assert_int_equal(pipe2(pipe_fd, O_CLOEXEC | O_NONBLOCK), 0);
        assert_int_equal(handover_send(queue[1], pipe_fd[0], kinds[i]), 0);
        /* The sender's copy is its own. */
        close(pipe_fd[0]);
        assert_int_equal(handover_receive(queue[0], &fd, &kind), 1);
        assert_int_equal(kind, kinds[i]);
        assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
        assert_true(fcntl(fd, F_GETFL) & O_NONBLOCK);
        assert_int_equal(write(pipe_fd[1], "x", 1), 1);
        assert_int_equal(read(fd, &byte, 1), 1);
        close(fd);
        close(pipe_fd[1]);
    }
    assert_int_equal(handover_receive(queue[0], &fd, &kind), 0);
}

/* In the order in which they came, each whole. */
static void
test_order(void **state)
{
    int *queue = *state;
    struct stat there[20], here;
    enum decoder_kind kind;
    int fd[2];

    for (unsigned i = 0; i < COUNT(there); i++) {
        assert_int_equal(pipe2(fd, O_CLOEXEC), 0);
        assert_int_equal(fstat(fd[0], &there[i]), 0);
        assert_int_equal(handover_send(queue[1], fd[0], DECODER_FCGI), 0);
        close(fd[0]);
        close(fd[1]);
    }
    for (unsigned i = 0; i < COUNT(there); i++) {
        assert_int_equal(handover_receive(queue[0], &fd[0], &kind), 1);
        assert_int_equal(fstat(fd[0], &here), 0);
        assert_true(here.st_ino == there[i].st_ino);
        close(fd[0]);
    }
}

/* Never waits, and what did not fit is still the sender's. */
static void
test_full(void **state)
{
    int *queue = *state;
    enum decoder_kind kind;
    unsigned sent = 0, received = 0;
    int rc, fd;

    while ((rc = handover_send(queue[1], STDIN_FILENO, DECODER_FCGI)) == 0) {
        assert_true(++sent < 100000);
    }
    assert_int_equal(rc, -EAGAIN);
    assert_true(sent > 50);
    assert_true(fcntl(STDIN_FILENO, F_GETFD) >= 0);
    while (handover_receive(queue[0], &fd, &kind) == 1) {
        received++;
        close(fd);
    }
    assert_int_equal(received, sent);
    assert_int_equal(handover_send(queue[1], STDIN_FILENO, DECODER_FCGI), 0);
}

/* The kernel bounds the descriptors of one user that are under way. That is a
 * full queue like any other: the connection stays where it is. */
static void
test_too_many_under_way(void **state)
{
    int *queue = *state;
    int status;
    pid_t pid;

    if (geteuid() != 0) {
        skip(); /* the bound is the user's, and other processes count */
    }
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        struct rlimit few = { 16, 16 };
        int rc = 0, n = 0;

        if (setrlimit(RLIMIT_NOFILE, &few) != 0 || setuid(54321) != 0) {
            _exit(10);
        }
        while (rc == 0 && n++ < 40) {
            rc = handover_send(queue[1], STDIN_FILENO, DECODER_FCGI);
        }
        _exit(rc == -EAGAIN && n > 10 ? 0 : 11);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

static void
test_gone(void **state)
{
    int *queue = *state;
    enum decoder_kind kind;
    int fd = -1, pair[2];

    (void)queue;
    assert_int_equal(
        socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    close(pair[0]);
    assert_int_equal(handover_send(pair[1], STDIN_FILENO, DECODER_FCGI),
                     -EPIPE);
    close(pair[1]);
    assert_int_equal(handover_send(-1, STDIN_FILENO, DECODER_FCGI), -EBADF);
    assert_int_equal(handover_receive(-1, &fd, &kind), -EBADF);
    assert_int_equal(fd, -1);
}

static int
count_open(void)
{
    int n = 0;

    for (int fd = 0; fd < 256; fd++) {
        n += fcntl(fd, F_GETFD) >= 0;
    }
    return n;
}

/* What is no message of ours is refused, and its descriptor is not kept. */
static void
test_garbage(void **state)
{
    static const struct {
        const char *bytes;
        size_t len;
        bool with_fd;
    } cases[] = {
        { "\1\0\1\0", 4, false },  /* no descriptor */
        { "\1\0\1\0\0", 5, true }, /* too long */
        { "\1\0", 2, true },       /* too short */
        { "\2\0\1\0", 4, true },   /* another version */
        { "\1\0\77\0", 4, true },  /* another protocol */
        { "", 1, true },
    };
    int *queue = *state;
    int before = count_open();

    for (size_t i = 0; i < COUNT(cases); i++) {
        struct iovec iov = { (void *)(uintptr_t)cases[i].bytes, cases[i].len };
        union {
            struct cmsghdr align;
            char bytes[CMSG_SPACE(sizeof(int))];
        } control;
        struct msghdr h = { .msg_iov = &iov, .msg_iovlen = 1 };
        enum decoder_kind kind;
        int fd = STDIN_FILENO;

        memset(&control, 0, sizeof(control));
        if (cases[i].with_fd) {
            struct cmsghdr *c;

            h.msg_control = control.bytes;
            h.msg_controllen = sizeof(control.bytes);
            c = CMSG_FIRSTHDR(&h);
            c->cmsg_level = SOL_SOCKET;
            c->cmsg_type = SCM_RIGHTS;
            c->cmsg_len = CMSG_LEN(sizeof(int));
            memcpy(CMSG_DATA(c), &fd, sizeof(fd));
        }
        assert_true(sendmsg(queue[1], &h, 0) == (ssize_t)cases[i].len);
        fd = -1;
        assert_int_equal(handover_receive(queue[0], &fd, &kind), -EPROTO);
        assert_int_equal(fd, -1);
        assert_int_equal(count_open(), before);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_there_and_back, make_queue,
                                        remove_queue),
        cmocka_unit_test_setup_teardown(test_order, make_queue, remove_queue),
        cmocka_unit_test_setup_teardown(test_full, make_queue, remove_queue),
        cmocka_unit_test_setup_teardown(test_too_many_under_way, make_queue,
                                        remove_queue),
        cmocka_unit_test_setup_teardown(test_gone, make_queue, remove_queue),
        cmocka_unit_test_setup_teardown(test_garbage, make_queue, remove_queue),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
