/* SPDX-License-Identifier: MIT
 *
 * See spawn_options.h. The reference for every letter is the manual page
 * spawn-fcgi(1), and what that program does when it is tried; where that takes
 * a text that is no number for 0, this refuses it.
 */
#include "server/spawn_options.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "conf/settings.h"

struct scan {
    int argc, next;
    char **argv;
    struct spawn_options *o;
    int words; /* in o->program */
    char *why;
    size_t size;
};

/* Letters that have a value behind them. */
static const char with_value[] = "fdapsMCFbPcugUG";

/* A whole number in [min, max]. 0, or -1 with a sentence. */
static int
take_number(const struct scan *s, char letter, const char *text, int base,
            long min, long max, int *ret)
{
    char *end;
    long n;

    errno = 0;
    n = strtol(text, &end, base);
    if (errno != 0 || end == text || *end != '\0' || n < min || n > max) {
        snprintf(s->why, s->size,
                 base == 8 ? "-%c: \"%.80s\" is no octal mode from %lo to %lo"
                           : "-%c: \"%.80s\" is no number from %ld to %ld",
                 letter, text, min, max);
        return -1;
    }
    *ret = (int)n;
    return 0;
}

static int
take_value(struct scan *s, char letter, const char *value)
{
    struct spawn_options *o = s->o;

    switch (letter) {
    case 'f':
        o->shell = value;
        return 0;
    case 'd':
        o->folder = value;
        return 0;
    case 'a':
        o->address = value;
        return 0;
    case 'p':
        return take_number(s, letter, value, 10, 1, 65535, &o->port);
    case 's':
        o->path = value;
        return 0;
    case 'M':
        return take_number(s, letter, value, 8, 0, 07777, &o->mode);
    case 'C': /* -1 leaves PHP_FCGI_CHILDREN as it is */
        return take_number(s, letter, value, 10, -1, INT_MAX, &o->php_children);
    case 'F':
        return take_number(s, letter, value, 10, 0, 4096, &o->children);
    case 'b': /* -1 is as many as the kernel allows */
        return take_number(s, letter, value, 10, -1, INT_MAX, &o->backlog);
    case 'P':
        o->pidfile = value;
        return 0;
    case 'c':
        o->root = value;
        return 0;
    case 'u':
        o->user = value;
        return 0;
    case 'g':
        o->group = value;
        return 0;
    case 'U':
        o->socket_owner = value;
        return 0;
    default:
        o->socket_group = value;
        return 0;
    }
}

/* "-nS", "-s/run/a.sock", "-s" "/run/a.sock" */
static enum spawn_read
take_letters(struct scan *s, const char *arg)
{
    for (const char *p = arg + 1; *p != '\0'; p++) {
        const char *value = p + 1;

        if (strchr(with_value, *p) != NULL) {
            if (*value == '\0') {
                if (s->next == s->argc) {
                    snprintf(s->why, s->size, "-%c needs a value behind it",
                             *p);
                    return SPAWN_UNKNOWN;
                }
                value = s->argv[s->next++];
            }
            return take_value(s, *p, value) == 0 ? SPAWN_READ : SPAWN_BAD;
        }
        switch (*p) {
        case 'n':
            s->o->stay = true;
            break;
        case 'S':
            s->o->socket_first = true;
            break;
        case 'v':
            s->o->version = true;
            return SPAWN_READ;
        case 'h':
        case '?':
            s->o->help = true;
            return SPAWN_READ;
        default:
            snprintf(s->why, s->size, "there is no option -%c", *p);
            return SPAWN_UNKNOWN;
        }
    }
    return SPAWN_READ;
}

static enum spawn_read
out_of_memory(const struct scan *s)
{
    snprintf(s->why, s->size, "out of memory");
    return SPAWN_BAD;
}

/* Does the value of --name stand in the next argument? */
static bool
has_next_value(const char *name)
{
    const struct setting *row = settings_find(name);

    if (row != NULL) {
        return row->type != SETTING_BOOL;
    }
    return strncmp(name, "no-", 3) != 0 && strncmp(name, "no_", 3) != 0;
}

/* "--log=FILE", or "--log" "FILE": kept as the first of the two. */
static enum spawn_read
take_long(struct scan *s, const char *arg)
{
    char **at = &s->o->more[s->o->more_count];
    int rc;

    if (strcmp(arg, "--supervise") == 0) {
        s->o->supervise = true;
        return SPAWN_READ;
    }
    if (strcmp(arg, "--help") == 0 || strcmp(arg, "--version") == 0) {
        *(arg[2] == 'h' ? &s->o->help : &s->o->version) = true;
        return SPAWN_READ;
    }
    if (strchr(arg, '=') == NULL && has_next_value(arg + 2)) {
        if (s->next == s->argc) {
            snprintf(s->why, s->size, "%.80s needs a value behind it", arg);
            return SPAWN_UNKNOWN;
        }
        rc = asprintf(at, "%s=%s", arg, s->argv[s->next++]);
    } else {
        rc = asprintf(at, "%s", arg);
    }
    if (rc < 0) {
        *at = NULL;
        return out_of_memory(s);
    }
    s->o->more_count++;
    return SPAWN_READ;
}

/* The first word of the command line that is no option, and all behind it that
 * are none, are the program; behind "--" everything is. */
static enum spawn_read
scan_all(struct scan *s)
{
    enum spawn_read rc = SPAWN_READ;

    while (rc == SPAWN_READ && s->next < s->argc && !s->o->help &&
           !s->o->version) {
        char *arg = s->argv[s->next++];

        if (strcmp(arg, "--") == 0) {
            while (s->next < s->argc) {
                s->o->program[s->words++] = s->argv[s->next++];
            }
        } else if (arg[0] != '-' || arg[1] == '\0') {
            s->o->program[s->words++] = arg;
        } else if (arg[1] == '-') {
            rc = take_long(s, arg);
        } else {
            rc = take_letters(s, arg);
        }
    }
    return rc;
}

enum spawn_read
spawn_options_read(int argc, char **argv, struct spawn_options *ret, char *why,
                   size_t size)
{
    struct scan s = { argc, 1, argv, ret, 0, why, size };
    enum spawn_read rc;

    *ret = (struct spawn_options){
        .mode = -1, .backlog = 1024, .php_children = -1, .children = 1
    };
    ret->program = calloc((size_t)argc + 1, sizeof(*ret->program));
    ret->more = calloc((size_t)argc + 1, sizeof(*ret->more));
    if (ret->program == NULL || ret->more == NULL) {
        return out_of_memory(&s);
    }
    ret->more[ret->more_count++] = argv[0];
    rc = scan_all(&s);
    if (s.words == 0) {
        free(ret->program);
        ret->program = NULL;
    }
    if (rc == SPAWN_READ && ret->more_count > 1 && !ret->supervise &&
        !ret->help && !ret->version) {
        snprintf(why, size, "%.80s is for --supervise, which is not there",
                 ret->more[1]);
        return SPAWN_UNKNOWN;
    }
    return rc;
}

void
spawn_options_release(struct spawn_options *o)
{
    for (int i = 1; o->more != NULL && i < o->more_count; i++) {
        free(o->more[i]);
    }
    free(o->more);
    free(o->program);
    o->more = o->program = NULL;
    o->more_count = 0;
}
