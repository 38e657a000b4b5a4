/* SPDX-License-Identifier: MIT
 *
 * Values of settings: texts into values, defaults, and what one row asks of a
 * text. What only several settings together can tell is settings_finish.c. Any
 * process. Reads no file, asks the system nothing, never logs.
 */
#include "conf/internal.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "conf/network.h"

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

static int
set_amount(void *out, const struct setting *row, const char *value,
           struct conf_error *err)
{
    char min[32], max[32];
    uint64_t n = 0;
    unsigned small;
    int rc;

    rc = conf_amount_parse(value, row->type, &n);
    if (rc == 0) {
        return conf_fail(err, "%s: \"%s\" is not %s", row->name, value,
                         conf_amount_advice(row->type));
    }
    if (rc < 0 || n < row->min || n > row->max) {
        return conf_fail(
            err, "%s: %s is out of range; from %s to %s is possible", row->name,
            value, conf_amount_format(row->min, row->type, min, sizeof(min)),
            conf_amount_format(row->max, row->type, max, sizeof(max)));
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
conf_check_map(const struct setting *row, const char *value,
               struct conf_error *err)
{
    const char *to = strchr(value, '=');

    if (value[0] != '/' || to == NULL || to[1] != '/') {
        return conf_fail(err,
                         "%s: \"%s\" is not of the form /path=/target, two "
                         "paths that begin with a slash",
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
conf_check_network(const struct setting *row, const char *value,
                   struct conf_error *err)
{
    struct conf_network ignored;

    if (conf_network_parse(value, &ignored) != 0) {
        return conf_fail(err,
                         "%s: \"%.80s\" is no address or network; write "
                         "192.0.2.7, 192.0.2.0/24 or 2001:db8::/32",
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
    return conf_amount_parse(text, SETTING_SIZE, ret_bytes) == 1 ? 0 : -1;
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

bool
conf_is_pool_name(const char *name)
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyz"
                                  "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-";

    return name[0] != '\0' && strlen(name) <= CONF_POOL_NAME_MAX &&
           name[strspn(name, allowed)] == '\0';
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
