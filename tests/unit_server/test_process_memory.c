/* SPDX-License-Identifier: MIT
 *
 * server/memory.c: what a process uses.
 */
#include "tests/unit_server/unit.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "server/memory.h"

enum { BIG = 64 * 1024 * 1024 };

static void
test_own(void **state)
{
    struct memory_use before, after;
    char *big;

    (void)state;
    assert_int_equal(memory_read(getpid(), &before), 0);
    assert_true(before.rss > 0);
    assert_true(before.pss > 0);
    assert_true(before.pss <= before.rss);
    big = mmap(NULL, BIG, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
               -1, 0);
    assert_true(big != MAP_FAILED);
    memset(big, 1, BIG);
    assert_int_equal(memory_read(getpid(), &after), 0);
    assert_true(after.rss >= before.rss + BIG / 2);
    assert_true(after.pss >= before.pss + BIG / 2);
    munmap(big, BIG);
}

static void
test_gone(void **state)
{
    struct memory_use use = { 1, 1 };
    pid_t pid = fork();

    (void)state;
    if (pid == 0) {
        _exit(0);
    }
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    assert_true(memory_read(pid, &use) < 0);
    assert_int_equal(use.rss, 0);
    assert_int_equal(use.pss, 0);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_own),
        cmocka_unit_test(test_gone),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
