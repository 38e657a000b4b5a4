/* SPDX-License-Identifier: MIT
 *
 * server/pidfile.c: whole when it is there, and removed by its owner only.
 */
#include "tests/unit_server/unit.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "server/pidfile.h"

static char why[512];

static void
write_file(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");

    assert_non_null(f);
    fputs(text, f);
    assert_int_equal(fclose(f), 0);
}

/* The file holds this process's number and a newline, nothing else. */
static void
assert_ours(const char *path)
{
    char text[64], expected[64];
    int fd = open(path, O_RDONLY);
    ssize_t n = read(fd, text, sizeof(text) - 1);

    assert_true(fd >= 0 && n > 0);
    close(fd);
    text[n] = '\0';
    snprintf(expected, sizeof(expected), "%ld\n", (long)getpid());
    assert_string_equal(text, expected);
}

static unsigned
count_files(void **state)
{
    DIR *dir = opendir(*state);
    unsigned n = 0;

    assert_non_null(dir);
    for (struct dirent *e; (e = readdir(dir)) != NULL;) {
        n += e->d_name[0] != '.';
    }
    closedir(dir);
    return n;
}

static void
test_write_and_remove(void **state)
{
    char *path = unit_path(state, "pid");
    struct stat st;

    assert_int_equal(pidfile_check(path, why, sizeof(why)), 0);
    assert_int_equal(pidfile_write(path, why, sizeof(why)), 0);
    assert_ours(path);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0644);
    assert_int_equal(pidfile_check(path, why, sizeof(why)), 0);
    assert_int_equal(pidfile_write(path, why, sizeof(why)), 0);
    assert_int_equal(count_files(state), 1);
    pidfile_remove(path);
    assert_int_equal(count_files(state), 0);
    pidfile_remove(path);
    free(path);
}

/* Longer, shorter or other content is replaced whole. */
static void
test_takes_over(void **state)
{
    char *path = unit_path(state, "pid");

    write_file(path, "999999999999999\nand more\n");
    assert_int_equal(pidfile_write(path, why, sizeof(why)), 0);
    assert_ours(path);
    free(path);
}

static void
test_of_another_stays(void **state)
{
    static const char *const others[] = { "1\n", "", "x", "1234567890123\n" };
    char *path = unit_path(state, "pid"), text[64];

    for (size_t i = 0; i < COUNT(others); i++) {
        write_file(path, others[i]);
        pidfile_remove(path);
        assert_int_equal(access(path, F_OK), 0);
    }
    snprintf(text, sizeof(text), "%ld1\n", (long)getpid());
    write_file(path, text);
    pidfile_remove(path);
    assert_int_equal(access(path, F_OK), 0);
    free(path);
}

/* A link that somebody put there is replaced; its target is not touched. */
static void
test_link(void **state)
{
    char *path = unit_path(state, "pid"), *target = unit_path(state, "target");
    struct stat st;

    write_file(target, "precious");
    assert_int_equal(symlink(target, path), 0);
    assert_int_equal(pidfile_check(path, why, sizeof(why)), 0);
    assert_int_equal(pidfile_write(path, why, sizeof(why)), 0);
    assert_int_equal(lstat(path, &st), 0);
    assert_true(S_ISREG(st.st_mode));
    assert_int_equal(stat(target, &st), 0);
    assert_int_equal(st.st_size, 8);
    free(path);
    free(target);
}

static void
test_errors(void **state)
{
    char *folder = unit_path(state, "folder");
    char *inside = unit_path(state, "none/pid");

    assert_int_equal(pidfile_check(inside, why, sizeof(why)), -1);
    assert_contains(why, "none/: No such file");
    assert_int_equal(pidfile_write(inside, why, sizeof(why)), -1);
    assert_contains(why, "none/pid cannot be written: No such file");
    assert_int_equal(mkdir(folder, 0755), 0);
    assert_int_equal(pidfile_check(folder, why, sizeof(why)), -1);
    assert_contains(why, "exists and is no file");
    assert_int_equal(pidfile_write(folder, why, sizeof(why)), -1);
    assert_int_equal(count_files(state), 1); /* nothing is left over */
    pidfile_remove(folder);
    assert_int_equal(access(folder, F_OK), 0);
    free(folder);
    free(inside);
}

#define IN_FOLDER(test)                                                        \
    cmocka_unit_test_setup_teardown(test, unit_make_folder, unit_remove_folder)

int
main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FOLDER(test_write_and_remove), IN_FOLDER(test_takes_over),
        IN_FOLDER(test_of_another_stays), IN_FOLDER(test_link),
        IN_FOLDER(test_errors),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
