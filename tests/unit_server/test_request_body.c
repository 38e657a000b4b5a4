/* SPDX-License-Identifier: MIT
 *
 * server/request_body.c: bodies of bytes, files and pipes.
 */
#include "tests/unit_server/unit.h"

#include <errno.h>
#include <fcntl.h>

#include "server/request_body.h"

static char why[512];

static size_t
read_all(struct body *b, char *out, size_t size, size_t piece)
{
    size_t len = 0;
    ssize_t n;

    while (len + piece <= size && (n = body_read(b, out + len, piece)) > 0) {
        len += (size_t)n;
    }
    assert_true(b->ended);
    return len;
}

static void
test_parts(void **state)
{
    char *path = unit_path(state, "f"), text[64];
    struct body b = { 0 };
    uint64_t length;
    int fd;

    fd = open(path, O_CREAT | O_RDWR, 0600);
    assert_int_equal(write(fd, "file", 4), 4);
    assert_int_equal(body_add_bytes(&b, "one", 3), 0);
    assert_int_equal(body_add_bytes(&b, "", 0), 0);
    assert_int_equal(body_add_file(&b, path, why, sizeof(why)), 0);
    assert_int_equal(body_add_bytes(&b, "two", 3), 0);
    assert_true(body_length(&b, &length));
    assert_int_equal(length, 10);
    for (size_t piece = 1; piece < 12; piece++) {
        assert_int_equal(read_all(&b, text, sizeof(text), piece), 10);
        assert_memory_equal(text, "onefiletwo", 10);
        assert_int_equal(body_wait_fd(&b), -1);
        body_rewind(&b);
    }

    /* A file that shrinks is an error, not a short body. */
    assert_int_equal(ftruncate(fd, 2), 0);
    assert_int_equal(body_read(&b, text, 64), 3);
    assert_int_equal(body_read(&b, text, 64), 2);
    errno = 0;
    assert_int_equal(body_read(&b, text, 64), -1);
    assert_int_equal(errno, EIO);
    close(fd);
    body_release(&b);
    free(path);
}

static void
test_pipe(void **state)
{
    struct body b = { 0 };
    uint64_t length;
    char text[64];
    int fds[2];

    (void)state;
    /* It has no length, until it was read. */
    assert_int_equal(pipe(fds), 0);
    snprintf(text, sizeof(text), "/dev/fd/%d", fds[0]);
    assert_int_equal(body_add_file(&b, text, why, sizeof(why)), 0);
    assert_false(body_length(&b, &length));
    assert_true(body_wait_fd(&b) >= 0);
    assert_int_equal(write(fds[1], "piped", 5), 5);
    close(fds[1]);
    assert_int_equal(body_settle(&b, why, sizeof(why)), 0);
    assert_true(body_length(&b, &length));
    assert_int_equal(length, 5);
    assert_int_equal(body_wait_fd(&b), -1);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(read_all(&b, text, sizeof(text), 2), 5);
        assert_memory_equal(text, "piped", 5);
        body_rewind(&b);
    }
    close(fds[0]);
    body_release(&b);
}

static void
test_bad_files(void **state)
{
    struct body b = { 0 };

    assert_int_equal(body_add_file(&b, "/no/such/file", why, sizeof(why)), -1);
    assert_contains(why, "/no/such/file");
    assert_int_equal(body_add_file(&b, *state, why, sizeof(why)), -1);
    assert_contains(why, "folder");
    body_release(&b);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_parts, unit_make_folder,
                                        unit_remove_folder),
        cmocka_unit_test(test_pipe),
        cmocka_unit_test_setup_teardown(test_bad_files, unit_make_folder,
                                        unit_remove_folder),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
