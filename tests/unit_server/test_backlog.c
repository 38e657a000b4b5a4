/* SPDX-License-Identifier: MIT
 *
 * server/backlog.c: how many connections wait, of unix and TCP sockets.
 */
#include "tests/unit_server/unit.h"

#include <errno.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "server/backlog.h"

enum { WAITING = 3, LIMIT = 7 };

static void
check_listener(int fd, const struct sockaddr *sa, socklen_t len)
{
    struct backlog b;
    int peer[WAITING];

    assert_int_equal(listen(fd, LIMIT), 0);
    assert_int_equal(backlog_read(fd, &b), 0);
    assert_true(b.known);
    assert_int_equal(b.waiting, 0);
    assert_int_equal(b.limit, LIMIT);
    for (int i = 0; i < WAITING; i++) {
        peer[i] = socket(sa->sa_family, SOCK_STREAM, 0);
        assert_int_equal(connect(peer[i], sa, len), 0);
        assert_int_equal(backlog_read(fd, &b), 0);
        assert_int_equal(b.waiting, i + 1);
    }
    close(accept(fd, NULL, NULL));
    assert_int_equal(backlog_read(fd, &b), 0);
    assert_int_equal(b.waiting, WAITING - 1);
    for (int i = 0; i < WAITING; i++) {
        close(peer[i]);
    }
    close(fd);
}

static void
test_unix(void **state)
{
    struct sockaddr_un un = { .sun_family = AF_UNIX };
    char *path = unit_path(state, "s");
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);

    snprintf(un.sun_path, sizeof(un.sun_path), "%s", path);
    assert_int_equal(bind(fd, (struct sockaddr *)&un, sizeof(un)), 0);
    check_listener(fd, (struct sockaddr *)&un, sizeof(un));
    free(path);
}

static void
test_tcp(void **state)
{
    struct sockaddr_in in = { .sin_family = AF_INET,
                              .sin_addr = { htonl(INADDR_LOOPBACK) } };
    socklen_t len = sizeof(in);
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    (void)state;
    assert_int_equal(bind(fd, (struct sockaddr *)&in, sizeof(in)), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&in, &len), 0);
    check_listener(fd, (struct sockaddr *)&in, len);
}

static void
test_others(void **state)
{
    struct backlog b = { .known = true };
    int pair[2], p[2];

    (void)state;
    assert_int_equal(backlog_read(-1, &b), -EBADF);
    assert_false(b.known);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    assert_int_equal(backlog_read(pair[0], &b), -EINVAL);
    assert_int_equal(pipe(p), 0);
    assert_int_equal(backlog_read(p[0], &b), -ENOTSOCK);
    assert_false(b.known);
    for (int i = 0; i < 2; i++) {
        close(pair[i]);
        close(p[i]);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_unix, unit_make_folder,
                                        unit_remove_folder),
        cmocka_unit_test(test_tcp),
        cmocka_unit_test(test_others),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
