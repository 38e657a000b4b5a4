/* SPDX-License-Identifier: MIT
 *
 * Values of settings: texts into values, defaults, and the checks. Any process.
 * Reads no file, asks the system nothing, never logs.
 */
#include "conf/internal.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* Which bit of pool_settings.given is a row's. */
static bool
was_given(const struct pool_settings *s, const struct setting *row)
{
    size_t i = (size_t)(row - settings_table);

    return (s->given[i / 64] >> (i % 64) & 1) != 0;
}

void *
settings_field(const void *base, const struct setting *row)
{
    return (char *)(uintptr_t)base + row->offset;
}

void
conf_list_release(struct conf_list *list)
{
    if (list == NULL) {
        return;
    }
    for (unsigned i = 0; i < list->count; i++) {
        free(list->item[i]);
    }
    free(list->item);
    list->item = NULL;
    list->count = 0;
}

int
conf_list_append(struct conf_list *list, const char *value)
{
    char **grown, *copy;

    copy = strdup(value);
    if (copy == NULL) {
        return -1;
    }
    grown = realloc(list->item, (list->count + 2) * sizeof(*grown));
    if (grown == NULL) {
        free(copy);
        return -1;
    }
    grown[list->count++] = copy;
    grown[list->count] = NULL;
    list->item = grown;
    return 0;
}

/* -- values ---------------------------------------------------------------- */

static bool
is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Units of a number: how many of the smallest that is stored each one is. */
struct unit {
    const char *name;
    uint64_t factor;
};

static const struct unit size_units[] = {
    { "", 1 }, { "k", KB }, { "m", MB }, { "g", GB }, { NULL, 0 },
};
static const struct unit time_units[] = {
    { "", 1000 },   { "ms", 1 },      { "s", 1000 },
    { "m", 60000 }, { "h", 3600000 }, { NULL, 0 },
};
static const struct unit time_us_units[] = {
    { "", 1000000 }, { "us", 1 }, { "ms", 1000 }, { "s", 1000000 }, { NULL, 0 },
};
static const struct unit plain_units[] = { { "", 1 }, { NULL, 0 } };

static const struct unit *
units_of(enum setting_type type)
{
    switch (type) {
    case SETTING_SIZE:
        return size_units;
    case SETTING_TIME:
        return time_units;
    case SETTING_TIME_US:
        return time_us_units;
    default:
        return plain_units;
    }
}

/* DIGITS [. DIGITS] [UNIT], the whole text. The result must be a whole number
 * of what is stored: rounding could make "no limit" of a small one. Returns 1,
 * 0 (no such number), -1 (too large). */
static int
parse_amount(const char *text, const struct unit *unit, uint64_t *ret)
{
    uint64_t whole = 0, part = 0, scale = 1;
    const char *p = text;

    if (!is_digit(*p)) {
        return 0;
    }
    for (; is_digit(*p); p++) {
        if (__builtin_mul_overflow(whole, UINT64_C(10), &whole) ||
            __builtin_add_overflow(whole, (uint64_t)(*p - '0'), &whole)) {
            return -1;
        }
    }
    if (*p == '.' && unit[1].name != NULL) {
        p++;
        if (!is_digit(*p)) {
            return 0;
        }
        for (; is_digit(*p); p++) {
            if (scale == 1000000) {
                return 0;
            }
            part = part * 10 + (uint64_t)(*p - '0');
            scale *= 10;
        }
    }
    while (unit->name != NULL && strcasecmp(unit->name, p) != 0) {
        unit++;
    }
    if (unit->name == NULL || part * unit->factor % scale != 0) {
        return 0;
    }
    if (__builtin_mul_overflow(whole, unit->factor, &whole) ||
        __builtin_add_overflow(whole, part * unit->factor / scale, &whole)) {
        return -1;
    }
    *ret = whole;
    return 1;
}

/* A number as people write it: the largest unit that divides it. */
static char *
format_amount(uint64_t n, const struct unit *unit, char *out, size_t size)
{
    const struct unit *best = NULL;

    for (const struct unit *u = unit + 1; unit[1].name != NULL && u->name;
         u++) {
        if (n != 0 && n % u->factor == 0 &&
            (best == NULL || u->factor > best->factor)) {
            best = u;
        }
    }
    snprintf(out, size, "%llu%s",
             (unsigned long long)(best != NULL ? n / best->factor : n),
             best != NULL ? best->name : "");
    return out;
}

static const char *
amount_advice(enum setting_type type)
{
    switch (type) {
    case SETTING_SIZE:
        return "a size; write bytes, or a number with k, m or g, such as 64k";
    case SETTING_TIME:
        return "a time; write seconds, or a number with ms, s, m or h, such "
               "as 30s";
    case SETTING_TIME_US:
        return "a time; write seconds, or a number with us, ms or s, such as "
               "5ms";
    default:
        return "a whole number";
    }
}

static int
set_amount(void *out, const struct setting *row, const char *value,
           struct conf_error *err)
{
    const struct unit *unit = units_of(row->type);
    char min[32], max[32];
    uint64_t n = 0;
    unsigned small;
    int rc;

    rc = parse_amount(value, unit, &n);
    if (rc == 0) {
        return conf_fail(err, "%s: \"%s\" is not %s", row->name, value,
                         amount_advice(row->type));
    }
    if (rc < 0 || n < row->min || n > row->max) {
        return conf_fail(
            err, "%s: %s is out of range; from %s to %s is possible", row->name,
            value, format_amount(row->min, unit, min, sizeof(min)),
            format_amount(row->max, unit, max, sizeof(max)));
    }
    if (row->type == SETTING_UINT) {
        small = (unsigned)n;
        memcpy(out, &small, sizeof(small));
    } else {
        memcpy(out, &n, sizeof(n));
    }
    return 0;
}

static int
set_bool(void *out, const struct setting *row, const char *value,
         struct conf_error *err)
{
    static const char *const yes[] = { "yes", "on", "true", "1" };
    static const char *const no[] = { "no", "off", "false", "0" };
    bool b;

    for (size_t i = 0; i < sizeof(yes) / sizeof(yes[0]); i++) {
        if (strcasecmp(value, yes[i]) == 0 || strcasecmp(value, no[i]) == 0) {
            b = strcasecmp(value, yes[i]) == 0;
            memcpy(out, &b, sizeof(b));
            return 0;
        }
    }
    return conf_fail(err, "%s: \"%s\" is neither yes nor no", row->name, value);
}

static int
set_octal(void *out, const struct setting *row, const char *value,
          struct conf_error *err)
{
    const char *p = value;
    long n = 0;

    if (p[0] == '0' && (p[1] == 'o' || p[1] == 'O') && p[2] != '\0') {
        p += 2;
    }
    if (*p == '\0') {
        p = "x";
    }
    for (; *p != '\0'; p++) {
        if (*p < '0' || *p > '7' || n > 0777) {
            return conf_fail(
                err,
                "%s: \"%s\" is not an octal mode from 0000 to 0777, "
                "such as 0660",
                row->name, value);
        }
        n = n * 8 + (*p - '0');
    }
    if (n > 0777) {
        return conf_fail(err, "%s: \"%s\" is more than 0777", row->name, value);
    }
    memcpy(out, &n, sizeof(n));
    return 0;
}

const char *
settings_choice(const char *choices, unsigned index, char *out, size_t size)
{
    const char *p = choices;

    while (index-- > 0) {
        p = strchr(p, '|');
        if (p == NULL) {
            return NULL;
        }
        p++;
    }
    snprintf(out, size, "%.*s", (int)strcspn(p, "|"), p);
    return out;
}

static int
set_choice(void *out, const struct setting *row, const char *value,
           struct conf_error *err)
{
    char name[64], all[128] = "";
    size_t used = 0;

    for (unsigned i = 0;
         settings_choice(row->choices, i, name, sizeof(name)) != NULL; i++) {
        if (strcmp(name, value) == 0) {
            memcpy(out, &i, sizeof(i));
            return 0;
        }
        used += (size_t)snprintf(all + used, sizeof(all) - used, "%s%s",
                                 i > 0 ? ", " : "", name);
    }
    return conf_fail(err, "%s: \"%s\" is not possible; choose one of %s",
                     row->name, value, all);
}

static int
set_string(void *out, const struct setting *row, const char *value,
           struct conf_error *err)
{
    char *copy = NULL, *old;

    if (value[0] != '\0' || row->initial != NULL) {
        copy = strdup(value);
        if (copy == NULL) {
            return conf_fail(err, "out of memory");
        }
    }
    memcpy(&old, out, sizeof(old));
    free(old);
    memcpy(out, &copy, sizeof(copy));
    return 0;
}

/* -- what a row asks of a text beyond its type ----------------------------- */

int
conf_check_env(const struct setting *row, const char *value,
               struct conf_error *err)
{
    if (value[0] == '=' || strchr(value, '=') == NULL) {
        return conf_fail(err, "%s: \"%s\" is not NAME=VALUE", row->name, value);
    }
    return 0;
}

int
conf_check_url_path(const struct setting *row, const char *value,
                    struct conf_error *err)
{
    if (value[0] != '/') {
        return conf_fail(err, "%s: the path \"%s\" must begin with a slash",
                         row->name, value);
    }
    return 0;
}

int
conf_check_absolute(const struct setting *row, const char *value,
                    struct conf_error *err)
{
    if (value[0] != '/') {
        return conf_fail(err,
                         "%s: \"%s\" must be a whole path; it has to begin "
                         "with a slash",
                         row->name, value);
    }
    return 0;
}

int
conf_check_choice(const struct setting *row, const char *value,
                  struct conf_error *err)
{
    unsigned ignored;

    return set_choice(&ignored, row, value, err);
}

int
settings_core_limit(const char *text, uint64_t *ret_bytes)
{
    if (strcasecmp(text, "unlimited") == 0) {
        *ret_bytes = UINT64_MAX;
        return 0;
    }
    return parse_amount(text, size_units, ret_bytes) == 1 ? 0 : -1;
}

int
conf_check_core(const struct setting *row, const char *value,
                struct conf_error *err)
{
    uint64_t ignored;

    if (settings_core_limit(value, &ignored) != 0) {
        return conf_fail(err,
                         "%s: \"%s\" is neither unlimited nor a size, such as "
                         "0 or 512m",
                         row->name, value);
    }
    return 0;
}

int
conf_check_words(const struct setting *row, const char *value,
                 struct conf_error *err)
{
    struct conf_list words = { 0 };
    char why[sizeof(err->text)];

    if (settings_words(value, &words, err) != 0) {
        memcpy(why, err->text, sizeof(why));
        return conf_fail(err, "%s: %s", row->name, why);
    }
    conf_list_release(&words);
    return 0;
}

/* -- rows ------------------------------------------------------------------ */

/* first: its items so far are a default. */
static int
set_list(struct conf_list *list, const struct setting *row, bool first,
         const char *value, struct conf_error *err)
{
    if (value[0] == '\0') {
        return conf_fail(err, "%s: the value is empty", row->name);
    }
    if (first) {
        conf_list_release(list);
    }
    return conf_list_append(list, value) == 0 ? 0
                                              : conf_fail(err, "out of memory");
}

int
settings_set_row(void *base, const struct setting *row, bool first,
                 const char *value, struct conf_error *err)
{
    void *out = settings_field(base, row);

    if (row->check != NULL && value[0] != '\0' &&
        row->check(row, value, err) != 0) {
        return -1;
    }
    switch (row->type) {
    case SETTING_STRING:
        return set_string(out, row, value, err);
    case SETTING_BOOL:
        return set_bool(out, row, value, err);
    case SETTING_UINT:
    case SETTING_SIZE:
    case SETTING_TIME:
    case SETTING_TIME_US:
        return set_amount(out, row, value, err);
    case SETTING_OCTAL:
        return set_octal(out, row, value, err);
    case SETTING_CHOICE:
        return set_choice(out, row, value, err);
    case SETTING_LIST:
        return set_list(out, row, first, value, err);
    }
    return conf_fail(err, "%s has no type", row->name);
}

int
settings_give(struct pool_settings *s, const struct setting *row,
              const char *value, struct conf_error *err)
{
    size_t i = (size_t)(row - settings_table);

    if (settings_set_row(s, row, !was_given(s, row), value, err) != 0) {
        return -1;
    }
    s->given[i / 64] |= UINT64_C(1) << (i % 64);
    return 0;
}

int
conf_table_init(const struct conf_table *t, void *base, struct conf_error *err)
{
    for (unsigned i = 0; i < t->count; i++) {
        const struct setting *row = &t->row[i];

        if (row->initial != NULL &&
            settings_set_row(base, row, false, row->initial, err) != 0) {
            return -1;
        }
    }
    return 0;
}

void
conf_table_release(const struct conf_table *t, void *base)
{
    char *text;

    for (unsigned i = 0; i < t->count; i++) {
        const struct setting *row = &t->row[i];

        if (row->type == SETTING_STRING) {
            memcpy(&text, settings_field(base, row), sizeof(text));
            free(text);
        } else if (row->type == SETTING_LIST) {
            conf_list_release(settings_field(base, row));
        }
    }
}

int
settings_init(struct pool_settings *s)
{
    struct conf_error err;

    memset(s, 0, sizeof(*s));
    s->umask = -1;
    if (conf_table_init(&conf_pool_table, s, &err) != 0) {
        settings_release(s);
        return -1;
    }
    return 0;
}

void
settings_release(struct pool_settings *s)
{
    if (s == NULL) {
        return;
    }
    conf_table_release(&conf_pool_table, s);
    memset(s, 0, sizeof(*s));
}

int
conf_fail_unknown(const struct conf_table *t, const char *name,
                  struct conf_error *err)
{
    const char *near = conf_table_nearest(t, name);

    if (near != NULL) {
        return conf_fail(err,
                         "there is no setting \"%.80s\"; did you mean \"%s\"?",
                         name, near);
    }
    return conf_fail(err, "there is no setting \"%.80s\"", name);
}

int
settings_set(struct pool_settings *s, const char *name, const char *value,
             struct conf_error *err)
{
    const struct setting *row = settings_find(name);

    if (row == NULL) {
        return conf_fail_unknown(&conf_pool_table, name, err);
    }
    if (value == NULL) {
        return conf_fail(err, "%s needs a value", row->name);
    }
    return settings_give(s, row, value, err);
}

bool
settings_is_given(const struct pool_settings *s, const char *name)
{
    const struct setting *row = settings_find(name);

    return row != NULL && was_given(s, row);
}

const char *
settings_first_given(const struct pool_settings *s)
{
    for (unsigned i = 0; i < settings_count; i++) {
        if (was_given(s, &settings_table[i])) {
            return settings_table[i].name;
        }
    }
    return NULL;
}

/* -- what no single setting can tell --------------------------------------- */

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
    if (s->engine == CONF_ENGINE_LIBFCGI && s->protocol == CONF_PROTO_SCGI) {
        return conf_fail_about(err, "engine",
                               "engine libfcgi speaks FastCGI only; leave out "
                               "protocol scgi, or use engine epoll");
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

bool
conf_is_pool_name(const char *name)
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyz"
                                  "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-";

    return name[0] != '\0' && strlen(name) <= CONF_POOL_NAME_MAX &&
           name[strspn(name, allowed)] == '\0';
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
        (parse_amount(s->server_port, plain_units, &port) != 1 || port < 1 ||
         port > 65535)) {
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
