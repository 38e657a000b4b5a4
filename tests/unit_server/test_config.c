/* SPDX-License-Identifier: MIT
 *
 * conf/config_file.c and conf/scan.c: what a file means, and for each kind of
 * mistake the exact file and line.
 */
#include "tests/unit_server/unit.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "conf/config.h"
#include "conf/internal.h"

static struct conf_error err;
static struct config c;

/* A file in the test's folder, of len bytes. */
static void
write_bytes(void **state, const char *name, const char *data, size_t len)
{
    char *path = unit_path(state, name);
    FILE *f = fopen(path, "w");

    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, len, f), len);
    assert_int_equal(fclose(f), 0);
    free(path);
}

static void
write_file(void **state, const char *name, const char *text)
{
    write_bytes(state, name, text, strlen(text));
}

/* Read the folder's file main.conf into c, which has to go well. */
static void
good_file(void **state)
{
    char *path = unit_path(state, "main.conf"), why[1024];

    memset(&c, 0x55, sizeof(c)); /* config_read() does not look at it */
    if (config_read(path, &c, &err) != 0) {
        fail_msg("%s", conf_error_format(&err, why, sizeof(why)));
    }
    free(path);
}

static void
good(void **state, const char *text)
{
    write_file(state, "main.conf", text);
    good_file(state);
}

/* The file main.conf is refused: the error is in that file and line, and has
 * this part. */
static void
bad_file(void **state, const char *file, unsigned line, const char *part)
{
    char *path = unit_path(state, "main.conf");
    char *expected = unit_path(state, file);

    memset(&c, 0x55, sizeof(c));
    memset(&err, 0x55, sizeof(err));
    if (config_read(path, &c, &err) == 0) {
        fail_msg("taken, although \"%s\" should be wrong", part);
    }
    if (strstr(err.text, part) == NULL || err.line != line) {
        fail_msg("expected %s:%u: ...%s..., got %s:%u: %s", file, line, part,
                 err.file, err.line, err.text);
    }
    assert_string_equal(err.file, expected);
    assert_null(c.pool);
    assert_int_equal(c.pools, 0);
    assert_null(c.manager.log);
    free(path);
    free(expected);
}

static void
bad(void **state, const char *text, unsigned line, const char *part)
{
    write_file(state, "main.conf", text);
    bad_file(state, "main.conf", line, part);
}

/* The same in a pool that is whole but for the lines of text, which begin at
 * line 4. */
static void
bad_pool(void **state, const char *text, unsigned line, const char *part)
{
    char *whole;

    assert_true(
        asprintf(&whole, "[pool a]\napp = m\nlisten = :9000\n%s", text) > 0);
    bad(state, whole, line, part);
    free(whole);
}

#define POOL "[pool a]\napp = m\nlisten = :9000\n"

static void
test_smallest(void **state)
{
    good(state, POOL);
    assert_int_equal(c.pools, 1);
    assert_string_equal(c.pool[0]->name, "a");
    assert_string_equal(c.pool[0]->app, "m");
    assert_string_equal(c.pool[0]->listen.item[0], ":9000");
    assert_int_equal(c.pool[0]->workers, 2);
    assert_int_equal(c.pool[0]->max_workers, 2); /* it is finished */
    assert_null(c.manager.pidfile);
    assert_string_equal(c.manager.log, "stderr");
    assert_string_equal(c.manager.log_level, "info");
    assert_int_equal(c.manager.stop_delay, 0);
    config_release(&c);
    config_release(&c);
    config_release(NULL);
}

static void
test_whole(void **state)
{
    good(state, "# a comment\n"
                "  ; another\n"
                "\n"
                "[forebay]\n"
                "pidfile = /run/fb.pid\n"
                "log=syslog\n"
                "log-level   =   debug\n"
                "status_listen = :9100\n"
                "stop_delay = 2s\n"
                "control = /run/fb.ctl\n"
                "\n"
                "[pool shop]\n"
                "app = shop.wsgi:application\n"
                "listen = /run/shop.sock :9000\n"
                "  # a comment inside of the list\n"
                "\n"
                "  [::1]:9000\n"
                "listen = systemd:shop\n"
                "env =\n"
                "    A=1\n"
                "\t\"B=two words\"\n"
                "    workers=of-env\n"
                "max-body-size = 10m\n"
                "pass_http_proxy = on\n"
                "[ pool\tphp.7-x_Y ]   \n"
                "command = /usr/bin/php-cgi -d \"y z\"\n"
                "listen = :9001\n"
                "user =\n"
                "[forebay]\n");
    assert_string_equal(c.manager.pidfile, "/run/fb.pid");
    assert_string_equal(c.manager.log, "syslog");
    assert_string_equal(c.manager.log_level, "debug");
    assert_string_equal(c.manager.status_listen, ":9100");
    assert_string_equal(c.manager.control, "/run/fb.ctl");
    assert_int_equal(c.manager.stop_delay, 2000);
    assert_int_equal(c.pools, 2);
    assert_string_equal(c.pool[0]->name, "shop");
    assert_int_equal(c.pool[0]->listen.count, 4);
    assert_string_equal(c.pool[0]->listen.item[0], "/run/shop.sock");
    assert_string_equal(c.pool[0]->listen.item[1], ":9000");
    assert_string_equal(c.pool[0]->listen.item[2], "[::1]:9000");
    assert_string_equal(c.pool[0]->listen.item[3], "systemd:shop");
    assert_int_equal(c.pool[0]->env.count, 3);
    assert_string_equal(c.pool[0]->env.item[0], "A=1");
    assert_string_equal(c.pool[0]->env.item[1], "B=two words");
    assert_string_equal(c.pool[0]->env.item[2], "workers=of-env");
    assert_int_equal(c.pool[0]->max_body_size, 10 << 20);
    assert_true(c.pool[0]->pass_http_proxy);
    assert_true(settings_is_given(c.pool[0], "max_body_size"));
    assert_false(settings_is_given(c.pool[0], "max_params"));
    assert_string_equal(c.pool[1]->name, "php.7-x_Y");
    assert_string_equal(c.pool[1]->command, "/usr/bin/php-cgi -d \"y z\"");
    assert_null(c.pool[1]->user);
    assert_null(c.pool[1]->app);
    config_release(&c);
}

/* What editors and other systems do to a text file. */
static void
test_line_ends(void **state)
{
    good(state, "\xef\xbb\xbf[pool a]\r\napp = m  \r\nlisten =\r\n  :9000\r\n"
                "mount = /x\t\r\n\r\n");
    assert_string_equal(c.pool[0]->app, "m");
    assert_string_equal(c.pool[0]->mount, "/x");
    assert_int_equal(c.pool[0]->listen.count, 1);
    config_release(&c);

    good(state, "[pool a]\napp = m\nlisten = :9000"); /* no newline */
    assert_string_equal(c.pool[0]->listen.item[0], ":9000");
    config_release(&c);

    good(state, POOL "user = \xc3\xa9\n");
    assert_string_equal(c.pool[0]->user, "\xc3\xa9");
    config_release(&c);

    bad(state, POOL "user = a\x01\n", 4, "control character (0x01)");
    bad(state, POOL "user = a\rgroup = b\n", 4, "control character (0x0d)");
    bad(state, POOL "user = a\x7f\n", 4, "control character (0x7f)");
    bad(state, POOL "\xef\xbb\xbfuser = a\n", 4, "no setting");
    write_bytes(state, "main.conf", "[pool a]\napp = m\0m\n", 19);
    bad_file(state, "main.conf", 2, "NUL byte");
    write_bytes(state, "main.conf", "\xff\xfe[\0p\0o\0", 9);
    bad_file(state, "main.conf", 1, "NUL byte");
}

/* A line of exactly the limit is whole; one more byte, and it is refused. */
static void
test_long_lines(void **state)
{
    enum { HEAD = sizeof(POOL "user = ") - 1, LINE = sizeof("user = ") - 1 };
    size_t len = HEAD + CONF_LINE_MAX - LINE;
    char *text = malloc(len + 3);

    assert_non_null(text);
    memcpy(text, POOL "user = ", HEAD);
    memset(text + HEAD, 'u', len - HEAD);
    text[len] = '\n';
    write_bytes(state, "main.conf", text, len + 1);
    good_file(state);
    assert_int_equal(strlen(c.pool[0]->user), CONF_LINE_MAX - LINE);
    config_release(&c);
    text[len] = 'u';
    text[len + 1] = '\n';
    write_bytes(state, "main.conf", text, len + 2);
    bad_file(state, "main.conf", 4, "longer than 64 KB");
    text[HEAD - LINE] = '#'; /* a comment no less: it may be a damaged file */
    write_bytes(state, "main.conf", text, len + 2);
    bad_file(state, "main.conf", 4, "longer than 64 KB");
    free(text);
}

static void
test_bad_lines(void **state)
{
    static const struct {
        const char *text;
        unsigned line;
        const char *part;
    } cases[] = {
        { "", 1, "no [pool NAME] section" },
        { "# nothing\n\n", 2, "no [pool NAME] section" },
        { "[forebay]\npidfile = x\n", 2, "no [pool NAME] section" },
        { "app = m\n", 1, "above the first heading" },
        { "\n\n[pool a\n", 3, "] is missing" },
        { "[pool a] # mine\n", 1, "more behind the ]: \"# mine\"" },
        { "[pool a] app = m\n", 1, "more behind the ]" },
        { "[pool]\n", 1, "needs a name" },
        { "[pool a b]\n", 1, "\"a b\" is no name for a pool" },
        { "[pool a/b]\n", 1, "no name for a pool" },
        { "[pool \xc3\xa9]\n", 1, "no name for a pool" },
        { "[pool aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa]\n", 1,
          "1 to 40 letters" },
        { "[pools a]\n", 1, "did you mean [pool a]?" },
        { "[poll]\n", 1, "did you mean [pool NAME]?" },
        { "[Pool a]\n", 1, "did you mean [pool a]?" },
        { "[forbay]\n", 1, "did you mean [forebay]?" },
        { "[Forebay]\n", 1, "did you mean [forebay]?" },
        { "[global]\n", 1, "did you mean [forebay]?" },
        { "[shop]\n", 1, "did you mean [pool shop]?" },
        { "[uwsgi]\n", 1, "did you mean [pool uwsgi]?" },
        { "[]\n", 1, "no section []" },
        { "[forebay x]\n", 1, "did you mean [pool x]?" },
        { "[forebay]\npid_file = x\n[pool a]\n", 2,
          "no setting \"pid_file\"; did you mean \"pidfile\"?" },
        { "[forebay]\nloglevel = x\n", 2, "did you mean \"log_level\"?" },
        { "[forebay]\nworkers = 2\n", 2, "workers is a setting of a pool" },
        { "[forebay]\nlog_level = loud\n", 2, "error, warn, info, debug" },
        { "[forebay]\nstop_delay = 2x\n", 2, "not a time" },
        { "[forebay]\ncontrol = ctl\n", 2, "begin with a slash" },
        { "[forebay]\npidfile = a\npidfile = b\n", 3, "main.conf:2 already" },
        { "[forebay]\npidfile = a\n[pool a]\n[forebay]\npidfile = b\n", 5,
          "main.conf:2 already" },
        { "[pool a]\n[pool b]\n[pool a]\n", 3, "a pool a already, at " },
    };

    for (size_t i = 0; i < COUNT(cases); i++) {
        bad(state, cases[i].text, cases[i].line, cases[i].part);
    }
}

static void
test_bad_settings(void **state)
{
    static const struct {
        const char *text;
        unsigned line;
        const char *part;
    } cases[] = {
        { "wrokers = 2\n", 4, "did you mean \"workers\"?" },
        { "pm.max_children = 2\n", 4, "did you mean \"max_workers\"?" },
        { "frobnicate = 2\n", 4, "no setting \"frobnicate\"" },
        { "pidfile = x\n", 4, "pidfile is a setting of the manager" },
        { "name = b\n", 4, "in its heading, [pool a]" },
        { "workers\n", 4, "neither a setting (name = value)" },
        { "workers: 4\n", 4, "neither a setting (name = value)" },
        { "= 4\n", 4, "the name of the setting is missing" },
        { "workers = four\n", 4, "\"four\" is not a whole number" },
        { "\nworkers =\n", 5, "not a whole number" },
        { "mode = fast\n", 4, "prefork, threaded" },
        { "header_timeout = 10 s\n", 4, "not a time" },
        { "max_body_size = 1t\n", 4, "not a size" },
        { "umask = 8\n", 4, "octal" },
        { "pass_http_proxy = maybe\n", 4, "neither yes nor no" },
        { "workers = 2\n# c\n\nworkers = 2\n", 7, "main.conf:4 already" },
        { "app = x\n", 4, "main.conf:2 already" },
        { "max-params = 20\nmax_params = 20\n", 5, "main.conf:4 already" },
        { "workers = 4  # four\n", 4, "a comment must be a line of its own" },
        { "workers = 4 ; four\n", 4, "a comment must be a line of its own" },
        { "workers = # four\n", 4, "a comment must be a line of its own" },
        { "pythonpath = /a # b\n", 4, "a comment must be a line of its own" },
        { "workers = \"4\" # four\n", 4, "behind the closing quote" },
        { "workers = \"4\n", 4, "closing quote is missing" },
        { "user = \"a\\n\"\n", 4, "a backslash inside quotes" },
        { "user = \"a\\", 4, "a backslash inside quotes" },
        { "command = \"/a b\" -x\n", 4, "behind the closing quote" },
        { "pythonpath = \"/a\"/b\n", 4, "behind the closing quote" },
        { "pythonpath = /a\"/b c\"\n", 4, "quote in the middle" },
        { "env = A=\"b c\"\n", 4, "quote in the middle" },
        { "env =\n", 4, "env: the value is empty" },
        { "env =\n# c\n\nworkers = 2\n", 4, "env: the value is empty" },
        { "env =\n[pool b]\n", 4, "env: the value is empty" },
        { "env = A=1\nenv =\n", 5, "env: the value is empty" },
        { "env = \"\"\n", 4, "env: the value is empty" },
        { "env = A\n", 4, "\"A\" is not NAME=VALUE" },
        { "env = A=1\n  B\n", 5, "\"B\" is not NAME=VALUE" },
        { "warmup = x\n", 4, "begin with a slash" },
        { "workers = 2\n  threads = 2\n", 5, "begins with a blank" },
        { "pythonpath = /a\n  workers = 2\n", 5,
          "workers begins with a blank, and so goes on with the list of "
          "pythonpath" },
        { "pythonpath = /a\n  workers=2\n", 5, "workers begins with a blank" },
        { "env = A=1\n  workers = 2\n", 5, "workers begins with a blank" },
        { "  workers = 2\n", 4, "workers begins with a blank" },
        { "[pool b]\n  app = m\n", 5, "begins with a blank" },
        { "rlimit_core = x\n", 4, "neither unlimited nor a size" },
    };

    for (size_t i = 0; i < COUNT(cases); i++) {
        bad_pool(state, cases[i].text, cases[i].line, cases[i].part);
    }
}

/* What only the whole pool can tell is shown where it was said. */
static void
test_bad_pools(void **state)
{
    static const struct {
        const char *text;
        unsigned line;
        const char *part;
    } cases[] = {
        { "[pool a]\nlisten = :1\n[pool b]\n", 1, "no application" },
        { "\n[pool a]\napp = m\n", 2, "no address" },
        { POOL "[pool b]\napp = m\n", 4, "no address" },
        { POOL "mount = x\nworkers = 2\n", 4, "must begin with a slash" },
        { POOL "mode = prefork\nthreads = 4\n", 5, "in mode prefork" },
        { POOL "threads = 4\nmode = prefork\n", 4, "in mode prefork" },
        { POOL "max_workers = 1\nmin_workers = 3\n", 5, "min_workers is 3" },
        { POOL "min_spare = 3\n", 4, "more than max_workers" },
        { POOL "command = /bin/x\n", 4, "app and command were both given" },
        { "[pool a]\ncommand = /bin/x\nlisten = :1\n  :2\n", 3, "one socket" },
        { POOL "\nserver_port = x\n", 5, "not a port" },
    };

    for (size_t i = 0; i < COUNT(cases); i++) {
        bad(state, cases[i].text, cases[i].line, cases[i].part);
    }
}

static void
test_same_address(void **state)
{
    static const char *const same[][2] = {
        { ":9000", ":9000" },
        { ":9000", "localhost:9000" },
        { "127.0.0.1:9000", ":09000" },
        { "Example.org:80", "example.ORG:80" },
        { "[::1]:9000", "[::1]:9000" },
        { "*:9000", "*:9000" },
        { "/run/x.sock", "unix:/run/x.sock" },
        { "/run/x.sock", "/run//./x.sock" },
        { "fd:3", "fd:03" },
        { "fd:0", "fd:0" },
        { "systemd:web", "systemd:web" },
        { "systemd", "systemd" },
    };
    static const char *const different[][2] = {
        { ":9000", ":9001" },
        { ":0", ":0" },
        { "a:9000", "b:9000" },
        { "/run/x.sock", "/run/y.sock" },
        { "systemd:a", "systemd:b" },
        { "systemd:a1", "systemd:A1" },
        { "/run/X.sock", "/run/x.sock" },
        { "fd:3", "fd:30" },
        { "[::1]:9000", ":9000" },
    };
    char text[512];

    for (size_t i = 0; i < COUNT(same); i++) {
        snprintf(text, sizeof(text),
                 "[pool a]\napp = m\nlisten = :1 %s\n"
                 "[pool b]\napp = m\nlisten = :2\n  %s\n",
                 same[i][0], same[i][1]);
        bad(state, text, 7, "is listened on already, by pool a at ");
        assert_contains(err.text, "main.conf:3");
    }
    for (size_t i = 0; i < COUNT(different); i++) {
        snprintf(text, sizeof(text),
                 "[pool a]\napp = m\nlisten = %s\n"
                 "[pool b]\napp = m\nlisten = %s\n",
                 different[i][0], different[i][1]);
        good(state, text);
        config_release(&c);
    }
    bad(state, "[pool a]\napp = m\nlisten = :1 :2\n  :1\n", 4, "by pool a at");
    bad(state, "[forebay]\nstatus_listen = :1\n[pool a]\nlisten = :1\n", 4,
        "by the manager at");
    bad(state, POOL "[forebay]\nstatus_listen = :9000\n", 5, "by pool a at");
}

static void
test_variables(void **state)
{
    setenv("FB_WORDS", "two words \"q\" $x ${y} # z", 1);
    setenv("FB_EMPTY", "", 1);
    setenv("FB_N", "7", 1);
    unsetenv("FB_NOT");
    good(state, "[pool a]\n"
                "app = ${FB_NOT:-shop.wsgi}:${FB_EMPTY:-app}\n"
                "listen = /run/${FB_N}.sock ${FB_NOT:-:90 00 } \"${FB_N} $$\"\n"
                "workers = ${FB_N}\n"
                "chdir = /srv/${FB_WORDS}\n"
                "user = $$x$$${FB_EMPTY}\n"
                "env = W=${FB_WORDS} \"V=<${FB_WORDS}>\" U=${FB_EMPTY}\n"
                "    \"T=${FB_NOT:-a \\\"b\\\" $$c}\"\n"
                "virtualenv = ${FB_N:-$$unused \\}\n");
    assert_string_equal(c.pool[0]->app, "shop.wsgi:app");
    assert_int_equal(c.pool[0]->listen.count, 3);
    assert_string_equal(c.pool[0]->listen.item[0], "/run/7.sock");
    assert_string_equal(c.pool[0]->listen.item[1], ":90 00 ");
    assert_string_equal(c.pool[0]->listen.item[2], "7 $");
    assert_int_equal(c.pool[0]->workers, 7);
    assert_string_equal(c.pool[0]->chdir, "/srv/two words \"q\" $x ${y} # z");
    assert_string_equal(c.pool[0]->user, "$x$");
    assert_int_equal(c.pool[0]->env.count, 4);
    assert_string_equal(c.pool[0]->env.item[0],
                        "W=two words \"q\" $x ${y} # z");
    assert_string_equal(c.pool[0]->env.item[1],
                        "V=<two words \"q\" $x ${y} # z>");
    assert_string_equal(c.pool[0]->env.item[2], "U=");
    assert_string_equal(c.pool[0]->env.item[3], "T=a \"b\" $c");
    assert_string_equal(c.pool[0]->virtualenv, "7");
    config_release(&c);
}

static void
test_bad_variables(void **state)
{
    static const struct {
        const char *value, *part;
    } cases[] = {
        { "${FB_NOT}", "no variable FB_NOT; set it, or write ${FB_NOT:-" },
        { "x$y", "a $ alone" },
        { "$", "a $ alone" },
        { "$(date)", "a $ alone" },
        { "${", "name of a variable is missing" },
        { "${}", "name of a variable is missing" },
        { "${1}", "name of a variable is missing" },
        { "${FB N}", "a } is missing" },
        { "${FB_N", "a } is missing" },
        { "${FB_N-x}", "a } is missing" },
        { "${FB_N:x}", "a } is missing" },
        { "${FB_N:-x", "a } is missing" },
        { "\"${FB_N:-x\"}", "a } is missing" },
        { "${FB_NOT:-${FB_N}}", "no other variable" },
        { "\"${FB_NOT:-\\n}\"", "a backslash inside quotes" },
        { "${FB_EMPTY}", "listen: the value is empty" },
    };
    char text[200], name[400];

    setenv("FB_N", "7", 1);
    setenv("FB_EMPTY", "", 1);
    unsetenv("FB_NOT");
    for (size_t i = 0; i < COUNT(cases); i++) {
        snprintf(text, sizeof(text), "listen = :1 %s\n", cases[i].value);
        bad_pool(state, text, 4, cases[i].part);
    }
    memset(name, 'N', sizeof(name));
    snprintf(text, sizeof(text), "user = ${%.*s}\n", 100, name);
    bad_pool(state, text, 4, "no variable NNN");
}

/* Variables cannot make a value of any size. */
static void
test_variables_have_a_limit(void **state)
{
    char *big = malloc(40001);

    assert_non_null(big);
    memset(big, 'b', 40000);
    big[40000] = '\0';
    setenv("FB_BIG", big, 1);
    good(state, POOL "user = ${FB_BIG}\n");
    assert_string_equal(c.pool[0]->user, big);
    config_release(&c);
    bad_pool(state, "user = ${FB_BIG}${FB_BIG}\n", 4, "longer than 64 KB");
    bad_pool(state, "env = A=${FB_BIG} \"B=${FB_BIG}${FB_BIG:-x}\"\n", 4,
             "longer than 64 KB");
    unsetenv("FB_BIG");
    free(big);
}

static void
make_folder(void **state, const char *name)
{
    char *path = unit_path(state, name);

    assert_int_equal(mkdir(path, 0755), 0);
    free(path);
}

static void
test_include(void **state)
{
    char *absolute;

    make_folder(state, "conf.d");
    make_folder(state, "conf.d/[x]");
    write_file(state, "conf.d/20-b.conf", "[pool b]\napp = m\nlisten = :2\n");
    write_file(state, "conf.d/10-c.conf",
               "[forebay]\ninclude = [x]/in*\npidfile = /p\n"
               "[pool c]\napp = m\nlisten = :3\n");
    write_file(state, "conf.d/[x]/inner",
               "[forebay]\ninclude = more?\n[pool d]\napp = m\nlisten = :4\n");
    write_file(state, "conf.d/[x]/more1",
               "[forebay]\nlog = syslog\n[pool e]\napp = m\nlisten = :5\n");
    write_file(state, "conf.d/.hidden.conf", "nonsense");
    write_file(state, "conf.d/other", "nonsense");
    write_file(state, "last one", "[pool z]\napp = m\nlisten = :6\n");
    assert_true(asprintf(&absolute,
                         "[forebay]\n"
                         "include = conf.d/*.conf none/*.conf\n"
                         "    \"%s/last one\"\n"
                         "stop_delay = 1s\n" POOL,
                         (char *)*state) > 0);
    /* [x] in a pattern is a set of characters. */
    write_file(state, "main.conf", absolute);
    good_file(state);
    assert_int_equal(c.pools, 4);
    assert_string_equal(c.pool[0]->name, "c");
    assert_string_equal(c.pool[1]->name, "b");
    assert_string_equal(c.pool[2]->name, "z");
    assert_string_equal(c.pool[3]->name, "a");
    assert_string_equal(c.manager.pidfile, "/p");
    assert_int_equal(c.manager.include.count, 4);
    config_release(&c);

    /* In the name of the including file's folder it is not. */
    write_file(state, "conf.d/10-c.conf",
               "[forebay]\ninclude = [[]x]/inner\n[pool c]\napp = m\n"
               "listen = :3\n");
    good_file(state);
    assert_int_equal(c.pools, 6);
    assert_string_equal(c.pool[0]->name, "e");
    assert_string_equal(c.pool[1]->name, "d");
    assert_string_equal(c.manager.log, "syslog");
    config_release(&c);
    free(absolute);
}

/* Mistakes in and around included files. */
static void
test_bad_include(void **state)
{
    static const struct {
        const char *main, *inner, *file;
        unsigned line;
        const char *part;
    } cases[] = {
        { "[forebay]\ninclude = inner\n", "\nfoo = 1\n", "inner", 2,
          "above the first heading" },
        { "[forebay]\ninclude = inner\n", "[pool a]\napp = m\n", "inner", 1,
          "no address" },
        { "[forebay]\ninclude = inner\n", "[pool a]\nworkers = x\n", "inner", 2,
          "whole number" },
        { "[forebay]\ninclude = inner\nworkers = x\n", "[pool a]\napp = m\n",
          "main.conf", 3, "workers is a setting of a pool" },
        { "[forebay]\npidfile = a\ninclude = inner\n",
          "[forebay]\n\npidfile = b\n", "inner", 3, "main.conf:2 already" },
        { "[forebay]\ninclude = inner\npidfile = a\n",
          "[forebay]\n\npidfile = b\n", "main.conf", 3, "inner:3 already" },
        { POOL "[forebay]\ninclude = inner\n", "[pool b]\n[pool a]\n", "inner",
          2, "main.conf:1" },
        { POOL "[forebay]\ninclude = inner\n",
          "[pool b]\napp = m\nlisten = :9000\n", "inner", 3, "main.conf:3" },
        { "[forebay]\ninclude = inner\n", "[forebay]\ninclude = main.conf\n",
          "inner", 2, "includes itself" },
        { "[forebay]\ninclude = inner\n", "[forebay]\ninclude = inner\n",
          "inner", 2, "includes itself" },
        { "[forebay]\ninclude = *\n", "[pool b]\napp = m\nlisten = :1\n",
          "main.conf", 2, "includes itself" },
        { "[forebay]\n\ninclude = none\n", "", "main.conf", 3,
          "none cannot be read: No such file" },
        { "[forebay]\ninclude = inner\n    none\n", "", "main.conf", 3,
          "none cannot be read: No such file" },
        { "[forebay]\ninclude = .\n", "", "main.conf", 2, "it is a folder" },
        { "[forebay]\ninclude = /dev/null\n", "", "main.conf", 2,
          "no regular file" },
        { "[forebay]\ninclude = inner\n", "", "main.conf", 2,
          "no [pool NAME] section" },
        { "[forebay]\ninclude =\n[pool a]\n", "", "main.conf", 2,
          "include: the value is empty" },
        { POOL "include = inner\n", "", "main.conf", 4,
          "include is a setting of the manager" },
        { "[forebay]\ninclude = inner\n  inner\n",
          "[pool a]\napp = m\nlisten = :1\n", "inner", 1, "already, at" },
    };

    for (size_t i = 0; i < COUNT(cases); i++) {
        write_file(state, "inner", cases[i].inner);
        write_file(state, "main.conf", cases[i].main);
        bad_file(state, cases[i].file, cases[i].line, cases[i].part);
    }
}

static void
test_include_depth(void **state)
{
    char name[32], text[64];

    for (unsigned i = 1; i <= 9; i++) {
        snprintf(name, sizeof(name), "file%u", i);
        snprintf(text, sizeof(text), "[forebay]\n\ninclude = file%u\n", i + 1);
        write_file(state, name, text);
    }
    write_file(state, "file8", POOL);
    good(state, "[forebay]\ninclude = file1\n");
    assert_int_equal(c.pools, 1);
    config_release(&c);
    write_file(state, "file8", "[forebay]\n\ninclude = file9\n");
    write_file(state, "file9", POOL);
    bad_file(state, "file8", 3, "more than 8 deep");
}

static void
test_unreadable(void **state)
{
    char *path = unit_path(state, "none.conf"), *fifo = unit_path(state, "f");
    char deep[5000] = "", *big;

    assert_int_equal(config_read(path, &c, &err), -1);
    assert_string_equal(err.file, path);
    assert_int_equal(err.line, 0);
    assert_contains(err.text, "No such file");
    assert_int_equal(config_read(*state, &c, &err), -1);
    assert_contains(err.text, "it is a folder");
    assert_int_equal(mkfifo(fifo, 0600), 0);
    assert_int_equal(config_read(fifo, &c, &err), -1); /* does not wait */
    assert_contains(err.text, "no regular file");

    big = calloc(1, 4 * 1024 * 1024 + 1);
    assert_non_null(big);
    memset(big, '\n', 4 * 1024 * 1024 + 1);
    write_bytes(state, "main.conf", big, 4 * 1024 * 1024);
    bad_file(state, "main.conf", 4 * 1024 * 1024, "no [pool NAME] section");
    write_bytes(state, "main.conf", big, 4 * 1024 * 1024 + 1);
    bad_file(state, "main.conf", 0, "more than 4 MB");
    free(big);

    /* Of a long path the error keeps the end, which tells the file. */
    while (strlen(deep) < 400) {
        strcat(deep, "./");
    }
    free(path);
    assert_true(asprintf(&path, "%s/%snone.conf", (char *)*state, deep) > 0);
    assert_int_equal(config_read(path, &c, &err), -1);
    assert_int_equal(strlen(err.file), sizeof(err.file) - 1);
    assert_memory_equal(err.file, "...", 3);
    assert_contains(err.file, "/none.conf");
    free(path);
    free(fifo);
}

/* Many settings in one list, many pools. */
static void
test_many(void **state)
{
    char *text = NULL, value[32];
    size_t len;
    FILE *f = open_memstream(&text, &len);

    for (int i = 0; i < 300; i++) {
        fprintf(f, "[pool p%d]\napp = m\nlisten = /run/%d\nenv = A=1\n", i, i);
        for (int j = 0; j < 20; j++) {
            fprintf(f, "   B%d=%d\n", j, i);
        }
    }
    fclose(f);
    good(state, text);
    assert_int_equal(c.pools, 300);
    for (unsigned i = 0; i < c.pools; i++) {
        snprintf(value, sizeof(value), "B19=%u", i);
        assert_int_equal(c.pool[i]->env.count, 21);
        assert_string_equal(c.pool[i]->env.item[20], value);
    }
    config_release(&c);
    free(text);
}

/* The text reader of the fuzz harness is the same one, without include. */
static void
test_text(void **state)
{
    static const char text[] = POOL "[forebay]\ninclude = x\n";

    (void)state;
    assert_int_equal(config_read_text("t", text, sizeof(POOL) - 1, &c, &err),
                     0);
    assert_int_equal(c.pools, 1);
    config_release(&c);
    assert_int_equal(config_read_text("t", text, sizeof(text) - 1, &c, &err),
                     -1);
    assert_string_equal(err.file, "t");
    assert_int_equal(err.line, 5);
    assert_contains(err.text, "nothing can be included");
    assert_int_equal(config_read_text("t", "", 0, &c, &err), -1);
}

/* All of s as text; freed by the caller. */
static char *
written(const struct pool_settings *s)
{
    char *text = NULL;
    size_t len;
    FILE *f = open_memstream(&text, &len);

    assert_int_equal(settings_write(s, f), 0);
    assert_int_equal(fclose(f), 0);
    return text;
}

/* The sample, with "#name = value" read as a setting and what a pool needs. */
static void
write_sample(void **state)
{
    char *line = NULL, *path = unit_path(state, "main.conf");
    FILE *in = fopen(SAMPLE, "r"), *out = fopen(path, "w");
    unsigned settings = 0;
    size_t cap = 0;

    assert_non_null(in);
    assert_non_null(out);
    while (getline(&line, &cap, in) > 0) {
        const char *equals = strstr(line, " = ");
        bool setting = line[0] == '#' && line[1] != ' ' && equals != NULL;

        fputs(setting ? line + 1 : line, out);
        settings += setting;
    }
    fputs("app = m\nlisten = :1\n", out);
    fclose(in);
    assert_int_equal(fclose(out), 0);
    assert_true(settings > 50);
    free(line);
    free(path);
}

/* What the sample shows as defaults are the defaults. (That it shows all of
 * them is scripts/check-settings.) */
static void
test_sample(void **state)
{
    struct pool_settings expected;
    char *found, *text;

    write_sample(state);
    good_file(state);
    assert_int_equal(c.pools, 1);
    assert_string_equal(c.manager.log_level, "info");
    settings_init(&expected);
    settings_set(&expected, "app", "m", &err);
    settings_set(&expected, "listen", ":1", &err);
    assert_int_equal(settings_finish(&expected, &err), 0);
    found = written(c.pool[0]);
    text = written(&expected);
    assert_string_equal(found, text);
    free(found);
    free(text);
    settings_release(&expected);
    config_release(&c);

    /* As it is, it says what is missing. */
    assert_int_equal(config_read(SAMPLE, &c, &err), -1);
    assert_contains(err.text, "no application");
    assert_true(err.line > 10);
}

static void
test_of_pool(void **state)
{
    struct pool_settings *s = malloc(sizeof(*s));

    (void)state;
    assert_non_null(s);
    assert_int_equal(settings_init(s), 0);
    assert_int_equal(config_of_pool(s, &c), 0);
    assert_int_equal(c.pools, 1);
    assert_ptr_equal(c.pool[0], s);
    assert_string_equal(c.manager.log_level, "info");
    config_release(&c);
}

static void
test_help(void **state)
{
    char *text = NULL, name[80];
    size_t len;
    FILE *f = open_memstream(&text, &len);

    (void)state;
    config_print_help(f);
    fclose(f);
    for (unsigned i = 0; i < manager_settings_count; i++) {
        snprintf(name, sizeof(name),
                 "\n      %s = ", manager_settings_table[i].name);
        assert_contains(text, name);
    }
    for (char *line = text, *end; *line != '\0'; line = end + 1) {
        end = strchr(line, '\n');
        assert_non_null(end);
        assert_true(end - line < 80);
    }
    free(text);
}

static void
test_manager_table(void **state)
{
    (void)state;
    for (unsigned i = 0; i < manager_settings_count; i++) {
        const struct setting *row = &manager_settings_table[i];

        assert_non_null(row->value_name);
        assert_true(strlen(row->help) > 20);
        assert_true(row->help[strlen(row->help) - 1] == '.');
        for (unsigned j = 0; j < i; j++) {
            assert_string_not_equal(row->name, manager_settings_table[j].name);
            assert_true(row->offset != manager_settings_table[j].offset);
        }
    }
}

#define IN_FOLDER(test)                                                        \
    cmocka_unit_test_setup_teardown(test, unit_make_folder, unit_remove_folder)

int
main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FOLDER(test_smallest),
        IN_FOLDER(test_whole),
        IN_FOLDER(test_line_ends),
        IN_FOLDER(test_long_lines),
        IN_FOLDER(test_bad_lines),
        IN_FOLDER(test_bad_settings),
        IN_FOLDER(test_bad_pools),
        IN_FOLDER(test_same_address),
        IN_FOLDER(test_variables),
        IN_FOLDER(test_bad_variables),
        IN_FOLDER(test_variables_have_a_limit),
        IN_FOLDER(test_include),
        IN_FOLDER(test_bad_include),
        IN_FOLDER(test_include_depth),
        IN_FOLDER(test_unreadable),
        IN_FOLDER(test_many),
        IN_FOLDER(test_sample),
        cmocka_unit_test(test_text),
        cmocka_unit_test(test_of_pool),
        cmocka_unit_test(test_manager_table),
        cmocka_unit_test(test_help),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
