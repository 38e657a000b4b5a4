/* SPDX-License-Identifier: MIT
 *
 * See reader.h. Any process. Never logs.
 */
#include "conf/reader.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

int
reader_start(struct reader *r)
{
    r->forebay.table = &conf_manager_table;
    r->forebay.base = &r->c->manager;
    r->forebay.given =
        calloc(conf_manager_table.count, sizeof(*r->forebay.given));
    if (r->forebay.given == NULL) {
        return conf_fail(r->err, "out of memory");
    }
    return conf_table_init(&conf_manager_table, &r->c->manager, r->err);
}

void
reader_release(struct reader *r)
{
    struct section *next;

    for (struct section *s = r->pools; s != NULL; s = next) {
        next = s->next;
        free(s->given);
        free(s);
    }
    free(r->forebay.given);
    for (unsigned i = 0; i < r->addresses; i++) {
        free(r->listened[i].address);
    }
    free(r->listened);
    for (unsigned i = 0; i < r->names; i++) {
        free(r->name[i]);
    }
    free(r->name);
}

int
reader_locate(struct reader *r, const struct place *place)
{
    size_t len = strlen(place->file), room = sizeof(r->err->file) - 1;

    if (len <= room) {
        memcpy(r->err->file, place->file, len + 1);
    } else {
        snprintf(r->err->file, sizeof(r->err->file), "...%s",
                 place->file + len - (room - 3));
    }
    r->err->line = place->line;
    return -1;
}

int
reader_fail(struct reader *r, const char *fmt, ...)
{
    char text[sizeof(r->err->text)];
    va_list args;

    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    conf_fail(r->err, "%s", text);
    return reader_locate(r, &r->source->here);
}

const char *
reader_keep_name(struct reader *r, const char *name)
{
    char **grown = realloc(r->name, (r->names + 1) * sizeof(*grown));
    char *copy = strdup(name);

    if (grown != NULL) {
        r->name = grown;
    }
    if (grown == NULL || copy == NULL) {
        free(copy);
        return NULL;
    }
    r->name[r->names++] = copy;
    return copy;
}

/* -- addresses -------------------------------------------------------------
 */

/* A path without doubled slashes and "/./". */
static void
simplify_path(char *path)
{
    char *out = path;

    for (const char *p = path; *p != '\0'; p++) {
        if (p[0] == '/' && p[1] == '/') {
            continue;
        }
        while (p[0] == '/' && p[1] == '.' && p[2] == '/') {
            p += 2;
        }
        if (out > path && out[-1] == '/' && *p == '/') {
            continue;
        }
        *out++ = *p;
    }
    *out = '\0';
}

/* One spelling of an ADDRESS, so that two of the same socket are the same text;
 * NULL when out of memory. Whether it is an address at all is for those to say
 * who open it. "" can be listened on by many: port 0 is any free one. */
static char *
one_spelling(const char *address)
{
    const char *colon = strrchr(address, ':'), *port;
    char *text = NULL;
    size_t host;

    if (strncmp(address, "unix:", 5) == 0) {
        address += 5;
    }
    if (address[0] == '/') {
        text = strdup(address);
        if (text != NULL) {
            simplify_path(text);
        }
        return text;
    }
    if (colon == NULL || strncmp(address, "systemd:", 8) == 0) {
        return strdup(address);
    }
    port = colon + 1 + strspn(colon + 1, "0");
    if (*port == '\0' && strncmp(address, "fd:", 3) != 0) {
        return strdup("");
    }
    host = (size_t)(colon - address);
    /* ":port" is this machine alone, and so both of these. */
    if ((host == 9 && strncasecmp(address, "localhost", host) == 0) ||
        (host == 9 && strncmp(address, "127.0.0.1", host) == 0)) {
        host = 0;
    }
    if (asprintf(&text, "%.*s:%s", (int)host, address, port) < 0) {
        return NULL;
    }
    for (char *p = text; *p != '\0'; p++) {
        *p = *p >= 'A' && *p <= 'Z' ? (char)(*p - 'A' + 'a') : *p;
    }
    return text;
}

int
reader_note_address(struct reader *r, const struct section *s,
                    const char *address)
{
    char *text = one_spelling(address);
    struct listened *grown;

    for (unsigned i = 0; text != NULL && *text != '\0' && i < r->addresses;
         i++) {
        const struct listened *l = &r->listened[i];

        if (strcmp(l->address, text) == 0) {
            free(text);
            return reader_fail(
                r, "%.120s is listened on already, %s%s at %s:%u", address,
                l->section->pool != NULL ? "by pool " : "",
                l->section->pool != NULL ? l->section->pool->name
                                         : "by the manager",
                l->place.file, l->place.line);
        }
    }
    grown = realloc(r->listened, (r->addresses + 1) * sizeof(*grown));
    if (grown != NULL) {
        r->listened = grown;
    }
    if (text == NULL || grown == NULL) {
        free(text);
        return reader_fail(r, "out of memory");
    }
    grown[r->addresses++] = (struct listened){ text, r->source->here, s };
    return 0;
}

/* -- sections --------------------------------------------------------------
 */

static int
open_section(struct reader *r, struct section *s, const struct conf_table *t,
             void *base)
{
    s->table = t;
    s->base = base;
    s->heading = r->source->here;
    s->given = calloc(t->count, sizeof(*s->given));
    return s->given != NULL ? 0 : reader_fail(r, "out of memory");
}

/* Make room for a pool and its section; the configuration owns the pool. */
static int
add_pool(struct reader *r, const char *name)
{
    struct config *c = r->c;
    struct section *s = calloc(1, sizeof(*s));
    struct pool_settings *pool = malloc(sizeof(*pool));
    struct pool_settings **grown =
        realloc(c->pool, (c->pools + 1) * sizeof(struct pool_settings *));

    if (grown != NULL) {
        c->pool = grown;
    }
    if (s == NULL || pool == NULL || grown == NULL ||
        settings_init(pool) != 0) {
        free(s);
        free(pool);
        return reader_fail(r, "out of memory");
    }
    c->pool[c->pools++] = pool;
    s->pool = pool;
    s->next = r->pools;
    r->pools = s;
    r->source->section = s;
    if (open_section(r, s, &conf_pool_table, pool) != 0) {
        return -1;
    }
    return settings_set(pool, "name", name, r->err) == 0
               ? 0
               : reader_locate(r, &r->source->here);
}

int
reader_start_pool(struct reader *r, const char *name)
{
    if (*name == '\0') {
        return reader_fail(r, "a pool needs a name: [pool NAME]");
    }
    if (!conf_is_pool_name(name)) {
        return reader_fail(
            r,
            "\"%.80s\" is no name for a pool; it has 1 to %d letters, "
            "digits, dots, dashes or underscores",
            name, CONF_POOL_NAME_MAX);
    }
    for (const struct section *s = r->pools; s != NULL; s = s->next) {
        if (strcmp(s->pool->name, name) == 0) {
            return reader_fail(r, "there is a pool %s already, at %s:%u", name,
                               s->heading.file, s->heading.line);
        }
    }
    return add_pool(r, name);
}

/* -- the whole -------------------------------------------------------------
 */

int
reader_finish(struct reader *r)
{
    struct section *s, *next, *ordered = NULL;

    for (s = r->pools; s != NULL; s = next) {
        next = s->next;
        s->next = ordered;
        ordered = s;
    }
    r->pools = ordered;
    for (s = ordered; s != NULL; s = s->next) {
        const struct setting *row = NULL;

        if (settings_finish(s->pool, r->err) == 0) {
            continue;
        }
        if (r->err->setting != NULL) {
            row = conf_table_find(s->table, r->err->setting);
        }
        if (row != NULL && s->given[row - s->table->row].line != 0) {
            return reader_locate(r, &s->given[row - s->table->row]);
        }
        return reader_locate(r, &s->heading);
    }
    return 0;
}
