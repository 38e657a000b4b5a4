/* SPDX-License-Identifier: MIT
 *
 * The settings of a pool: one table gives name, type, unit, default, range and
 * help; the command line, --help, the sample file, conf(5) and the text that
 * the manager hands to a template come from it or are held to it by a test. Any
 * process; never logs: errors are sentences in a struct conf_error.
 */
#ifndef FOREBAY_CONF_SETTINGS_H
#define FOREBAY_CONF_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum conf_mode { CONF_PREFORK, CONF_THREADED };
enum conf_engine { CONF_ENGINE_EPOLL, CONF_ENGINE_LIBFCGI };
enum conf_protocol {
    CONF_PROTO_AUTO,
    CONF_PROTO_FCGI,
    CONF_PROTO_SCGI,
    CONF_PROTO_UWSGI,
};
enum conf_preload { CONF_PRELOAD_AUTO, CONF_PRELOAD_ON, CONF_PRELOAD_OFF };
enum conf_path_source { CONF_PATH_CGI, CONF_PATH_REQUEST_URI };
enum conf_hop { CONF_HOP_REFUSE, CONF_HOP_DROP };
enum conf_sendfile {
    CONF_SENDFILE_OFF,
    CONF_SENDFILE_ACCEL,
    CONF_SENDFILE_X,
    CONF_SENDFILE_LIGHTTPD,
};
enum conf_scaling {
    CONF_SCALING_STATIC,
    CONF_SCALING_DYNAMIC,
    CONF_SCALING_ONDEMAND
};
enum conf_scheme { CONF_SCHEME_AUTO, CONF_SCHEME_HTTP, CONF_SCHEME_HTTPS };

/* A list of strings; items are owned, item[count] is NULL. */
struct conf_list {
    char **item;
    unsigned count;
};

/* Strings are owned; NULL is "not set". Times in ms, sizes in bytes, 0 means
 * what the table's help says. */
struct pool_settings {
    uint64_t given[2];       /* bit i: settings_table[i] was set, and is
                                not the default; see settings_is_given() */
    char *name;              /* of the pool; "main" by default */
    char *app;               /* APP; NULL when command is set */
    char *command;           /* an external program instead; its words are
                                settings_words() */
    struct conf_list listen; /* ADDRESS ... */
    enum conf_mode mode;
    unsigned workers;
    unsigned threads; /* K; with prefork always 1 */
    enum conf_engine engine;
    enum conf_protocol protocol;

    enum conf_preload preload;
    struct conf_list warmup; /* paths requested before the first fork */
    char *chdir;
    struct conf_list pythonpath;
    char *virtualenv;
    char *python;         /* "3.11", or the path of an executable */
    struct conf_list env; /* NAME=VALUE */
    bool autoreload;      /* watch the code, reload when it changes */

    enum conf_scaling scaling;
    unsigned min_workers;  /* ondemand: 0 unless it was given */
    unsigned max_workers;  /* settings_finish() makes workers of 0 */
    unsigned min_spare;    /* idle workers to have */
    unsigned max_spare;    /* more idle ones retire; 0: they stay */
    uint64_t idle_timeout; /* after being idle for this long */
    unsigned max_requests; /* 0: no limit; of one worker */
    unsigned max_requests_jitter;
    uint64_t max_worker_memory; /* 0: no limit */
    uint64_t max_worker_age;    /* 0: no limit */
    unsigned max_recycling;     /* workers being replaced at once */
    unsigned reserved_slots;    /* threads of all workers, for short requests */
    struct conf_list short_paths;
    struct conf_list long_paths;

    char *user;
    char *group;
    long umask;       /* -1: unchanged */
    long socket_mode; /* of unix sockets */
    char *chroot;
    bool no_new_privs;
    bool kill_group;       /* kill what a worker started as well */
    unsigned rlimit_files; /* 0: unchanged */
    char *rlimit_core;     /* settings_core_limit(); NULL: unchanged */
    char *socket_owner;
    char *socket_group;
    unsigned backlog;
    struct conf_list allow; /* ADDRESS[/BITS] of peers; none: all */

    char *mount; /* "" or "/x", no slash at the end */
    enum conf_path_source path_source;
    enum conf_scheme url_scheme;
    char *server_name;
    char *server_port;
    bool pass_http_proxy;
    bool redirect_authorization;
    enum conf_hop hop_by_hop;
    enum conf_sendfile sendfile_header;
    struct conf_list sendfile_map; /* /path=/target */
    bool fcgi_stderr;              /* wsgi.errors to the front end as well */
    char *status_path; /* NULL: not answered on the pool's sockets */
    char *ping_path;

    uint64_t max_params_size;
    unsigned max_params;
    uint64_t max_body_size; /* 0: no limit */
    uint64_t max_response_headers;
    uint64_t body_buffer;     /* body bytes to wait for before a worker is
                                 occupied */
    unsigned max_connections; /* open connections of one worker */

    uint64_t header_timeout;
    uint64_t body_timeout;
    uint64_t write_timeout;
    uint64_t keepalive_timeout;
    uint64_t graceful_timeout;
    uint64_t start_timeout;
    uint64_t request_timeout; /* 0: none, for these five */
    uint64_t request_grace;   /* from raising in the thread to killing */
    uint64_t slow_request;
    uint64_t after_timeout;      /* of after_response() work */
    uint64_t queue_timeout;      /* in the backlog, before a 503 */
    uint64_t switch_interval_us; /* 0: CPython's */
    bool exit_on_system_exit;
    unsigned learned_names;
    unsigned max_start_failures;

    char *log;        /* path; NULL: the manager's log */
    char *access_log; /* path; NULL: none */
    char *access_format;
    char *slow_log; /* path; NULL: the pool's log */
};

enum setting_type {
    SETTING_STRING,
    SETTING_BOOL, /* yes/no, on/off, true/false, 1/0 */
    SETTING_UINT,
    SETTING_SIZE,    /* bytes, k, m, g (powers of 1024) */
    SETTING_TIME,    /* ms, s, m, h; a bare number is seconds */
    SETTING_TIME_US, /* us, ms, s; a bare number is seconds */
    SETTING_OCTAL,   /* 0660 */
    SETTING_CHOICE,
    SETTING_LIST, /* may be given several times; in a file also separated by
                     blanks */
};

struct conf_error;

struct setting {
    const char *name; /* "max_body_size"; on the command line
                         --max-body-size */
    char letter;      /* short option or 0 */
    enum setting_type type;
    size_t offset;          /* into the struct that the table is of */
    const char *initial;    /* default as text, NULL: not set */
    uint64_t min, max;      /* of numbers, in the unit that is stored */
    const char *choices;    /* "auto|fcgi|scgi", in the order of the enum */
    const char *value_name; /* "PATH", for the help */
    const char *help;       /* one or two sentences */
    /* Of a string or an item of a list, beyond its type; 0, or -1 with *err. */
    int (*check)(const struct setting *row, const char *value,
                 struct conf_error *err);
};

extern const struct setting settings_table[];
extern const unsigned settings_count;

struct conf_error {
    char file[256]; /* "" : the command line; its end, when it is longer */
    unsigned line;  /* 0: the file as a whole */
    char text[512]; /* a sentence, with the nearest name for unknown ones */
    const char *setting; /* the table's name of the one that it is about, where
                            settings_finish() knows one; or NULL */
};

/* "FILE:LINE: text", "FILE: text" or "text", into out, which is returned. */
char *conf_error_format(const struct conf_error *err, char *out, size_t size);

/* All defaults. 0, or -1 out of memory. */
int settings_init(struct pool_settings *s);
void settings_release(struct pool_settings *s);

/* Set one by name ('-' and '_' are the same). A list grows by one item; its
 * first item replaces the default. An empty text makes a string that has no
 * default "not set" again. 0, or -1 with *err. */
int settings_set(struct pool_settings *s, const char *name, const char *value,
                 struct conf_error *err);

/* Has it been set by name, or is it the default? */
bool settings_is_given(const struct pool_settings *s, const char *name);

/* The table's name of the first setting that has been set, or NULL. */
const char *settings_first_given(const struct pool_settings *s);

/* What no single setting can tell: an app (or a command) and an address are
 * there, threads fit the mode (threads > 1 without a mode means threaded;
 * threaded without threads means 8; switch_interval follows), the numbers of
 * workers fit each other (max_workers is never 0 afterwards, and min_workers <=
 * workers <= max_workers), mount is well-formed (a trailing slash is removed)
 * ... 0 or -1. May be called again. */
int settings_finish(struct pool_settings *s, struct conf_error *err);

/* All settings as text that settings_read() takes: the manager's message to a
 * template. Any bytes in values survive. 0 or -1. settings_read() replaces all
 * of s, which was initialised or is all zero. */
int settings_write(const struct pool_settings *s, FILE *out);
int settings_read(struct pool_settings *s, const char *text, size_t len,
                  struct conf_error *err);

/* A copy that shares nothing; dst is filled afresh. 0, or -1 out of memory. */
int settings_copy(struct pool_settings *dst, const struct pool_settings *src);

/* The words of a command: blanks separate them unless they are inside "...",
 * where \" and \\ are a quote and a backslash. Fills *ret, which is empty
 * before; conf_list_release() is due. At least one. 0, or -1 with *err. */
int settings_words(const char *text, struct conf_list *ret,
                   struct conf_error *err);
void conf_list_release(struct conf_list *list);

/* The value of rlimit_core in bytes, UINT64_MAX for "unlimited". 0, or -1: it
 * is neither that nor a size. */
int settings_core_limit(const char *text, uint64_t *ret_bytes);

/* The command line: options --name VALUE, --name=VALUE, --bool, --no-bool,
 * short letters, one positional APP. argv[0] is skipped. What is not a pool
 * setting is offered to other(name, value or NULL, ctx): it returns 1 taken
 * without the value, 2 taken with the value, 0 not known, -1 error (with *err).
 * 0 or -1. */
int settings_parse_args(struct pool_settings *s, int argc, char **argv,
                        int (*other)(const char *name, const char *value,
                                     void *ctx, struct conf_error *err),
                        void *ctx, struct conf_error *err);

/* The options part of --help, wrapped at 80 columns. */
void settings_print_help(FILE *out);

/* The row of a name ('-' and '_' are the same), or NULL. */
const struct setting *settings_find(const char *name);

/* The known name nearest to a wrong one, or NULL when nothing is near. */
const char *settings_nearest(const char *name);

#endif
