/* SPDX-License-Identifier: MIT
 *
 * Values of settings: texts into values, defaults, and the checks. Any process.
 * Reads no file, asks the system nothing, never logs.
 */
#include "conf/internal.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

static uint64_t
row_bit(const struct setting *row)
{
    return UINT64_C(1) << (row - settings_table);
}

void *
settings_field(const struct pool_settings *s, const struct setting *row)
{
    return (char *)(uintptr_t)s + row->offset;
}

static void
list_release(struct conf_list *list)
{
    for (unsigned i = 0; i < list->count; i++) {
        free(list->item[i]);
    }
    free(list->item);
    list->item = NULL;
    list->count = 0;
}

static int
list_append(struct conf_list *list, const char *value)
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

static int
set_list(struct pool_settings *s, const struct setting *row, const char *value,
         struct conf_error *err)
{
    struct conf_list *list = settings_field(s, row);

    if (value[0] == '\0') {
        return conf_fail(err, "%s: the value is empty", row->name);
    }
    if (list == &s->env && (value[0] == '=' || strchr(value, '=') == NULL)) {
        return conf_fail(err, "%s: \"%s\" is not NAME=VALUE", row->name, value);
    }
    if (list == &s->warmup && value[0] != '/') {
        return conf_fail(err, "%s: the path \"%s\" must begin with a slash",
                         row->name, value);
    }
    if (!(s->given & row_bit(row))) {
        list_release(list);
    }
    return list_append(list, value) == 0 ? 0 : conf_fail(err, "out of memory");
}

int
settings_set_row(struct pool_settings *s, const struct setting *row,
                 const char *value, struct conf_error *err)
{
    void *out = settings_field(s, row);
    int rc = -1;

    switch (row->type) {
    case SETTING_STRING:
        rc = set_string(out, row, value, err);
        break;
    case SETTING_BOOL:
        rc = set_bool(out, row, value, err);
        break;
    case SETTING_UINT:
    case SETTING_SIZE:
    case SETTING_TIME:
    case SETTING_TIME_US:
        rc = set_amount(out, row, value, err);
        break;
    case SETTING_OCTAL:
        rc = set_octal(out, row, value, err);
        break;
    case SETTING_CHOICE:
        rc = set_choice(out, row, value, err);
        break;
    case SETTING_LIST:
        rc = set_list(s, row, value, err);
        break;
    }
    if (rc == 0) {
        s->given |= row_bit(row);
    }
    return rc;
}

int
settings_init(struct pool_settings *s)
{
    struct conf_error err;

    memset(s, 0, sizeof(*s));
    s->umask = -1;
    for (unsigned i = 0; i < settings_count; i++) {
        const struct setting *row = &settings_table[i];

        if (row->initial != NULL &&
            settings_set_row(s, row, row->initial, &err) != 0) {
            settings_release(s);
            return -1;
        }
    }
    s->given = 0;
    return 0;
}

void
settings_release(struct pool_settings *s)
{
    char *text;

    if (s == NULL) {
        return;
    }
    for (unsigned i = 0; i < settings_count; i++) {
        const struct setting *row = &settings_table[i];

        if (row->type == SETTING_STRING) {
            memcpy(&text, settings_field(s, row), sizeof(text));
            free(text);
        } else if (row->type == SETTING_LIST) {
            list_release(settings_field(s, row));
        }
    }
    memset(s, 0, sizeof(*s));
}

int
settings_set(struct pool_settings *s, const char *name, const char *value,
             struct conf_error *err)
{
    const struct setting *row = settings_find(name);
    const char *near;

    if (row != NULL && value == NULL) {
        return conf_fail(err, "%s needs a value", row->name);
    }
    if (row != NULL) {
        return settings_set_row(s, row, value, err);
    }
    near = settings_nearest(name);
    if (near != NULL) {
        return conf_fail(err,
                         "there is no setting \"%s\"; did you mean \"%s\"?",
                         name, near);
    }
    return conf_fail(err, "there is no setting \"%s\"", name);
}

bool
settings_is_given(const struct pool_settings *s, const char *name)
{
    const struct setting *row = settings_find(name);

    return row != NULL && (s->given & row_bit(row)) != 0;
}

/* -- what no single setting can tell --------------------------------------- */

static int
finish_threads(struct pool_settings *s, struct conf_error *err)
{
    if (s->threads > 1 && s->mode == CONF_PREFORK) {
        if (settings_is_given(s, "mode")) {
            return conf_fail(
                err,
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
        return conf_fail(err, "engine libfcgi speaks FastCGI only; leave out "
                              "protocol scgi, or use engine epoll");
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
        return conf_fail(
            err, "mount: \"%s\" must begin with a slash, such as /app", mount);
    }
    for (const char *p = mount; *p != '\0';) {
        size_t n = strcspn(++p, "/");

        if (n == 0 || (n == 1 && p[0] == '.') ||
            (n == 2 && p[0] == '.' && p[1] == '.')) {
            return conf_fail(
                err,
                "mount: \"%s\" has an empty part, \".\" or \"..\"; "
                "no request can have such a path",
                mount);
        }
        p += n;
    }
    if (strpbrk(mount, "?#") != NULL) {
        return conf_fail(err, "mount: \"%s\" is a path alone, without ? and #",
                         mount);
    }
    return 0;
}

static int
finish_names(const struct pool_settings *s, struct conf_error *err)
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyz"
                                  "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-";
    uint64_t port;

    if (s->name[0] == '\0' || strlen(s->name) > 32 ||
        s->name[strspn(s->name, allowed)] != '\0') {
        return conf_fail(err,
                         "name: \"%s\" must be 1 to 32 letters, digits, dots, "
                         "dashes or underscores",
                         s->name);
    }
    if (s->server_port != NULL &&
        (parse_amount(s->server_port, plain_units, &port) != 1 || port < 1 ||
         port > 65535)) {
        return conf_fail(err,
                         "server_port: \"%s\" is not a port from 1 to 65535",
                         s->server_port);
    }
    for (const char *p = s->server_name; p != NULL && *p != '\0'; p++) {
        if ((unsigned char)*p <= ' ' || *p == 0x7f || *p == '/') {
            return conf_fail(err,
                             "server_name: \"%s\" is not the name of a host",
                             s->server_name);
        }
    }
    return 0;
}

int
settings_finish(struct pool_settings *s, struct conf_error *err)
{
    if (s->app == NULL) {
        return conf_fail(err,
                         "no application was given; write module:callable or "
                         "the path of a Python file");
    }
    if (s->listen.count == 0) {
        return conf_fail(err,
                         "no address to listen on was given; use for example "
                         "--listen unix:/run/forebay/app.sock or --listen "
                         ":9000");
    }
    if (finish_threads(s, err) != 0 || finish_names(s, err) != 0) {
        return -1;
    }
    return finish_mount(s->mount, err);
}
