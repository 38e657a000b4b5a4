/* SPDX-License-Identifier: MIT
 *
 * The settings table, and finding a row in it by a right or a nearly right
 * name. Any process.
 */
#include "conf/internal.h"

#include <limits.h>
#include <stdarg.h>
#include <string.h>

#define SECOND UINT64_C(1000)
#define DAY (86400 * SECOND)
#define MICROSECONDS UINT64_C(1000000) /* of one second */

/* One row: the parts that most rows leave out are named where they are used. */
#define ROW_NAMED(name_, field, type_, initial_, value_name_, help_, ...)      \
    {                                                                          \
        .name = name_, .type = type_,                                          \
        .offset = offsetof(struct pool_settings, field), .initial = initial_,  \
        .value_name = value_name_, .help = help_, __VA_ARGS__                  \
    }
#define ROW(field, ...) ROW_NAMED(#field, field, __VA_ARGS__)

/* What web servers call the combined format. */
#define ACCESS_FORMAT                                                          \
    "%h - %u %t \"%r\" %s %b \"%{Referer}i\" \"%{User-Agent}i\""

/* The one table. forebay.conf(5) has the same order (scripts/check-settings).
 */
const struct setting settings_table[] = {
    /* Application */
    ROW(app, SETTING_STRING, NULL, "APP",
        "The application: module:callable, module, or path/to/file.py with "
        "an optional :callable. Without one, application and then app are "
        "looked for; \"name()\" is a factory. On the command line the bare "
        "argument says the same."),
    ROW(command, SETTING_STRING, NULL, "COMMAND",
        "An external FastCGI program to run instead of an application, such as "
        "php-cgi: its path and arguments, separated by blanks. It gets the "
        "listening socket as descriptor 0.",
        .check = conf_check_words),
    ROW(name, SETTING_STRING, "main", "NAME",
        "Name of the pool, for the log and the process titles. In a file it "
        "stands in the heading of the section."),
    ROW(chdir, SETTING_STRING, NULL, "DIR",
        "Working directory of the application."),
    ROW(pythonpath, SETTING_LIST, NULL, "DIR",
        "A folder put in front of sys.path. May be given several times."),
    ROW(virtualenv, SETTING_STRING, NULL, "DIR",
        "The virtual environment whose packages the application uses. Its "
        "Python version also chooses the worker program."),
    ROW(python, SETTING_STRING, NULL, "VERSION|PATH",
        "The Python to run: a version such as 3.11, or the path of a python "
        "executable of that version. Without it the virtualenv decides, and "
        "without one the version that forebay was built for."),
    ROW(env, SETTING_LIST, NULL, "NAME=VALUE",
        "A variable for the application's environment (os.environ). May be "
        "given several times.",
        .check = conf_check_env),
    ROW(preload, SETTING_CHOICE, "auto", "auto|on|off",
        "Import the application once and fork the workers from that, which "
        "saves memory. auto does so unless the import leaves behind what does "
        "not survive a fork (threads, connections, open files); off imports "
        "in each worker.",
        .choices = "auto|on|off"),
    ROW(warmup, SETTING_LIST, NULL, "PATH",
        "A path that is requested (20 times: the interpreter rewrites code "
        "that "
        "runs often) before the first worker is forked, so that what it loads "
        "is shared. May be given several times.",
        .check = conf_check_url_path),
    ROW(autoreload, SETTING_BOOL, "no", NULL,
        "Watch the files of the application and reload the pool when one of "
        "them changes. For development."),

    /* Processes and threads */
    ROW(mode, SETTING_CHOICE, "prefork", "prefork|threaded",
        "prefork: every worker process serves one request at a time. "
        "threaded: every worker process runs several threads.",
        .letter = 'm', .choices = "prefork|threaded"),
    ROW(workers, SETTING_UINT, "2", "NUMBER",
        "Number of worker processes; with scaling, the number to start with.",
        .letter = 'w', .min = 1, .max = 4096),
    ROW(threads, SETTING_UINT, "1", "NUMBER",
        "Threads of each worker process. More than 1 means mode threaded; "
        "mode threaded without this setting means 8.",
        .letter = 't', .min = 1, .max = 1024),
    ROW(engine, SETTING_CHOICE, "epoll", "epoll|libfcgi",
        "How a worker talks to the front end. libfcgi is the classic blocking "
        "loop, for comparison: FastCGI only, and a kept connection occupies "
        "its worker.",
        .choices = "epoll|libfcgi"),
    ROW_NAMED(
        "switch_interval", switch_interval_us, SETTING_TIME_US, NULL, "TIME",
        "How often Python's threads take turns (sys.setswitchinterval). "
        "Without it 1ms when threads is more than 1, else CPython's own 5ms; "
        "0 is CPython's own as well.",
        .min = 0, .max = 10 * MICROSECONDS),
    ROW(exit_on_system_exit, SETTING_BOOL, "no", NULL,
        "End the worker when the application raises SystemExit; a new one "
        "takes its place. Otherwise that is an error like any other."),

    /* Scaling and recycling */
    ROW(scaling, SETTING_CHOICE, "static", "static|dynamic|ondemand",
        "static: always as many workers as workers says. dynamic: between "
        "min_workers and max_workers, as requests need them. ondemand: none "
        "while there is nothing to do.",
        .choices = "static|dynamic|ondemand"),
    ROW(min_workers, SETTING_UINT, "1", "NUMBER",
        "Workers that stay when there is nothing to do. With scaling ondemand "
        "0, unless it is given.",
        .min = 0, .max = 4096),
    ROW(max_workers, SETTING_UINT, "0", "NUMBER",
        "Workers that there may be. 0: as many as workers says.", .min = 0,
        .max = 4096),
    ROW(min_spare, SETTING_UINT, "1", "NUMBER",
        "With scaling dynamic: another worker is started when fewer than this "
        "are idle.",
        .min = 0, .max = 4096),
    ROW(max_spare, SETTING_UINT, "3", "NUMBER",
        "With scaling dynamic: a worker may retire when more than this are "
        "idle. 0: idle workers stay.",
        .min = 0, .max = 4096),
    ROW(idle_timeout, SETTING_TIME, "60s", "TIME",
        "How long a surplus worker is idle before it retires.", .min = 0,
        .max = 365 * DAY),
    ROW(max_requests, SETTING_UINT, "0", "NUMBER",
        "Requests after which a worker is replaced by a new one. 0: no limit.",
        .min = 0, .max = 1000000000),
    ROW(max_requests_jitter, SETTING_UINT, "0", "NUMBER",
        "A random number up to this is added to max_requests for each worker, "
        "so that they are not all replaced at once.",
        .min = 0, .max = 1000000000),
    ROW(max_worker_memory, SETTING_SIZE, "0", "SIZE",
        "A worker that uses more memory than this is replaced after its "
        "request. 0: no limit.",
        .min = 0, .max = UINT64_MAX >> 1),
    ROW(max_worker_age, SETTING_TIME, "0", "TIME",
        "A worker that is older than this is replaced. 0: no limit.", .min = 0,
        .max = 365 * DAY),
    ROW(max_recycling, SETTING_UINT, "1", "NUMBER",
        "How many workers may be on their way of being replaced at once.",
        .min = 1, .max = 4096),

    ROW(reserved_slots, SETTING_UINT, "0", "NUMBER",
        "Threads, of all workers together, that are kept free for short "
        "requests: others wait while only so many are free. Which are short "
        "is said by short_paths or long_paths. 0: none.",
        .min = 0, .max = 1000000),
    ROW(short_paths, SETTING_LIST, NULL, "PATH",
        "Requests for this path and those below it are short; then others are "
        "not. May be given several times.",
        .check = conf_check_url_path),
    ROW(long_paths, SETTING_LIST, NULL, "PATH",
        "Requests for this path and those below it are not short; without "
        "short_paths all others are. The longest path decides. May be given "
        "several times.",
        .check = conf_check_url_path),

    /* Addresses */
    ROW(listen, SETTING_LIST, NULL, "ADDRESS",
        "Where to listen: unix:/path, /path, host:port, :port (this machine "
        "only), [v6]:port, fd:N or systemd[:name]. May be given several "
        "times.",
        .letter = 'l'),
    ROW(protocol, SETTING_CHOICE, "auto", "auto|fcgi|scgi|uwsgi",
        "What front ends speak. auto tells FastCGI, SCGI and the uwsgi "
        "protocol "
        "apart by the first byte of each connection.",
        .choices = "auto|fcgi|scgi|uwsgi"),
    ROW(allow, SETTING_LIST, NULL, "ADDRESS[/BITS]",
        "Peers that may connect over TCP, as an address or a network such as "
        "192.0.2.0/24; others are disconnected. Without it all that reach the "
        "address may. May be given several times.",
        .check = conf_check_network),
    ROW(backlog, SETTING_UINT, "4096", "NUMBER",
        "Connections that may wait to be accepted. The kernel's "
        "net.core.somaxconn is the upper limit.",
        .min = 1, .max = 1000000),
    ROW(socket_mode, SETTING_OCTAL, "0660", "MODE",
        "Mode of unix sockets, in octal."),
    ROW(socket_owner, SETTING_STRING, NULL, "USER",
        "Owner of unix sockets; needs root. Without it the user that forebay "
        "was started as."),
    ROW(socket_group, SETTING_STRING, NULL, "GROUP",
        "Group of unix sockets, usually that of the front end, such as "
        "www-data."),

    /* Rights */
    ROW(user, SETTING_STRING, NULL, "USER",
        "User to run the application as, name or number; needs root. A "
        "number that has no entry in passwd gets the group of the same "
        "number, unless group says otherwise.",
        .letter = 'u'),
    ROW(group, SETTING_STRING, NULL, "GROUP",
        "Group to run the application as. Without it the user's own.",
        .letter = 'g'),
    ROW(umask, SETTING_OCTAL, NULL, "MASK",
        "File mode creation mask of the application, in octal. Without it the "
        "one that forebay was started with."),

    ROW(chroot, SETTING_STRING, NULL, "DIR",
        "Folder that becomes the root of the application's file system; needs "
        "root. Other paths are then looked for inside.",
        .check = conf_check_absolute),
    ROW(no_new_privs, SETTING_BOOL, "yes", NULL,
        "Programs that the application starts gain no rights by set-user-ID "
        "bits or file capabilities (PR_SET_NO_NEW_PRIVS). Say no when it has "
        "to call sudo or sendmail."),
    ROW(rlimit_files, SETTING_UINT, "0", "NUMBER",
        "Files that a worker may have open (RLIMIT_NOFILE). 0: unchanged.",
        .min = 0, .max = 1000000000),
    ROW(rlimit_core, SETTING_STRING, NULL, "SIZE|unlimited",
        "Size of core dumps (RLIMIT_CORE); 0 is none. Without it the limit "
        "that forebay was started with.",
        .check = conf_check_core),
    ROW(kill_group, SETTING_BOOL, "no", NULL,
        "When a worker is killed, kill the processes that it has started as "
        "well."),

    /* Requests */
    ROW(mount, SETTING_STRING, "", "PATH",
        "The path below which the front end has the application, such as "
        "/app; it becomes SCRIPT_NAME. Empty: the whole site."),
    ROW(path_source, SETTING_CHOICE, "cgi", "cgi|request_uri",
        "Where the request's path comes from: SCRIPT_NAME and PATH_INFO, or "
        "REQUEST_URI. Use request_uri only when the front end rewrites paths: "
        "it sees them before the front end has cleaned them.",
        .choices = "cgi|request_uri"),
    ROW(url_scheme, SETTING_CHOICE, "auto", "auto|http|https",
        "wsgi.url_scheme. auto takes it from HTTPS and REQUEST_SCHEME as the "
        "front end sends them.",
        .choices = "auto|http|https"),
    ROW(server_name, SETTING_STRING, NULL, "NAME",
        "SERVER_NAME for requests that come without one."),
    ROW(server_port, SETTING_STRING, NULL, "PORT",
        "SERVER_PORT for requests that come without one."),
    ROW(pass_http_proxy, SETTING_BOOL, "no", NULL,
        "Hand the request header Proxy on as HTTP_PROXY. It is dropped "
        "otherwise, because HTTP libraries mistake it for their own setting."),
    ROW(redirect_authorization, SETTING_BOOL, "no", NULL,
        "Where HTTP_AUTHORIZATION does not come, take it from "
        "REDIRECT_HTTP_AUTHORIZATION, which Apache sends when the request was "
        "rewritten and a rule has saved the header."),
    ROW(hop_by_hop, SETTING_CHOICE, "refuse", "refuse|drop",
        "What becomes of an answer with a hop-by-hop header (Connection and "
        "the like), which PEP 3333 forbids: refuse answers 500, drop leaves "
        "the header out with a warning.",
        .choices = "refuse|drop"),

    ROW(sendfile_header, SETTING_CHOICE, "off",
        "off|X-Accel-Redirect|X-Sendfile|X-LIGHTTPD-send-file",
        "Let the front end send the files of wsgi.file_wrapper itself: instead "
        "of the file the answer has this header with its path. "
        "X-Accel-Redirect "
        "for nginx, X-Sendfile for lighttpd and Apache with mod_xsendfile. "
        "What "
        "is not a whole file, or not below a path of sendfile_map, is sent as "
        "without.",
        .choices = "off|X-Accel-Redirect|X-Sendfile|X-LIGHTTPD-send-file"),
    ROW(sendfile_map, SETTING_LIST, NULL, "PATH=TARGET",
        "What the front end calls a directory: with /srv/files=/protected the "
        "file /srv/files/a is /protected/a there, for nginx the name of an "
        "internal location. Needed for X-Accel-Redirect; without it the others "
        "are told the path itself. May be given several times.",
        .check = conf_check_map),

    ROW(fcgi_stderr, SETTING_BOOL, "no", NULL,
        "Send what the application writes to wsgi.errors to the front end as "
        "well (FCGI_STDERR), for its error log."),
    ROW(status_path, SETTING_STRING, NULL, "PATH",
        "A path that is answered with the status of the pool instead of by the "
        "application.",
        .check = conf_check_url_path),
    ROW(ping_path, SETTING_STRING, NULL, "PATH",
        "A path that is answered with pong as long as the pool serves.",
        .check = conf_check_url_path),

    /* Limits */
    ROW(max_params_size, SETTING_SIZE, "256k", "SIZE",
        "Bytes of all CGI parameters (request headers included) of one "
        "request. More is answered with 431.",
        .min = 1 * KB, .max = 1 * GB),
    ROW(max_params, SETTING_UINT, "2000", "NUMBER",
        "Number of CGI parameters of one request. More is answered with 431.",
        .min = 16, .max = 1000000),
    ROW(max_body_size, SETTING_SIZE, "0", "SIZE",
        "Bytes of a request body. More is answered with 413. 0: no limit "
        "here; the front end has one of its own.",
        .min = 0, .max = UINT64_MAX >> 1),
    ROW(max_response_headers, SETTING_SIZE, "64k", "SIZE",
        "Bytes of status and headers of one answer.", .min = 1 * KB,
        .max = 64 * MB),
    ROW(body_buffer, SETTING_SIZE, "64k", "SIZE",
        "Bytes of a request body to wait for before a worker is occupied. 0: "
        "do not wait.",
        .min = 0, .max = 1 * GB),
    ROW(max_connections, SETTING_UINT, "10000", "NUMBER",
        "Open connections of one worker process; more wait to be accepted.",
        .min = 1, .max = 1000000),
    ROW(learned_names, SETTING_UINT, "1000", "NUMBER",
        "Names of CGI parameters that a worker remembers, so that they need "
        "not be made anew for each request.",
        .min = 0, .max = 1000000),

    /* Times */
    ROW(header_timeout, SETTING_TIME, "30s", "TIME",
        "How long a request head may take to arrive whole.", .min = 1,
        .max = 365 * DAY),
    ROW(body_timeout, SETTING_TIME, "60s", "TIME",
        "How long to wait for the next bytes of a request body.", .min = 1,
        .max = 365 * DAY),
    ROW(write_timeout, SETTING_TIME, "60s", "TIME",
        "How long to wait until the front end takes more of an answer.",
        .min = 1, .max = 365 * DAY),
    ROW(keepalive_timeout, SETTING_TIME, "300s", "TIME",
        "How long a kept connection may stay without a request.", .min = 1,
        .max = 365 * DAY),
    ROW(graceful_timeout, SETTING_TIME, "30s", "TIME",
        "How long running requests may take to end at a stop or a reload, "
        "before their workers are killed. 0: kill at once.",
        .min = 0, .max = 365 * DAY),
    ROW(start_timeout, SETTING_TIME, "60s", "TIME",
        "How long the import of the application may take.", .min = 1,
        .max = 365 * DAY),
    ROW(max_start_failures, SETTING_UINT, "3", "NUMBER",
        "How often starting may fail, before the first worker was ever ready, "
        "until forebay gives up.",
        .min = 1, .max = 1000000),
    ROW(request_timeout, SETTING_TIME, "0", "TIME",
        "How long the application may take for one request. Then an exception "
        "is raised in its thread, and answered with 504 if nothing was sent "
        "yet. 0: for ever.",
        .min = 0, .max = 365 * DAY),
    ROW(request_grace, SETTING_TIME, "5s", "TIME",
        "How long after request_timeout the thread may take to end the "
        "request, before its worker is killed.",
        .min = 0, .max = 365 * DAY),
    ROW(slow_request, SETTING_TIME, "0", "TIME",
        "A request that takes longer is reported to slow_log, with the "
        "traceback of where it is. 0: none is.",
        .min = 0, .max = 365 * DAY),
    ROW(after_timeout, SETTING_TIME, "0", "TIME",
        "How long the work may take that forebay.after_response() was given. "
        "0: for ever.",
        .min = 0, .max = 365 * DAY),
    ROW(queue_timeout, SETTING_TIME, "0", "TIME",
        "A request that has waited longer for a worker is answered with 503 at "
        "once. 0: none is.",
        .min = 0, .max = 365 * DAY),

    /* Logs */
    ROW(log, SETTING_STRING, NULL, "FILE",
        "File for what the workers of the pool and the application write. "
        "Without it the log of the manager."),
    ROW(access_log, SETTING_STRING, NULL, "FILE",
        "File for a line about each request. Without it none is written."),
    ROW(access_format, SETTING_STRING, ACCESS_FORMAT, "FORMAT",
        "What a line of access_log is made of, in the letters of Apache's "
        "LogFormat; json makes each line a JSON object."),
    ROW(slow_log, SETTING_STRING, NULL, "FILE",
        "File for what slow_request reports. Without it the log of the pool."),
};

enum { SETTINGS_COUNT = sizeof(settings_table) / sizeof(settings_table[0]) };
const unsigned settings_count = SETTINGS_COUNT;

const struct conf_table conf_pool_table = { settings_table, SETTINGS_COUNT };

_Static_assert(SETTINGS_COUNT <=
                   8 * sizeof(((struct pool_settings *)NULL)->given),
               "pool_settings.given has a bit for each");

/* Names that other servers use for the same thing. */
static const struct {
    const char *other, *ours;
} other_names[] = {
    { "bind", "listen" },
    { "socket", "listen" },
    { "fastcgi_socket", "listen" },
    { "scgi_socket", "listen" },
    { "processes", "workers" },
    { "max_children", "workers" },
    { "home", "virtualenv" },
    { "venv", "virtualenv" },
    { "python_path", "pythonpath" },
    { "python_home", "virtualenv" },
    { "uid", "user" },
    { "gid", "group" },
    { "chmod_socket", "socket_mode" },
    { "listen.mode", "socket_mode" },
    { "listen.owner", "socket_owner" },
    { "chown_socket", "socket_owner" },
    { "listen.group", "socket_group" },
    { "listen.backlog", "backlog" },
    { "wsgi_file", "app" },
    { "module", "app" },
    { "wsgi_app", "app" },
    { "preload_app", "preload" },
    { "keepalive", "keepalive_timeout" },
    { "raw_env", "env" },
    { "worker_class", "mode" },
    { "script_name", "mount" },
    { "pm", "scaling" },
    { "pm.max_children", "max_workers" },
    { "pm.start_servers", "workers" },
    { "pm.min_spare_servers", "min_spare" },
    { "pm.max_spare_servers", "max_spare" },
    { "pm.process_idle_timeout", "idle_timeout" },
    { "pm.max_requests", "max_requests" },
    { "pm.status_path", "status_path" },
    { "ping.path", "ping_path" },
    { "cheaper", "min_workers" },
    { "reload_on_rss", "max_worker_memory" },
    { "reload_on_as", "max_worker_memory" },
    { "max_worker_lifetime", "max_worker_age" },
    { "harakiri", "request_timeout" },
    { "timeout", "request_timeout" },
    { "request_terminate_timeout", "request_timeout" },
    { "request_slowlog_timeout", "slow_request" },
    { "slowlog", "slow_log" },
    { "accesslog", "access_log" },
    { "access.log", "access_log" },
    { "access.format", "access_format" },
    { "access_log_format", "access_format" },
    { "logto", "log" },
    { "errorlog", "log" },
    { "py_autoreload", "autoreload" },
    { "bin_path", "command" },
    { "buffer_size", "max_params_size" },
    { "limit_post", "max_body_size" },
    { "post_buffering", "body_buffer" },
    { "process_control_timeout", "graceful_timeout" },
    { "stats", "status_listen" },
    { "pid", "pidfile" },
    { "loglevel", "log_level" },
    { "error_log", "log" },
};

int
conf_fail(struct conf_error *err, const char *fmt, ...)
{
    va_list args;

    err->file[0] = '\0';
    err->line = 0;
    err->setting = NULL;
    va_start(args, fmt);
    vsnprintf(err->text, sizeof(err->text), fmt, args);
    va_end(args);
    return -1;
}

int
conf_fail_about(struct conf_error *err, const char *setting, const char *fmt,
                ...)
{
    va_list args;

    err->file[0] = '\0';
    err->line = 0;
    err->setting = setting;
    va_start(args, fmt);
    vsnprintf(err->text, sizeof(err->text), fmt, args);
    va_end(args);
    return -1;
}

char *
conf_error_format(const struct conf_error *err, char *out, size_t size)
{
    if (err->file[0] == '\0') {
        snprintf(out, size, "%s", err->text);
    } else if (err->line == 0) {
        snprintf(out, size, "%s: %s", err->file, err->text);
    } else {
        snprintf(out, size, "%s:%u: %s", err->file, err->line, err->text);
    }
    return out;
}

static bool
same_name(const char *a, const char *b)
{
    for (; *a != '\0' && *b != '\0'; a++, b++) {
        char x = *a == '-' ? '_' : *a, y = *b == '-' ? '_' : *b;

        if (x != y) {
            return false;
        }
    }
    return *a == *b;
}

const struct setting *
conf_table_find(const struct conf_table *t, const char *name)
{
    for (unsigned i = 0; i < t->count; i++) {
        if (same_name(t->row[i].name, name)) {
            return &t->row[i];
        }
    }
    return NULL;
}

const struct setting *
settings_find(const char *name)
{
    return conf_table_find(&conf_pool_table, name);
}

const struct setting *
settings_find_letter(char letter)
{
    for (unsigned i = 0; i < SETTINGS_COUNT; i++) {
        if (settings_table[i].letter == letter) {
            return &settings_table[i];
        }
    }
    return NULL;
}

static unsigned
smaller(unsigned a, unsigned b)
{
    return a < b ? a : b;
}

/* Swapping neighbours counts as one. */
unsigned
conf_edit_distance(const char *a, const char *b)
{
    enum { MAX = 40 };
    unsigned d[MAX + 1][MAX + 1];
    size_t la = strlen(a), lb = strlen(b);

    if (la > MAX || lb > MAX) {
        return UINT_MAX;
    }
    for (size_t i = 0; i <= la; i++) {
        d[i][0] = (unsigned)i;
    }
    for (size_t j = 0; j <= lb; j++) {
        d[0][j] = (unsigned)j;
    }
    for (size_t i = 1; i <= la; i++) {
        for (size_t j = 1; j <= lb; j++) {
            char x = a[i - 1] == '-' ? '_' : a[i - 1];

            d[i][j] = smaller(d[i - 1][j], d[i][j - 1]) + 1;
            d[i][j] = smaller(d[i][j], d[i - 1][j - 1] + (x != b[j - 1]));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] &&
                a[i - 2] == b[j - 1]) {
                d[i][j] = smaller(d[i][j], d[i - 2][j - 2] + 1);
            }
        }
    }
    return d[la][lb];
}

/* What this table calls what other servers call by that name, or NULL. */
static const char *
ours(const struct conf_table *t, const char *name)
{
    for (size_t i = 0; i < sizeof(other_names) / sizeof(other_names[0]); i++) {
        if (same_name(other_names[i].other, name) &&
            conf_table_find(t, other_names[i].ours) != NULL) {
            return other_names[i].ours;
        }
    }
    return NULL;
}

const char *
conf_table_nearest(const struct conf_table *t, const char *name)
{
    const char *best = ours(t, name);
    unsigned best_distance = UINT_MAX, distance;
    size_t len = strlen(name);

    if (best != NULL) {
        return best;
    }
    for (unsigned i = 0; i < t->count; i++) {
        distance = conf_edit_distance(name, t->row[i].name);
        if (distance < best_distance) {
            best_distance = distance;
            best = t->row[i].name;
        }
    }
    /* One wrong letter in three is a slip, more is another word. */
    if (best != NULL && best_distance <= (len + 2) / 3) {
        return best;
    }
    for (unsigned i = 0; i < t->count && len >= 3; i++) {
        char head[64];

        snprintf(head, sizeof(head), "%.*s", (int)smaller((unsigned)len, 63),
                 t->row[i].name);
        if (same_name(head, name)) {
            return t->row[i].name;
        }
    }
    return NULL;
}

const char *
settings_nearest(const char *name)
{
    return conf_table_nearest(&conf_pool_table, name);
}
