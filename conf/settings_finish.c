/* SPDX-License-Identifier: MIT
 *
 * What no single setting of a pool can tell: values that follow from others,
 * and those that do not go together. Any process. Asks the system nothing,
 * never logs.
 */
#include "conf/internal.h"

#include <string.h>

static int
finish_threads(struct pool_settings *s, struct conf_error *err)
{
    if (s->threads > 1 && s->mode == CONF_PREFORK) {
        if (settings_is_given(s, "mode")) {
            return conf_fail_about(
                err, "threads",
                "threads is %u, but in mode prefork a worker has one "
                "thread: use mode threaded, or more workers",
                s->threads);
        }
        s->mode = CONF_THREADED;
    }
    if (s->mode == CONF_THREADED && !settings_is_given(s, "threads")) {
        s->threads = 8;
    }
    if (!settings_is_given(s, "switch_interval")) {
        s->switch_interval_us = s->threads > 1 ? 1000 : 0;
    }
    if (s->engine == CONF_ENGINE_LIBFCGI &&
        (s->protocol == CONF_PROTO_SCGI || s->protocol == CONF_PROTO_UWSGI)) {
        return conf_fail_about(err, "engine",
                               "engine libfcgi speaks FastCGI only; leave out "
                               "protocol %s, or use engine epoll",
                               s->protocol == CONF_PROTO_SCGI ? "scgi"
                                                              : "uwsgi");
    }
    return 0;
}

/* a must not be more than b. */
static int
check_order(const char *a_name, unsigned a, const char *b_name, unsigned b,
            struct conf_error *err)
{
    return a <= b ? 0
                  : conf_fail_about(err, a_name, "%s is %u, more than %s, %u",
                                    a_name, a, b_name, b);
}

/* Of min_workers, workers and max_workers, what was not given follows what was.
 */
static int
finish_workers(struct pool_settings *s, struct conf_error *err)
{
    bool given = settings_is_given(s, "workers");

    if (s->scaling == CONF_SCALING_ONDEMAND &&
        !settings_is_given(s, "min_workers")) {
        s->min_workers = 0;
    }
    if (s->scaling == CONF_SCALING_DYNAMIC && s->min_workers == 0) {
        return conf_fail_about(err, "min_workers",
                               "min_workers is 0, which scaling dynamic cannot "
                               "do; use at least 1, or scaling ondemand");
    }
    if (s->max_workers > 0 &&
        check_order("min_workers", s->min_workers, "max_workers",
                    s->max_workers, err) != 0) {
        return -1;
    }
    if (!given && s->workers < s->min_workers) {
        s->workers = s->min_workers;
    }
    if (s->max_workers == 0) {
        s->max_workers = s->workers;
    }
    if (!given && s->workers > s->max_workers) {
        s->workers = s->max_workers;
    }
    if (check_order("min_workers", s->min_workers, "workers", s->workers,
                    err) != 0) {
        return -1;
    }
    return check_order("workers", s->workers, "max_workers", s->max_workers,
                       err);
}

/* Slots for short requests, of those that there always are. */
static int
finish_reserve(const struct pool_settings *s, struct conf_error *err)
{
    unsigned least =
        s->scaling == CONF_SCALING_STATIC ? s->workers : s->min_workers;
    bool paths = s->short_paths.count > 0 || s->long_paths.count > 0;

    if (s->reserved_slots == 0) {
        return paths ? conf_fail_about(err, "reserved_slots",
                                       "short_paths and long_paths say nothing "
                                       "without reserved_slots")
                     : 0;
    }
    if (!paths) {
        return conf_fail_about(err, "reserved_slots",
                               "reserved_slots needs short_paths or "
                               "long_paths, which say what is short");
    }
    if (s->engine == CONF_ENGINE_LIBFCGI) {
        return conf_fail_about(err, "reserved_slots",
                               "reserved_slots needs engine epoll");
    }
    if (s->scaling == CONF_SCALING_ONDEMAND) {
        return conf_fail_about(err, "reserved_slots",
                               "with scaling ondemand no worker is kept for "
                               "anything: reserved_slots needs static or "
                               "dynamic");
    }
    if (s->reserved_slots >= least * s->threads) {
        return conf_fail_about(
            err, "reserved_slots",
            "reserved_slots is %u, but there are %u threads when there is "
            "nothing to do: at least one must be left for other requests",
            s->reserved_slots, least * s->threads);
    }
    return 0;
}

static int
finish_scaling(struct pool_settings *s, struct conf_error *err)
{
    if (finish_workers(s, err) != 0) {
        return -1;
    }
    if (!settings_is_given(s, "max_spare") && s->max_spare < s->min_spare) {
        s->max_spare = s->min_spare;
    }
    if ((s->max_spare > 0 && check_order("min_spare", s->min_spare, "max_spare",
                                         s->max_spare, err) != 0) ||
        check_order("min_spare", s->min_spare, "max_workers", s->max_workers,
                    err) != 0) {
        return -1;
    }
    if (finish_reserve(s, err) != 0) {
        return -1;
    }
    if (s->max_requests_jitter > 0 && s->max_requests == 0) {
        return conf_fail_about(err, "max_requests_jitter",
                               "max_requests_jitter says nothing without "
                               "max_requests");
    }
    if (s->request_timeout > 0 && s->slow_request > s->request_timeout) {
        return conf_fail_about(err, "slow_request",
                               "slow_request is longer than request_timeout: "
                               "no request would ever be reported");
    }
    return 0;
}

/* A command is run as it is: nothing of Python can be said about it. Values are
 * looked at, not what was given: a template is told all of them. */
static int
finish_command(const struct pool_settings *s, struct conf_error *err)
{
    const char *python = s->virtualenv != NULL               ? "virtualenv"
                         : s->python != NULL                 ? "python"
                         : s->pythonpath.count > 0           ? "pythonpath"
                         : s->warmup.count > 0               ? "warmup"
                         : s->preload != CONF_PRELOAD_AUTO   ? "preload"
                         : s->autoreload                     ? "autoreload"
                         : s->mode != CONF_PREFORK           ? "mode"
                         : s->threads > 1                    ? "threads"
                         : s->scaling != CONF_SCALING_STATIC ? "scaling"
                         : s->max_requests > 0               ? "max_requests"
                         : s->request_timeout > 0            ? "request_timeout"
                         : s->slow_request > 0               ? "slow_request"
                         : s->after_timeout > 0              ? "after_timeout"
                         : s->queue_timeout > 0              ? "queue_timeout"
                                                             : NULL;

    if (s->app != NULL) {
        return conf_fail_about(err, "command",
                               "app and command were both given; a pool runs "
                               "either a Python application or another "
                               "program");
    }
    if (python != NULL) {
        return conf_fail_about(err, python,
                               "%s is for Python applications, but command "
                               "makes this pool run another program",
                               python);
    }
    if (s->listen.count > 1) {
        return conf_fail_about(err, "listen",
                               "listen has %u addresses, but the program of "
                               "command gets one socket; use a pool for each",
                               s->listen.count);
    }
    return 0;
}

static int
finish_mount(char *mount, struct conf_error *err)
{
    size_t len = strlen(mount);

    while (len > 0 && mount[len - 1] == '/') {
        mount[--len] = '\0';
    }
    if (len == 0) {
        return 0;
    }
    if (mount[0] != '/') {
        return conf_fail_about(
            err, "mount", "mount: \"%s\" must begin with a slash, such as /app",
            mount);
    }
    for (const char *p = mount; *p != '\0';) {
        size_t n = strcspn(++p, "/");

        if (n == 0 || (n == 1 && p[0] == '.') ||
            (n == 2 && p[0] == '.' && p[1] == '.')) {
            return conf_fail_about(
                err, "mount",
                "mount: \"%s\" has an empty part, \".\" or \"..\"; "
                "no request can have such a path",
                mount);
        }
        p += n;
    }
    if (strpbrk(mount, "?#") != NULL) {
        return conf_fail_about(err, "mount",
                               "mount: \"%s\" is a path alone, without ? and #",
                               mount);
    }
    return 0;
}

static int
finish_names(const struct pool_settings *s, struct conf_error *err)
{
    uint64_t port;

    if (!conf_is_pool_name(s->name)) {
        return conf_fail_about(err, "name",
                               "name: \"%s\" must be 1 to %d letters, digits, "
                               "dots, dashes or underscores",
                               s->name, CONF_POOL_NAME_MAX);
    }
    if (s->server_port != NULL &&
        (conf_amount_parse(s->server_port, SETTING_UINT, &port) != 1 ||
         port < 1 || port > 65535)) {
        return conf_fail_about(
            err, "server_port",
            "server_port: \"%s\" is not a port from 1 to 65535",
            s->server_port);
    }
    for (const char *p = s->server_name; p != NULL && *p != '\0'; p++) {
        if ((unsigned char)*p <= ' ' || *p == 0x7f || *p == '/') {
            return conf_fail_about(
                err, "server_name",
                "server_name: \"%s\" is not the name of a host",
                s->server_name);
        }
    }
    if (s->sendfile_header == CONF_SENDFILE_ACCEL &&
        s->sendfile_map.count == 0) {
        return conf_fail_about(err, "sendfile_header",
                               "sendfile_header X-Accel-Redirect needs "
                               "sendfile_map, which says by which location of "
                               "nginx a file can be had");
    }
    if (s->sendfile_header == CONF_SENDFILE_OFF && s->sendfile_map.count > 0) {
        return conf_fail_about(err, "sendfile_map",
                               "sendfile_map says nothing without "
                               "sendfile_header");
    }
    if (s->status_path != NULL && s->ping_path != NULL &&
        strcmp(s->status_path, s->ping_path) == 0) {
        return conf_fail_about(err, "ping_path",
                               "ping_path and status_path are both \"%s\"",
                               s->ping_path);
    }
    return 0;
}

int
settings_finish(struct pool_settings *s, struct conf_error *err)
{
    if (s->app == NULL && s->command == NULL) {
        return conf_fail(err,
                         "no application was given; app is module:callable or "
                         "the path of a Python file");
    }
    if (s->listen.count == 0) {
        return conf_fail(err,
                         "no address to listen on was given; listen (--listen "
                         "on the command line) is for example "
                         "unix:/run/forebay/app.sock or :9000");
    }
    if ((s->command != NULL && finish_command(s, err) != 0) ||
        finish_threads(s, err) != 0 || finish_scaling(s, err) != 0 ||
        finish_names(s, err) != 0) {
        return -1;
    }
    return finish_mount(s->mount, err);
}
