/* SPDX-License-Identifier: MIT
 *
 * server/privileges.c. Lookups run as anybody; the drop itself needs root and
 * is done in child processes.
 */
#include "tests/unit_server/unit.h"

#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <sys/wait.h>

#include "server/privileges.h"

static char why[512];

static void
need_root(void)
{
    if (geteuid() != 0) {
        skip();
    }
}

static void
test_nothing_to_do(void **state)
{
    struct privileges p = { .change = 7 };

    (void)state;
    assert_int_equal(privileges_lookup(NULL, NULL, &p, why, sizeof(why)), 0);
    assert_int_equal(p.change, 0);
    assert_int_equal(privileges_drop(&p, why, sizeof(why)), 0);
}

static void
test_unknown(void **state)
{
    struct privileges p = { .change = 7 };
    uid_t uid = 7;
    gid_t gid = 7;

    (void)state;
    assert_int_equal(
        privileges_lookup("no-such-user-x", NULL, &p, why, sizeof(why)), -1);
    assert_contains(why, "no user \"no-such-user-x\"");
    assert_int_equal(
        privileges_lookup("root", "no-such-group-x", &p, why, sizeof(why)), -1);
    assert_contains(why, "no group \"no-such-group-x\"");
    assert_int_equal(privileges_uid("no-such-user-x", &uid, why, sizeof(why)),
                     -1);
    assert_int_equal(privileges_gid("12x", &gid, why, sizeof(why)), -1);
    /* (uid_t)-1 is no user, and neither is what does not fit. */
    assert_int_equal(privileges_uid("4294967295", &uid, why, sizeof(why)), -1);
    assert_int_equal(
        privileges_uid("99999999999999999999", &uid, why, sizeof(why)), -1);
    assert_int_equal(privileges_gid("-1", &gid, why, sizeof(why)), -1);
    assert_int_equal(privileges_gid("", &gid, why, sizeof(why)), -1);
    assert_int_equal(p.change, 7);
    assert_int_equal(uid, 7);
    assert_int_equal(gid, 7);
}

static void
test_ids(void **state)
{
    uid_t uid;
    gid_t gid;

    (void)state;
    assert_int_equal(privileges_uid("root", &uid, why, sizeof(why)), 0);
    assert_int_equal(uid, 0);
    assert_int_equal(privileges_uid("12345", &uid, why, sizeof(why)), 0);
    assert_int_equal(uid, 12345);
    assert_int_equal(privileges_gid("root", &gid, why, sizeof(why)), 0);
    assert_int_equal(gid, 0);
    assert_int_equal(privileges_gid("54321", &gid, why, sizeof(why)), 0);
    assert_int_equal(gid, 54321);
}

/* A number without an entry never gets the groups of whoever started us. */
static void
test_number_without_entry(void **state)
{
    struct privileges p;

    (void)state;
    need_root();
    if (getpwuid(61234) != NULL) {
        skip();
    }
    assert_int_equal(privileges_lookup("61234", NULL, &p, why, sizeof(why)), 0);
    assert_int_equal(p.change, 1);
    assert_int_equal(p.uid, 61234);
    assert_int_equal(p.gid, 61234);
    assert_int_equal(p.group_count, 1);
    assert_int_equal(p.groups[0], 61234);
    assert_string_equal(p.user, "61234");
    assert_string_equal(p.home, "/");
    assert_int_equal(privileges_lookup("61234", "61235", &p, why, sizeof(why)),
                     0);
    assert_int_equal(p.gid, 61235);
    assert_int_equal(p.group_count, 1);
    assert_int_equal(p.groups[0], 61235);
}

/* A user by name and by number is the same, with all of its groups. */
static void
test_user_with_entry(void **state)
{
    struct passwd *entry = getpwnam("daemon"), copy, *pw = &copy;
    struct privileges by_name, by_number;
    gid_t groups[PRIVILEGES_MAX_GROUPS];
    int count = PRIVILEGES_MAX_GROUPS;
    char number[24];

    (void)state;
    need_root();
    if (entry == NULL) {
        skip();
    }
    copy = *entry; /* the next lookup overwrites it */
    copy.pw_dir = strdup(entry->pw_dir);
    assert_true(getgrouplist("daemon", pw->pw_gid, groups, &count) > 0);
    snprintf(number, sizeof(number), "%lu", (unsigned long)pw->pw_uid);
    assert_int_equal(
        privileges_lookup("daemon", NULL, &by_name, why, sizeof(why)), 0);
    assert_int_equal(
        privileges_lookup(number, NULL, &by_number, why, sizeof(why)), 0);
    assert_memory_equal(&by_name, &by_number, sizeof(by_name));
    assert_int_equal(by_name.uid, pw->pw_uid);
    assert_int_equal(by_name.gid, pw->pw_gid);
    assert_int_equal(by_name.group_count, count);
    assert_memory_equal(by_name.groups, groups,
                        (size_t)count * sizeof(groups[0]));
    assert_string_equal(by_name.home, pw->pw_dir);
    free(copy.pw_dir);

    /* group alone keeps the user. */
    assert_int_equal(
        privileges_lookup(NULL, "daemon", &by_name, why, sizeof(why)), 0);
    assert_int_equal(by_name.change, 1);
    assert_int_equal(by_name.uid, geteuid());
    assert_int_equal(by_name.gid, getgrnam("daemon")->gr_gid);
}

/* Run f in a child; its exit code. */
static int
in_child(int (*f)(void))
{
    int status;
    pid_t pid = fork();

    assert_true(pid >= 0);
    if (pid == 0) {
        _exit(f());
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static int
drop_to_number(void)
{
    struct privileges p;
    uid_t r, e, s;
    gid_t groups[8], extra[2] = { 0, 4 };

    if (setgroups(2, extra) != 0 ||
        privileges_lookup("61234", NULL, &p, why, sizeof(why)) != 0) {
        return 10;
    }
    if (privileges_drop(&p, why, sizeof(why)) != 0) {
        return 11;
    }
    if (getresuid(&r, &e, &s) != 0 || r != 61234 || e != 61234 || s != 61234) {
        return 12;
    }
    if (getgroups(8, groups) != 1 || groups[0] != 61234 || getgid() != 61234) {
        return 13;
    }
    if (setuid(0) == 0 || setgid(0) == 0) {
        return 14;
    }
    return strcmp(getenv("HOME"), "/") == 0 &&
                   strcmp(getenv("USER"), "61234") == 0 &&
                   strcmp(getenv("LOGNAME"), "61234") == 0
               ? 0
               : 15;
}

/* Without root: another user is refused before anything starts, and oneself is
 * nothing to do. */
static int
lookup_without_root(void)
{
    struct privileges p;

    if (setresgid(61234, 61234, 61234) != 0 || setgroups(0, NULL) != 0 ||
        setresuid(61234, 61234, 61234) != 0) {
        return 10;
    }
    if (privileges_lookup("root", NULL, &p, why, sizeof(why)) != -1 ||
        strstr(why, "only root can") == NULL) {
        return 11;
    }
    if (privileges_lookup("61234", NULL, &p, why, sizeof(why)) != 0 ||
        p.change) {
        return 12;
    }
    if (privileges_lookup(NULL, "61234", &p, why, sizeof(why)) != 0 ||
        p.change) {
        return 13;
    }
    return privileges_lookup("61234", "root", &p, why, sizeof(why)) == -1 ? 0
                                                                          : 14;
}

/* A drop that the kernel refuses is a sentence and an error, never silence. */
static int
drop_without_root(void)
{
    struct privileges p;

    if (privileges_lookup("61234", NULL, &p, why, sizeof(why)) != 0 ||
        setresuid(61235, 61235, 61235) != 0) {
        return 10;
    }
    if (privileges_drop(&p, why, sizeof(why)) != -1) {
        return 11;
    }
    return strstr(why, "cannot become user 61234") != NULL ? 0 : 12;
}

static void
test_drop(void **state)
{
    (void)state;
    need_root();
    assert_int_equal(in_child(drop_to_number), 0);
    assert_int_equal(in_child(lookup_without_root), 0);
    assert_int_equal(in_child(drop_without_root), 0);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nothing_to_do),
        cmocka_unit_test(test_unknown),
        cmocka_unit_test(test_ids),
        cmocka_unit_test(test_number_without_entry),
        cmocka_unit_test(test_user_with_entry),
        cmocka_unit_test(test_drop),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
