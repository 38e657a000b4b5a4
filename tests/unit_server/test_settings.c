/* SPDX-License-Identifier: MIT
 *
 * conf/: the table, values, the command line, the text for a template.
 */
#include "tests/unit_server/unit.h"

#include "conf/settings.h"

static struct conf_error err;

static void
set(struct pool_settings *s, const char *name, const char *value)
{
    if (settings_set(s, name, value, &err) != 0) {
        fail_msg("%s=%s: %s", name, value, err.text);
    }
}

/* The value is refused, and the sentence has this part. */
static void
refuse(struct pool_settings *s, const char *name, const char *value,
       const char *part)
{
    if (settings_set(s, name, value, &err) == 0) {
        fail_msg("%s=%s was taken", name, value);
    }
    assert_contains(err.text, part);
}

static int
parse(struct pool_settings *s, char **argv)
{
    int argc = 0;

    while (argv[argc] != NULL) {
        argc++;
    }
    return settings_parse_args(s, argc, argv, NULL, NULL, &err);
}

#define PARSE(s, ...) parse(s, (char *[]){ "serve", __VA_ARGS__, NULL })

static void
test_defaults(void **state)
{
    struct pool_settings s;

    (void)state;
    assert_int_equal(settings_init(&s), 0);
    assert_string_equal(s.name, "main");
    assert_null(s.app);
    assert_int_equal(s.listen.count, 0);
    assert_int_equal(s.mode, CONF_PREFORK);
    assert_int_equal(s.workers, 2);
    assert_int_equal(s.threads, 1);
    assert_int_equal(s.engine, CONF_ENGINE_EPOLL);
    assert_int_equal(s.protocol, CONF_PROTO_AUTO);
    assert_int_equal(s.preload, CONF_PRELOAD_AUTO);
    assert_int_equal(s.umask, -1);
    assert_int_equal(s.socket_mode, 0660);
    assert_int_equal(s.backlog, 4096);
    assert_string_equal(s.mount, "");
    assert_int_equal(s.path_source, CONF_PATH_CGI);
    assert_int_equal(s.url_scheme, CONF_SCHEME_AUTO);
    assert_int_equal(s.hop_by_hop, CONF_HOP_REFUSE);
    assert_false(s.pass_http_proxy);
    assert_int_equal(s.max_params_size, 256 * 1024);
    assert_int_equal(s.max_params, 2000);
    assert_int_equal(s.max_body_size, 0);
    assert_int_equal(s.max_response_headers, 64 * 1024);
    assert_int_equal(s.body_buffer, 64 * 1024);
    assert_int_equal(s.max_connections, 10000);
    assert_int_equal(s.header_timeout, 30000);
    assert_int_equal(s.body_timeout, 60000);
    assert_int_equal(s.write_timeout, 60000);
    assert_int_equal(s.keepalive_timeout, 300000);
    assert_int_equal(s.graceful_timeout, 30000);
    assert_int_equal(s.start_timeout, 60000);
    assert_int_equal(s.switch_interval_us, 0);
    assert_false(s.exit_on_system_exit);
    assert_int_equal(s.learned_names, 1000);
    assert_int_equal(s.max_start_failures, 3);
    assert_int_equal(s.scaling, CONF_SCALING_STATIC);
    assert_int_equal(s.min_workers, 1);
    assert_int_equal(s.max_workers, 0);
    assert_int_equal(s.min_spare, 1);
    assert_int_equal(s.max_spare, 3);
    assert_int_equal(s.idle_timeout, 60000);
    assert_int_equal(s.max_requests, 0);
    assert_int_equal(s.max_requests_jitter, 0);
    assert_int_equal(s.max_worker_memory, 0);
    assert_int_equal(s.max_worker_age, 0);
    assert_int_equal(s.max_recycling, 1);
    assert_int_equal(s.request_timeout, 0);
    assert_int_equal(s.request_grace, 5000);
    assert_int_equal(s.slow_request, 0);
    assert_int_equal(s.after_timeout, 0);
    assert_int_equal(s.queue_timeout, 0);
    assert_null(s.status_path);
    assert_null(s.ping_path);
    assert_null(s.log);
    assert_null(s.access_log);
    assert_contains(s.access_format, "\"%{User-Agent}i\"");
    assert_null(s.slow_log);
    assert_false(s.autoreload);
    assert_null(s.command);
    assert_null(s.chroot);
    assert_true(s.no_new_privs);
    assert_false(s.kill_group);
    assert_int_equal(s.rlimit_files, 0);
    assert_null(s.rlimit_core);
    assert_false(s.fcgi_stderr);
    assert_null(settings_first_given(&s));
    settings_release(&s);
    settings_release(&s);
    settings_release(NULL);
}

/* Rows that clash would shadow each other, and a field must have one row. */
static void
test_table(void **state)
{
    (void)state;
    for (unsigned i = 0; i < settings_count; i++) {
        const struct setting *row = &settings_table[i];

        assert_true(strlen(row->help) > 20);
        assert_true(row->help[strlen(row->help) - 1] == '.');
        assert_true(row->type == SETTING_BOOL || row->value_name != NULL);
        assert_true((row->type == SETTING_CHOICE) == (row->choices != NULL));
        if (row->choices != NULL) {
            assert_string_equal(row->choices, row->value_name);
        }
        for (unsigned j = 0; j < i; j++) {
            assert_string_not_equal(row->name, settings_table[j].name);
            assert_true(row->offset != settings_table[j].offset);
            assert_true(row->letter == 0 ||
                        row->letter != settings_table[j].letter);
        }
    }
}

static void
test_sizes_and_times(void **state)
{
    static const struct {
        const char *name, *value;
        uint64_t expected;
    } cases[] = {
        { "body_buffer", "0", 0 },
        { "body_buffer", "1500", 1500 },
        { "body_buffer", "64k", 65536 },
        { "body_buffer", "1.5K", 1536 },
        { "body_buffer", "2m", 2 << 20 },
        { "body_buffer", "1g", 1 << 30 },
        { "max-body-size", "9007199254740993", 9007199254740993 },
    };
    static const struct {
        const char *value;
        uint64_t expected;
    } times[] = {
        { "0", 0 },       { "7", 7000 },    { "250ms", 250 },  { "0.25", 250 },
        { "1.5s", 1500 }, { "2m", 120000 }, { "1h", 3600000 }, { "10S", 10000 },
    };
    struct pool_settings s;

    (void)state;
    settings_init(&s);
    for (size_t i = 0; i < COUNT(cases); i++) {
        set(&s, cases[i].name, cases[i].value);
        assert_int_equal(cases[i].name[0] == 'b' ? s.body_buffer
                                                 : s.max_body_size,
                         cases[i].expected);
    }
    for (size_t i = 0; i < COUNT(times); i++) {
        set(&s, "graceful_timeout", times[i].value);
        assert_int_equal(s.graceful_timeout, times[i].expected);
    }
    set(&s, "switch_interval", "5ms");
    assert_int_equal(s.switch_interval_us, 5000);
    set(&s, "switch_interval", "0.005");
    assert_int_equal(s.switch_interval_us, 5000);
    set(&s, "switch_interval", "50us");
    assert_int_equal(s.switch_interval_us, 50);
    settings_release(&s);
}

static void
test_bad_numbers(void **state)
{
    static const struct {
        const char *name, *value, *part;
    } cases[] = {
        { "workers", "", "whole number" },
        { "workers", "two", "whole number" },
        { "workers", "-1", "whole number" },
        { "workers", "+1", "whole number" },
        { "workers", " 1", "whole number" },
        { "workers", "1.0", "whole number" },
        { "workers", "1k", "whole number" },
        { "workers", "0x10", "whole number" },
        { "workers", "0", "from 1 to 4096" },
        { "workers", "4097", "from 1 to 4096" },
        { "workers", "4294967297", "from 1 to 4096" },
        { "workers", "18446744073709551617", "from 1 to 4096" },
        { "body_buffer", "10x", "64k" },
        { "body_buffer", "k", "64k" },
        { "body_buffer", "10 k", "64k" },
        { "body_buffer", "10kb", "64k" },
        { "body_buffer", "0.3", "64k" },
        { "body_buffer", "2g", "from 0 to 1g" },
        { "body_buffer", "18014398509481984k", "from 0 to 1g" },
        { "body_timeout", "10x", "30s" },
        { "body_timeout", "1.", "30s" },
        { "body_timeout", ".5", "30s" },
        { "body_timeout", "0.0001", "30s" }, /* would be 0: no limit */
        { "body_timeout", "0.5ms", "30s" },
        { "body_timeout", "1us", "30s" },
        { "body_timeout", "inf", "30s" },
        /* Every wait on a peer has a deadline. */
        { "body_timeout", "0", "from 1ms to 8760h" },
        { "keepalive_timeout", "9000h", "from 1ms to 8760h" },
        { "switch_interval", "1h", "5ms" },
        { "socket_mode", "0888", "octal" },
        { "socket_mode", "", "octal" },
        { "socket_mode", "rw", "octal" },
        { "socket_mode", "01777", "0777" },
        { "socket_mode", "77777777777777777777777", "0777" },
        { "umask", "-1", "octal" },
    };
    struct pool_settings s, untouched;

    (void)state;
    settings_init(&s);
    settings_init(&untouched);
    for (size_t i = 0; i < COUNT(cases); i++) {
        refuse(&s, cases[i].name, cases[i].value, cases[i].part);
        assert_contains(err.text, cases[i].name);
    }
    assert_int_equal(s.workers, untouched.workers);
    assert_int_equal(s.body_buffer, untouched.body_buffer);
    assert_int_equal(s.socket_mode, untouched.socket_mode);
    assert_null(settings_first_given(&s));
    settings_release(&s);
    settings_release(&untouched);
}

static void
test_words(void **state)
{
    static const char *const yes[] = { "yes", "on", "true", "1", "YES", "On" };
    static const char *const no[] = { "no", "off", "false", "0", "False" };
    struct pool_settings s;

    (void)state;
    settings_init(&s);
    for (size_t i = 0; i < COUNT(yes); i++) {
        s.pass_http_proxy = false;
        set(&s, "pass_http_proxy", yes[i]);
        assert_true(s.pass_http_proxy);
    }
    for (size_t i = 0; i < COUNT(no); i++) {
        s.pass_http_proxy = true;
        set(&s, "pass-http-proxy", no[i]);
        assert_false(s.pass_http_proxy);
    }
    refuse(&s, "pass_http_proxy", "maybe", "neither yes nor no");
    refuse(&s, "pass_http_proxy", "", "neither yes nor no");

    set(&s, "mode", "threaded");
    assert_int_equal(s.mode, CONF_THREADED);
    set(&s, "protocol", "scgi");
    assert_int_equal(s.protocol, CONF_PROTO_SCGI);
    set(&s, "preload", "off");
    assert_int_equal(s.preload, CONF_PRELOAD_OFF);
    set(&s, "url_scheme", "https");
    assert_int_equal(s.url_scheme, CONF_SCHEME_HTTPS);
    refuse(&s, "mode", "Prefork", "prefork, threaded");
    refuse(&s, "mode", "prefork|threaded", "prefork, threaded");
    refuse(&s, "protocol", "fcg", "auto, fcgi, scgi");
    refuse(&s, "protocol", "", "auto, fcgi, scgi");

    set(&s, "umask", "022");
    assert_int_equal(s.umask, 022);
    set(&s, "socket_mode", "0o600");
    assert_int_equal(s.socket_mode, 0600);
    settings_release(&s);
}

static void
test_strings_and_lists(void **state)
{
    struct pool_settings s;

    (void)state;
    settings_init(&s);
    set(&s, "user", "www-data");
    assert_string_equal(s.user, "www-data");
    set(&s, "user", "");
    assert_null(s.user);
    set(&s, "mount", "/x");
    set(&s, "mount", "");
    assert_string_equal(s.mount, "");

    set(&s, "listen", ":9000");
    set(&s, "listen", "/run/x.sock");
    assert_int_equal(s.listen.count, 2);
    assert_string_equal(s.listen.item[0], ":9000");
    assert_string_equal(s.listen.item[1], "/run/x.sock");
    assert_null(s.listen.item[2]);
    set(&s, "env", "A=1=2");
    assert_string_equal(s.env.item[0], "A=1=2");
    refuse(&s, "env", "A", "NAME=VALUE");
    refuse(&s, "env", "=1", "NAME=VALUE");
    refuse(&s, "warmup", "x", "slash");
    refuse(&s, "listen", "", "empty");
    assert_int_equal(s.listen.count, 2);
    assert_int_equal(s.env.count, 1);
    assert_int_equal(settings_set(&s, "listen", NULL, &err), -1);
    settings_release(&s);
}

/* What stands in a list without having been set is a default: the first item
 * that is set replaces it. */
static void
test_list_default_is_replaced(void **state)
{
    struct pool_settings s;

    (void)state;
    settings_init(&s);
    set(&s, "listen", ":1");
    set(&s, "listen", ":2");
    memset(s.given, 0, sizeof(s.given));
    set(&s, "listen", ":3");
    assert_int_equal(s.listen.count, 1);
    assert_string_equal(s.listen.item[0], ":3");
    assert_string_equal(settings_first_given(&s), "listen");
    assert_true(settings_is_given(&s, "listen"));
    assert_false(settings_is_given(&s, "workers"));
    assert_false(settings_is_given(&s, "no such thing"));
    settings_release(&s);
}

static void
test_nearest(void **state)
{
    static const struct {
        const char *wrong, *right;
    } cases[] = {
        { "thread", "threads" },
        { "worker", "workers" },
        { "wrokers", "workers" },
        { "lisen", "listen" },
        { "max-body-sise", "max_body_size" },
        { "max_body", "max_body_size" },
        { "virtual_env", "virtualenv" },
        { "bind", "listen" },
        { "chmod-socket", "socket_mode" },
        { "processes", "workers" },
        { "keepalive", "keepalive_timeout" },
        { "heder_timeout", "header_timeout" },
        { "pm.max_children", "max_workers" },
        { "harakiri", "request_timeout" },
        { "request-terminate-timeout", "request_timeout" },
        { "max_request", "max_requests" },
        { "loglevel", NULL }, /* a setting of the manager */
        { "zzz", NULL },
        { "", NULL },
        { "frobnicate", NULL },
        { "x", NULL },
    };
    struct pool_settings s;
    char longest[4000];

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        const char *near = settings_nearest(cases[i].wrong);

        if (cases[i].right == NULL) {
            assert_null(near);
        } else {
            assert_non_null(near);
            assert_string_equal(near, cases[i].right);
        }
    }
    memset(longest, 'w', sizeof(longest) - 1);
    longest[sizeof(longest) - 1] = '\0';
    assert_null(settings_nearest(longest));

    settings_init(&s);
    refuse(&s, "wrokers", "2", "did you mean \"workers\"?");
    refuse(&s, "frobnicate", "2", "no setting \"frobnicate\"");
    refuse(&s, longest, "2", "no setting");
    settings_release(&s);
}

static void
finish_fails(const char *part, const char *const *pairs)
{
    struct pool_settings s;

    settings_init(&s);
    set(&s, "app", "m:app");
    set(&s, "listen", ":9000");
    for (; *pairs != NULL; pairs += 2) {
        set(&s, pairs[0], pairs[1]);
    }
    if (settings_finish(&s, &err) == 0) {
        fail_msg("finished where \"%s\" should be wrong", part);
    }
    assert_contains(err.text, part);
    settings_release(&s);
}

#define FINISH_FAILS(part, ...)                                                \
    finish_fails(part, (const char *const[]){ __VA_ARGS__, NULL })

static void
test_finish_refuses(void **state)
{
    struct pool_settings s;

    (void)state;
    settings_init(&s);
    assert_int_equal(settings_finish(&s, &err), -1);
    assert_contains(err.text, "application");
    set(&s, "app", "x");
    assert_int_equal(settings_finish(&s, &err), -1);
    assert_contains(err.text, "--listen");
    settings_release(&s);

    FINISH_FAILS("mode prefork", "mode", "prefork", "threads", "4");
    FINISH_FAILS("short_paths or long_paths", "workers", "4", "reserved_slots",
                 "1");
    FINISH_FAILS("without reserved_slots", "long_paths", "/x");
    FINISH_FAILS("at least one must be left", "workers", "2", "reserved_slots",
                 "2", "short_paths", "/x");
    FINISH_FAILS("there are 3 threads", "scaling", "dynamic", "max_workers",
                 "9", "min_workers", "3", "workers", "5", "reserved_slots", "3",
                 "short_paths", "/x");
    FINISH_FAILS("static or dynamic", "scaling", "ondemand", "reserved_slots",
                 "1", "short_paths", "/x");
    FINISH_FAILS("needs engine epoll", "engine", "libfcgi", "workers", "4",
                 "reserved_slots", "1", "short_paths", "/x");
    FINISH_FAILS("libfcgi", "engine", "libfcgi", "protocol", "scgi");
    FINISH_FAILS("slash", "mount", "app");
    FINISH_FAILS("empty part", "mount", "/a//b");
    FINISH_FAILS("empty part", "mount", "/a/../b");
    FINISH_FAILS("empty part", "mount", "/.");
    FINISH_FAILS("path alone", "mount", "/a?b");
    FINISH_FAILS("1 to 40", "name", "");
    FINISH_FAILS("1 to 40", "name", "a b");
    FINISH_FAILS("1 to 40", "name",
                 "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa");
    FINISH_FAILS("max_workers, 2", "min_workers", "3", "max_workers", "2");
    FINISH_FAILS("min_workers is 3", "min_workers", "3", "workers", "2");
    FINISH_FAILS("workers is 3", "workers", "3", "max_workers", "2");
    FINISH_FAILS("scaling dynamic", "scaling", "dynamic", "min_workers", "0");
    FINISH_FAILS("more than max_spare, 2", "min_spare", "3", "max_spare", "2");
    FINISH_FAILS("more than max_workers, 2", "min_spare", "3");
    FINISH_FAILS("without max_requests", "max_requests_jitter", "5");
    FINISH_FAILS("longer than request_timeout", "slow_request", "2",
                 "request_timeout", "1");
    FINISH_FAILS("both \"/x\"", "status_path", "/x", "ping_path", "/x");
    FINISH_FAILS("both given", "command", "/usr/bin/php-cgi");
    FINISH_FAILS("65535", "server_port", "70000");
    FINISH_FAILS("65535", "server_port", "http");
    FINISH_FAILS("65535", "server_port", "0");
    FINISH_FAILS("host", "server_name", "a b");
}

/* A pool that runs another program than a Python application. */
static void
test_command(void **state)
{
    static const struct {
        const char *name, *value, *part;
    } cases[] = {
        { "virtualenv", "/srv/v", "virtualenv is for Python" },
        { "python", "3.11", "python is for Python" },
        { "pythonpath", "/srv", "pythonpath is for Python" },
        { "warmup", "/", "warmup is for Python" },
        { "preload", "on", "preload is for Python" },
        { "autoreload", "yes", "autoreload is for Python" },
        { "mode", "threaded", "mode is for Python" },
        { "threads", "2", "threads is for Python" },
        { "listen", ":9001", "gets one socket" },
        { "app", "m:app", "both given" },
    };
    struct pool_settings s, copy;
    struct conf_list words;

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        settings_init(&s);
        set(&s, "listen", ":9000");
        set(&s, "command", "/usr/bin/php-cgi -d \"a b\"");
        set(&s, cases[i].name, cases[i].value);
        assert_int_equal(settings_finish(&s, &err), -1);
        assert_contains(err.text, cases[i].part);
        assert_non_null(err.setting);
        settings_release(&s);
    }
    settings_init(&s);
    set(&s, "listen", ":9000");
    set(&s, "command", "  /usr/bin/php-cgi -d \"a \\\"b\\\" \\\\\"  \t$x # ");
    refuse(&s, "command", "  ", "no program");
    refuse(&s, "command", "\"\" x", "no program");
    refuse(&s, "command", "a \"b", "closing quote");
    refuse(&s, "command", "a b\"c\"", "middle of a word");
    refuse(&s, "command", "a \"b\"c", "behind the closing quote");
    assert_int_equal(settings_finish(&s, &err), 0);
    assert_int_equal(settings_copy(&copy, &s), 0);
    assert_int_equal(settings_finish(&copy, &err), 0);
    assert_int_equal(settings_words(copy.command, &words, &err), 0);
    assert_int_equal(words.count, 5);
    assert_string_equal(words.item[0], "/usr/bin/php-cgi");
    assert_string_equal(words.item[1], "-d");
    assert_string_equal(words.item[2], "a \"b\" \\");
    assert_string_equal(words.item[3], "$x");
    assert_string_equal(words.item[4], "#");
    conf_list_release(&words);
    conf_list_release(&words);
    conf_list_release(NULL);
    settings_release(&s);
    settings_release(&copy);
}

/* What was not given follows what was, also a second time and in a copy. */
static void
test_finish_workers(void **state)
{
    static const struct {
        const char *scaling, *workers, *min, *max;
        unsigned expect_workers, expect_min, expect_max;
    } cases[] = {
        { "static", NULL, NULL, NULL, 2, 1, 2 },
        { "static", "7", NULL, NULL, 7, 1, 7 },
        { "dynamic", NULL, NULL, NULL, 2, 1, 2 },
        { "dynamic", NULL, "4", NULL, 4, 4, 4 },
        { "dynamic", NULL, "4", "9", 4, 4, 9 },
        { "dynamic", NULL, NULL, "1", 1, 1, 1 },
        { "dynamic", "3", "2", "5", 3, 2, 5 },
        { "ondemand", NULL, NULL, NULL, 2, 0, 2 },
        { "ondemand", "5", NULL, NULL, 5, 0, 5 },
        { "ondemand", NULL, "1", "8", 2, 1, 8 },
        { "ondemand", NULL, "0", "1", 1, 0, 1 },
    };
    struct pool_settings s, copy;

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        settings_init(&s);
        set(&s, "app", "m");
        set(&s, "listen", ":1");
        set(&s, "scaling", cases[i].scaling);
        if (cases[i].workers != NULL) {
            set(&s, "workers", cases[i].workers);
        }
        if (cases[i].min != NULL) {
            set(&s, "min_workers", cases[i].min);
        }
        if (cases[i].max != NULL) {
            set(&s, "max_workers", cases[i].max);
        }
        assert_int_equal(settings_finish(&s, &err), 0);
        assert_int_equal(settings_finish(&s, &err), 0);
        assert_int_equal(settings_copy(&copy, &s), 0);
        assert_int_equal(settings_finish(&copy, &err), 0);
        assert_int_equal(copy.workers, cases[i].expect_workers);
        assert_int_equal(copy.min_workers, cases[i].expect_min);
        assert_int_equal(copy.max_workers, cases[i].expect_max);
        settings_release(&s);
        settings_release(&copy);
    }
    settings_init(&s);
    set(&s, "app", "m");
    set(&s, "listen", ":1");
    set(&s, "workers", "9");
    set(&s, "min_spare", "5");
    assert_int_equal(settings_finish(&s, &err), 0);
    assert_int_equal(s.max_spare, 5);
    settings_release(&s);
}

static void
test_checked_texts(void **state)
{
    struct pool_settings s;
    uint64_t bytes;

    (void)state;
    settings_init(&s);
    refuse(&s, "chroot", "srv", "begin with a slash");
    refuse(&s, "status_path", "status", "begin with a slash");
    refuse(&s, "ping_path", "ping", "begin with a slash");
    refuse(&s, "rlimit_core", "much", "neither unlimited nor a size");
    refuse(&s, "rlimit_core", "-1", "neither unlimited nor a size");
    assert_null(s.chroot);
    assert_null(s.rlimit_core);
    set(&s, "chroot", "/srv");
    set(&s, "chroot", "");
    assert_null(s.chroot);
    set(&s, "rlimit_core", "512m");
    assert_int_equal(settings_core_limit(s.rlimit_core, &bytes), 0);
    assert_int_equal(bytes, 512 << 20);
    assert_int_equal(settings_core_limit("Unlimited", &bytes), 0);
    assert_true(bytes == UINT64_MAX);
    assert_int_equal(settings_core_limit("", &bytes), -1);
    settings_release(&s);
}

static void
test_error_format(void **state)
{
    struct conf_error e = { .text = "why" };
    char out[64];

    (void)state;
    assert_string_equal(conf_error_format(&e, out, sizeof(out)), "why");
    snprintf(e.file, sizeof(e.file), "/x");
    assert_string_equal(conf_error_format(&e, out, sizeof(out)), "/x: why");
    e.line = 7;
    assert_string_equal(conf_error_format(&e, out, sizeof(out)), "/x:7: why");
}

static void
test_finish_completes(void **state)
{
    struct pool_settings s;

    (void)state;
    settings_init(&s);
    assert_int_equal(PARSE(&s, "m:app", "-l:1", "--mount=/a/b//"), 0);
    assert_int_equal(settings_finish(&s, &err), 0);
    assert_string_equal(s.mount, "/a/b");
    assert_int_equal(s.threads, 1);
    assert_int_equal(s.mode, CONF_PREFORK);
    assert_int_equal(s.switch_interval_us, 0);
    settings_release(&s);

    /* Threads alone say what is meant; threaded alone gets a number. */
    settings_init(&s);
    assert_int_equal(PARSE(&s, "m", "-l", ":1", "-t", "4"), 0);
    assert_int_equal(settings_finish(&s, &err), 0);
    assert_int_equal(s.mode, CONF_THREADED);
    assert_int_equal(s.threads, 4);
    assert_int_equal(s.switch_interval_us, 1000);
    assert_int_equal(settings_finish(&s, &err), 0);
    assert_int_equal(s.threads, 4);
    settings_release(&s);

    settings_init(&s);
    assert_int_equal(PARSE(&s, "m", "-l", ":1", "-m", "threaded",
                           "--switch-interval", "0", "--mount", "/"),
                     0);
    assert_int_equal(settings_finish(&s, &err), 0);
    assert_int_equal(s.threads, 8);
    assert_int_equal(s.switch_interval_us, 0);
    assert_string_equal(s.mount, "");
    settings_release(&s);
}

static char *
written(const struct pool_settings *s, size_t *ret_len)
{
    char *text = NULL;
    FILE *f = open_memstream(&text, ret_len);

    assert_non_null(f);
    assert_int_equal(settings_write(s, f), 0);
    fclose(f);
    return text;
}

/* Any bytes survive, and writing what was read gives the same text. */
static void
test_write_and_read(void **state)
{
    struct pool_settings s, copy = { 0 };
    char every[256 + 2], *text, *again;
    size_t len, again_len;

    (void)state;
    every[0] = 'A';
    every[1] = '=';
    for (int i = 1; i < 256; i++) {
        every[i + 1] = (char)i;
    }
    every[257] = '\0';
    settings_init(&s);
    set(&s, "app", every);
    set(&s, "env", every);
    set(&s, "env", "B=\\x41\nname=other\\");
    set(&s, "listen", "unix:/run/\xc3\xa9.sock");
    set(&s, "umask", "0");
    set(&s, "mount", "/m");
    set(&s, "threads", "3");
    set(&s, "mode", "threaded");
    set(&s, "body_timeout", "1500ms");
    set(&s, "switch_interval", "7us");
    set(&s, "max_body_size", "9223372036854775807");
    set(&s, "pass_http_proxy", "yes");
    set(&s, "hop_by_hop", "drop");
    assert_int_equal(settings_finish(&s, &err), 0);

    text = written(&s, &len);
    if (settings_read(&copy, text, len, &err) != 0) {
        fail_msg("%s", err.text);
    }
    assert_string_equal(copy.app, every);
    assert_int_equal(copy.env.count, 2);
    assert_string_equal(copy.env.item[0], every);
    assert_string_equal(copy.env.item[1], "B=\\x41\nname=other\\");
    assert_string_equal(copy.listen.item[0], s.listen.item[0]);
    assert_int_equal(copy.umask, 0);
    assert_int_equal(copy.threads, 3);
    assert_int_equal(copy.mode, CONF_THREADED);
    assert_int_equal(copy.body_timeout, 1500);
    assert_int_equal(copy.switch_interval_us, 7);
    assert_int_equal(copy.max_body_size, INT64_MAX);
    assert_true(copy.pass_http_proxy);
    assert_int_equal(copy.hop_by_hop, CONF_HOP_DROP);
    assert_string_equal(copy.name, "main");
    assert_null(copy.user);
    assert_int_equal(settings_finish(&copy, &err), 0);
    again = written(&copy, &again_len);
    assert_int_equal(again_len, len);
    assert_memory_equal(again, text, len);

    /* Reading again replaces; it does not add to lists. */
    assert_int_equal(settings_read(&copy, text, len, &err), 0);
    assert_int_equal(copy.env.count, 2);
    free(text);
    free(again);
    settings_release(&s);
    settings_release(&copy);
}

static void
test_read_refuses(void **state)
{
    static const char *const bad[] = {
        "workers",   "workers=2x", "unknown=1",       "app=\\", "app=\\x4",
        "app=\\x4g", "app=\\n",    "app=a\nworkers=", "=x",
    };
    struct pool_settings s = { 0 };

    (void)state;
    for (size_t i = 0; i < COUNT(bad); i++) {
        if (settings_read(&s, bad[i], strlen(bad[i]), &err) == 0) {
            fail_msg("taken: %s", bad[i]);
        }
        assert_true(err.line > 0);
    }
    assert_int_equal(settings_read(&s, "app=a\0b\n", 8, &err), -1);
    assert_int_equal(settings_read(&s, "", 0, &err), 0);
    assert_int_equal(s.workers, 2);
    settings_release(&s);
}

struct others {
    char seen[256];
};

static int
take_other(const char *name, const char *value, void *ctx,
           struct conf_error *error)
{
    struct others *o = ctx;
    size_t used = strlen(o->seen);

    if (strcmp(name, "config") == 0 || strcmp(name, "c") == 0) {
        snprintf(o->seen + used, sizeof(o->seen) - used, "%s:%s ", name,
                 value != NULL ? value : "(none)");
        return 2;
    }
    if (strcmp(name, "help") == 0) {
        snprintf(o->seen + used, sizeof(o->seen) - used, "help ");
        return 1;
    }
    if (strcmp(name, "bad") == 0) {
        snprintf(error->text, sizeof(error->text), "bad is bad");
        return -1;
    }
    return 0;
}

static int
parse_other(struct others *o, struct pool_settings *s, char **argv)
{
    int argc = 0;

    memset(o, 0, sizeof(*o));
    while (argv[argc] != NULL) {
        argc++;
    }
    return settings_parse_args(s, argc, argv, take_other, o, &err);
}

#define OTHER(o, s, ...)                                                       \
    parse_other(o, s, (char *[]){ "serve", __VA_ARGS__, NULL })

static void
test_arguments(void **state)
{
    struct pool_settings s;

    (void)state;
    settings_init(&s);
    assert_int_equal(PARSE(&s, "--workers", "4", "--threads=2", "-m",
                           "threaded", "-l/a", "--listen", "/b", "--max_params",
                           "50", "mod:app", "--pass-http-proxy", "-u",
                           "www-data", "-gadm"),
                     0);
    assert_int_equal(s.workers, 4);
    assert_int_equal(s.threads, 2);
    assert_int_equal(s.mode, CONF_THREADED);
    assert_int_equal(s.listen.count, 2);
    assert_int_equal(s.max_params, 50);
    assert_string_equal(s.app, "mod:app");
    assert_true(s.pass_http_proxy);
    assert_string_equal(s.user, "www-data");
    assert_string_equal(s.group, "adm");
    assert_int_equal(PARSE(&s, "--no-pass-http-proxy"), 0);
    assert_false(s.pass_http_proxy);
    assert_int_equal(PARSE(&s, "--pass-http-proxy=yes", "--", "-odd-name"), 0);
    assert_true(s.pass_http_proxy);
    assert_string_equal(s.app, "-odd-name");
    assert_int_equal(PARSE(&s, "--chdir=--x", "--server-name", "-"), 0);
    assert_string_equal(s.chdir, "--x");
    assert_string_equal(s.server_name, "-");
    settings_release(&s);
}

static void
test_bad_arguments(void **state)
{
    struct pool_settings s;

    (void)state;
    settings_init(&s);
    assert_int_equal(PARSE(&s, "--thread", "4"), -1);
    assert_contains(err.text, "--thread; did you mean --threads?");
    assert_int_equal(PARSE(&s, "--max-body-sise=4"), -1);
    assert_contains(err.text, "did you mean --max-body-size?");
    assert_int_equal(PARSE(&s, "-z"), -1);
    assert_contains(err.text, "-z");
    assert_int_equal(PARSE(&s, "--workers"), -1);
    assert_contains(err.text, "--workers needs a value");
    assert_int_equal(PARSE(&s, "-w"), -1);
    assert_contains(err.text, "-w needs a value");
    assert_int_equal(PARSE(&s, "--chdir", "--user", "x"), -1);
    assert_contains(err.text, "--chdir needs a value");
    assert_int_equal(PARSE(&s, "--no-pass-http-proxy=yes"), -1);
    assert_contains(err.text, "takes no value");
    assert_int_equal(PARSE(&s, "--no-workers"), -1);
    assert_contains(err.text, "unknown option --no-workers");
    assert_int_equal(PARSE(&s, "a", "b"), -1);
    assert_contains(err.text, "\"b\" is one argument too many");
    settings_release(&s);
}

static void
test_other_options(void **state)
{
    struct pool_settings s;
    struct others o;

    (void)state;
    settings_init(&s);
    assert_int_equal(OTHER(&o, &s, "--config", "f", "-c", "g", "-ch",
                           "--config=i", "--help", "app"),
                     0);
    assert_string_equal(o.seen, "config:f c:g c:h config:i help ");
    assert_string_equal(s.app, "app");
    assert_int_equal(OTHER(&o, &s, "--help=x"), -1);
    assert_contains(err.text, "takes no value");
    assert_int_equal(OTHER(&o, &s, "--config"), -1);
    assert_contains(err.text, "needs a value");
    assert_int_equal(OTHER(&o, &s, "--bad"), -1);
    assert_string_equal(err.text, "bad is bad");
    settings_release(&s);
}

static void
test_help(void **state)
{
    char *text = NULL, dashed[80];
    size_t len;
    FILE *f = open_memstream(&text, &len);

    (void)state;
    settings_print_help(f);
    fclose(f);
    for (unsigned i = 0; i < settings_count; i++) {
        snprintf(dashed, sizeof(dashed), "%s", settings_table[i].name);
        for (char *p = dashed; *p != '\0'; p++) {
            *p = *p == '_' ? '-' : *p;
        }
        assert_contains(text, dashed);
    }
    for (char *line = text, *end; *line != '\0'; line = end + 1) {
        end = strchr(line, '\n');
        assert_non_null(end);
        assert_true(end - line < 80);
    }
    free(text);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_table),
        cmocka_unit_test(test_sizes_and_times),
        cmocka_unit_test(test_bad_numbers),
        cmocka_unit_test(test_words),
        cmocka_unit_test(test_strings_and_lists),
        cmocka_unit_test(test_list_default_is_replaced),
        cmocka_unit_test(test_nearest),
        cmocka_unit_test(test_finish_refuses),
        cmocka_unit_test(test_command),
        cmocka_unit_test(test_finish_workers),
        cmocka_unit_test(test_checked_texts),
        cmocka_unit_test(test_error_format),
        cmocka_unit_test(test_finish_completes),
        cmocka_unit_test(test_write_and_read),
        cmocka_unit_test(test_read_refuses),
        cmocka_unit_test(test_arguments),
        cmocka_unit_test(test_bad_arguments),
        cmocka_unit_test(test_other_options),
        cmocka_unit_test(test_help),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
