/* SPDX-License-Identifier: MIT
 *
 * The command line of forebay spawn. What spawn-fcgi makes of the same one is
 * compared by tests/integration/test_spawn.py.
 */
#include <string.h>

#include "server/spawn_options.h"
#include "tests/unit_server/unit.h"

enum { MOST = 16 };

struct line {
    struct spawn_options o;
    char why[256];
    enum spawn_read rc;
};

/* Words in one text, separated by blanks; '' is an empty one. */
static struct line
read_line(const char *text)
{
    static char copy[512];
    char *argv[MOST] = { (char *)"spawn" };
    char *rest = NULL;
    struct line l = { .why = "" };
    int argc = 1;

    snprintf(copy, sizeof(copy), "%s", text);
    for (char *word = strtok_r(copy, " ", &rest); word != NULL;
         word = strtok_r(NULL, " ", &rest)) {
        assert_true(argc < MOST);
        argv[argc++] = strcmp(word, "''") == 0 ? (char *)"" : word;
    }
    l.rc = spawn_options_read(argc, argv, &l.o, l.why, sizeof(l.why));
    return l;
}

static void
defaults(void **state)
{
    struct line l = read_line("-s /run/a.sock -- prog");
    (void)state;

    assert_int_equal(l.rc, SPAWN_READ);
    assert_string_equal(l.o.path, "/run/a.sock");
    assert_string_equal(l.o.program[0], "prog");
    assert_null(l.o.program[1]);
    assert_int_equal(l.o.mode, -1);
    assert_int_equal(l.o.backlog, 1024);
    assert_int_equal(l.o.children, 1);
    assert_int_equal(l.o.php_children, -1);
    assert_int_equal(l.o.port, 0);
    assert_false(l.o.stay || l.o.socket_first || l.o.supervise);
    assert_null(l.o.user);
    spawn_options_release(&l.o);
    spawn_options_release(&l.o);
}

static void
every_letter(void **state)
{
    struct line l = read_line("-nS -f cmd -d dir -a ::1 -p9000 -M 0640 -C 3");
    (void)state;

    assert_int_equal(l.rc, SPAWN_READ);
    assert_true(l.o.stay && l.o.socket_first);
    assert_string_equal(l.o.shell, "cmd");
    assert_string_equal(l.o.folder, "dir");
    assert_string_equal(l.o.address, "::1");
    assert_int_equal(l.o.port, 9000);
    assert_int_equal(l.o.mode, 0640);
    assert_int_equal(l.o.php_children, 3);
    assert_null(l.o.program);
    spawn_options_release(&l.o);
    l = read_line("-F 4 -b -1 -P pid -c jail -u a -g b -U c -Gd");
    assert_int_equal(l.rc, SPAWN_READ);
    assert_int_equal(l.o.children, 4);
    assert_int_equal(l.o.backlog, -1);
    assert_string_equal(l.o.pidfile, "pid");
    assert_string_equal(l.o.root, "jail");
    assert_string_equal(l.o.user, "a");
    assert_string_equal(l.o.group, "b");
    assert_string_equal(l.o.socket_owner, "c");
    assert_string_equal(l.o.socket_group, "d");
    spawn_options_release(&l.o);
}

/* Options may stand behind the program; behind "--" nothing is one. */
static void
program_words(void **state)
{
    struct line l = read_line("prog one -s path two - -- -n --supervise ''");
    static const char *const words[] = { "prog", "one",         "two", "-",
                                         "-n",   "--supervise", "" };
    (void)state;

    assert_int_equal(l.rc, SPAWN_READ);
    for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++) {
        assert_string_equal(l.o.program[i], words[i]);
    }
    assert_null(l.o.program[sizeof(words) / sizeof(*words)]);
    assert_string_equal(l.o.path, "path");
    assert_false(l.o.stay || l.o.supervise);
    spawn_options_release(&l.o);
}

static void
numbers(void **state)
{
    static const char *const bad[] = {
        "-p 0",    "-p 65536", "-p -1", "-p x",
        "-p 9x",   "-p ''",    "-M 8",  "-M 10000",
        "-M -1",   "-M rw",    "-F -1", "-F 4097",
        "-b -2",   "-b ten",   "-C -2", "-C 99999999999999999999",
        "-F 0x10",
    };
    struct line l;
    (void)state;

    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        l = read_line(bad[i]);
        assert_int_equal(l.rc, SPAWN_BAD);
        assert_memory_equal(l.why, bad[i], 2); /* it says which option */
        spawn_options_release(&l.o);
    }
}

static void
unknown(void **state)
{
    static const char *const bad[][2] = {
        { "-Q", "no option -Q" },
        { "-nQ", "no option -Q" },
        { "-s", "-s needs a value" },
        { "-n -F", "-F needs a value" },
        { "--log", "--log needs a value" },
        { "--workers 3 -- prog", "--workers=3 is for --supervise" },
        { "--no-kill-group -- prog", "--no-kill-group is for --supervise" },
    };
    struct line l;
    (void)state;

    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        l = read_line(bad[i][0]);
        assert_int_equal(l.rc, SPAWN_UNKNOWN);
        assert_non_null(strstr(l.why, bad[i][1]));
        spawn_options_release(&l.o);
    }
}

/* Settings keep their value with them, for settings_parse_args(). */
static void
settings(void **state)
{
    struct line l = read_line("--log /a.log --supervise --kill-group "
                              "--env A=1 --no-no-new-privs --name=x prog");
    static const char *const more[] = {
        "spawn",     "--log=/a.log",      "--kill-group",
        "--env=A=1", "--no-no-new-privs", "--name=x"
    };
    (void)state;

    assert_int_equal(l.rc, SPAWN_READ);
    assert_true(l.o.supervise);
    assert_int_equal(l.o.more_count, sizeof(more) / sizeof(*more));
    for (int i = 0; i < l.o.more_count; i++) {
        assert_string_equal(l.o.more[i], more[i]);
    }
    assert_string_equal(l.o.program[0], "prog");
    spawn_options_release(&l.o);
}

/* They end the reading: what stands behind them is not looked at. */
static void
help_and_version(void **state)
{
    static const char *const help[] = { "-h -Q", "-?", "-nh", "--help --no" };
    struct line l;
    (void)state;

    for (size_t i = 0; i < sizeof(help) / sizeof(*help); i++) {
        l = read_line(help[i]);
        assert_int_equal(l.rc, SPAWN_READ);
        assert_true(l.o.help);
        spawn_options_release(&l.o);
    }
    l = read_line("-v -p x");
    assert_int_equal(l.rc, SPAWN_READ);
    assert_true(l.o.version);
    spawn_options_release(&l.o);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults),         cmocka_unit_test(every_letter),
        cmocka_unit_test(program_words),    cmocka_unit_test(numbers),
        cmocka_unit_test(unknown),          cmocka_unit_test(settings),
        cmocka_unit_test(help_and_version),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
