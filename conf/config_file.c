/* SPDX-License-Identifier: MIT
 *
 * Reading a configuration file and what it includes: lines, sections, settings,
 * and what no single pool can know. Values are scan.c, their meaning is the
 * tables'. Any process. Never logs: an error has file, line and a sentence.
 *
 *     file     = *( [ blank-line | comment | heading | setting | more ] EOL )
 *     comment  = *BLANK ( "#" | ";" ) *character
 *     heading  = "[forebay]" | "[pool" 1*BLANK NAME "]"
 *     setting  = NAME *BLANK "=" *BLANK [ value | item *( 1*BLANK item ) ]
 *     more     = 1*BLANK item *( 1*BLANK item )       of the list above it
 *
 * A reader of its own, and not libinih: Debian's is built to read lines of at
 * most 200 bytes, cuts longer ones without a word (the value that arrives is a
 * wrong one), and does not tell the line of a setting, which every error here
 * has to name.
 */
#include "conf/config.h"
#include "conf/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    FILE_MAX = 4 * 1024 * 1024, /* bytes; more is no configuration */
    DEPTH_MAX = 8,              /* files that include each other */
};

/* A line of a file; line 0 is none. */
struct place {
    const char *file; /* of reader.name */
    unsigned line;
};

/* [forebay] or one [pool NAME]. */
struct section {
    const struct conf_table *table;
    void *base;                 /* the struct that is filled */
    struct pool_settings *pool; /* the same, or NULL for [forebay] */
    struct place heading;
    struct place *given; /* of each row of the table; owned */
    struct section *next;
};

/* An address that is listened on. */
struct listened {
    char *address; /* in one spelling; owned */
    struct place place;
    const struct section *section;
};

/* A file that is being read; the file that includes it is from. */
struct source {
    struct source *from;
    struct place here;
    dev_t dev;
    ino_t ino;
    unsigned depth;
    struct section *section; /* NULL before the first heading */
    /* The list that a line with a blank in front would go on with, where it
     * began, and whether it has an item yet. */
    const struct setting *list;
    struct place list_place;
    bool list_filled;
};

struct reader {
    struct config *c;
    struct conf_error *err;
    bool may_include;
    struct source *source;
    struct section forebay;
    struct section *pools; /* the last one first */
    char **name;           /* of files; names of them */
    unsigned names;
    struct listened *listened; /* addresses of them */
    unsigned addresses;
};

static int set_item(struct reader *r, const struct setting *row,
                    const char *value);
static int parse_text(struct reader *r, char *text, size_t len);

/* -- errors ----------------------------------------------------------------
 */

/* The error is about this place. A path that is too long keeps its end. */
static int
locate(struct reader *r, const struct place *place)
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

static int fail(struct reader *r, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* An error in the line that is being read. */
static int
fail(struct reader *r, const char *fmt, ...)
{
    char text[sizeof(r->err->text)];
    va_list args;

    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    conf_fail(r->err, "%s", text);
    return locate(r, &r->source->here);
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

/* Two on one address would take each other's connections, or the second would
 * not start. */
static int
note_address(struct reader *r, const struct section *s, const char *address)
{
    char *text = one_spelling(address);
    struct listened *grown;

    for (unsigned i = 0; text != NULL && *text != '\0' && i < r->addresses;
         i++) {
        const struct listened *l = &r->listened[i];

        if (strcmp(l->address, text) == 0) {
            free(text);
            return fail(r, "%.120s is listened on already, %s%s at %s:%u",
                        address, l->section->pool != NULL ? "by pool " : "",
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
        return fail(r, "out of memory");
    }
    grown[r->addresses++] = (struct listened){ text, r->source->here, s };
    return 0;
}

/* -- include ---------------------------------------------------------------
 */

/* The name for errors, kept as long as the reader. NULL out of memory. */
static const char *
keep_name(struct reader *r, const char *name)
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

/* All bytes of an open file with a NUL behind them. NULL with errno: EFBIG for
 * one that is too large. */
static char *
read_all(int fd, size_t *ret_len)
{
    char *text = malloc(FILE_MAX + 2), *fitting;
    size_t len = 0;
    ssize_t n = 1;

    while (text != NULL && n != 0 && len <= FILE_MAX) {
        n = read(fd, text + len, FILE_MAX + 1 - len);
        if (n < 0 && errno != EINTR) {
            break;
        }
        len += n > 0 ? (size_t)n : 0;
    }
    if (text == NULL || n < 0 || len > FILE_MAX) {
        errno = text == NULL ? ENOMEM : n < 0 ? errno : EFBIG;
        free(text);
        return NULL;
    }
    text[len] = '\0';
    *ret_len = len;
    fitting = realloc(text, len + 1);
    return fitting != NULL ? fitting : text;
}

/* Open path and read it; *st is filled. NULL with errno. */
static char *
load(const char *path, struct stat *st, size_t *ret_len)
{
    /* Opening a pipe that nobody writes to would wait for ever. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    char *text = NULL;
    int saved;

    if (fd < 0) {
        return NULL;
    }
    if (fstat(fd, st) != 0) {
        saved = errno;
    } else if (!S_ISREG(st->st_mode)) {
        /* A reload reads it again, which only files allow. */
        saved = S_ISDIR(st->st_mode) ? EISDIR : ESPIPE;
    } else {
        text = read_all(fd, ret_len);
        saved = errno;
    }
    close(fd);
    errno = saved;
    return text;
}

static const char *
load_problem(int error)
{
    switch (error) {
    case EISDIR:
        return "it is a folder (write FOLDER/*.conf for the files in it)";
    case ESPIPE:
        return "it is no regular file";
    case EFBIG:
        return "it has more than 4 MB";
    default:
        return strerror(error);
    }
}

/* Read one file, at the line of its include or as the first one. */
static int
read_file(struct reader *r, const char *path)
{
    struct source s = { .from = r->source };
    struct place whole = { path, 0 };
    struct stat st;
    size_t len = 0;
    char *text;
    int rc;

    s.depth = s.from != NULL ? s.from->depth + 1 : 0;
    if (s.depth > DEPTH_MAX) {
        return fail(r, "files include each other more than %d deep",
                    (int)DEPTH_MAX);
    }
    text = load(path, &st, &len);
    if (text == NULL) {
        if (s.from != NULL) {
            return fail(r, "%s cannot be read: %s", path, load_problem(errno));
        }
        conf_fail(r->err, "the configuration cannot be read: %s",
                  load_problem(errno));
        return locate(r, &whole);
    }
    s.dev = st.st_dev;
    s.ino = st.st_ino;
    for (const struct source *o = s.from; o != NULL; o = o->from) {
        if (o->dev == s.dev && o->ino == s.ino) {
            free(text);
            return fail(r, "%s includes itself by this", path);
        }
    }
    s.here.file = keep_name(r, path);
    if (s.here.file == NULL) {
        free(text);
        conf_fail(r->err, "out of memory");
        return locate(r, &whole);
    }
    r->source = &s;
    rc = parse_text(r, text, len);
    if (rc == 0 && s.from == NULL && r->c->pools == 0) {
        rc = fail(r, "there is no [pool NAME] section: nothing would be "
                     "served");
    }
    r->source = s.from;
    free(text);
    return rc;
}

static _Thread_local int glob_errno;

static int
on_glob_error(const char *path, int error)
{
    (void)path;
    if (error == ENOENT || error == ENOTDIR) {
        return 0;
    }
    glob_errno = error;
    return 1;
}

/* The path or pattern of an include, beside the file that has it. NULL out of
 * memory. escape: the folder's own name is no pattern. */
static char *
beside(const struct reader *r, const char *item, bool escape)
{
    const char *file = r->source->here.file, *slash = strrchr(file, '/');
    char *path = malloc(2 * strlen(file) + strlen(item) + 1), *out = path;

    if (path == NULL) {
        return NULL;
    }
    if (item[0] != '/' && slash != NULL) {
        for (const char *p = file; p <= slash; p++) {
            if (escape && strchr("*?[\\", *p) != NULL) {
                *out++ = '\\';
            }
            *out++ = *p;
        }
    }
    memcpy(out, item, strlen(item) + 1);
    return path;
}

static int
include(struct reader *r, const char *item)
{
    bool pattern = strpbrk(item, "*?[") != NULL;
    glob_t found = { 0 };
    char *path;
    int rc;

    if (!r->may_include) {
        return fail(r, "nothing can be included here");
    }
    path = beside(r, item, pattern);
    if (path == NULL) {
        return fail(r, "out of memory");
    }
    if (!pattern) {
        rc = read_file(r, path);
        free(path);
        return rc;
    }
    rc = glob(path, 0, on_glob_error, &found);
    free(path);
    if (rc == GLOB_NOSPACE || rc == GLOB_ABORTED) {
        rc = fail(r, "include %s: %s", item,
                  rc == GLOB_NOSPACE ? "out of memory" : strerror(glob_errno));
    } else {
        rc = 0; /* a folder may be empty */
    }
    for (size_t i = 0; rc == 0 && i < found.gl_pathc; i++) {
        rc = read_file(r, found.gl_pathv[i]);
    }
    globfree(&found);
    return rc;
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
    return s->given != NULL ? 0 : fail(r, "out of memory");
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
        return fail(r, "out of memory");
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
               : locate(r, &r->source->here);
}

static int
start_pool(struct reader *r, const char *name)
{
    if (*name == '\0') {
        return fail(r, "a pool needs a name: [pool NAME]");
    }
    if (!conf_is_pool_name(name)) {
        return fail(r,
                    "\"%.80s\" is no name for a pool; it has 1 to %d letters, "
                    "digits, dots, dashes or underscores",
                    name, CONF_POOL_NAME_MAX);
    }
    for (const struct section *s = r->pools; s != NULL; s = s->next) {
        if (strcmp(s->pool->name, name) == 0) {
            return fail(r, "there is a pool %s already, at %s:%u", name,
                        s->heading.file, s->heading.line);
        }
    }
    return add_pool(r, name);
}

/* What somebody who wrote this heading may have meant. */
static int
fail_heading(struct reader *r, const char *word, const char *rest)
{
    static const char *const main_section[] = { "global", "main", "manager",
                                                "server" };
    bool ours = conf_edit_distance(word, "forebay") <= 2;

    for (size_t i = 0; i < sizeof(main_section) / sizeof(*main_section); i++) {
        ours = ours || strcasecmp(word, main_section[i]) == 0;
    }
    if (*rest != '\0' || conf_edit_distance(word, "pool") <= 1) {
        return fail(r,
                    "there is no section [%.60s%s%.60s]; did you mean [pool "
                    "%.60s]?",
                    word, *rest != '\0' ? " " : "", rest,
                    *rest != '\0' ? rest : "NAME");
    }
    if (ours) {
        return fail(r, "there is no section [%.60s]; did you mean [forebay]?",
                    word);
    }
    return fail(r, "there is no section [%.60s]; did you mean [pool %.60s]?",
                word, word);
}

/* line begins with a bracket. */
static int
parse_heading(struct reader *r, char *line)
{
    char *word = line + 1 + strspn(line + 1, " \t");
    char *end = strchr(line, ']'), *rest;

    if (end == NULL) {
        return fail(r, "a ] is missing behind the name of the section");
    }
    if (end[1] != '\0') {
        return fail(r,
                    "there is more behind the ]: \"%.60s\"; a setting or "
                    "comment is a line of its own",
                    end + 1 + strspn(end + 1, " \t"));
    }
    while (end > word && (end[-1] == ' ' || end[-1] == '\t')) {
        end--;
    }
    *end = '\0';
    rest = word + strcspn(word, " \t");
    if (*rest != '\0') {
        *rest++ = '\0';
        rest += strspn(rest, " \t");
    }
    if (strcmp(word, "pool") == 0) {
        return start_pool(r, rest);
    }
    if (strcmp(word, "forebay") == 0 && *rest == '\0') {
        r->source->section = &r->forebay;
        return 0;
    }
    return fail_heading(r, word, rest);
}

/* -- settings --------------------------------------------------------------
 */

static int
set_item(struct reader *r, const struct setting *row, const char *value)
{
    struct section *s = r->source->section;
    struct place *given = &s->given[row - s->table->row];
    int rc = s->pool != NULL
                 ? settings_give(s->pool, row, value, r->err)
                 : settings_set_row(s->base, row, false, value, r->err);

    if (rc != 0) {
        return locate(r, &r->source->here);
    }
    if (given->line == 0) {
        *given = r->source->here;
    }
    if (strcmp(row->name, "listen") == 0 ||
        (strcmp(row->name, "status_listen") == 0 && *value != '\0')) {
        return note_address(r, s, value);
    }
    return strcmp(row->name, "include") == 0 ? include(r, value) : 0;
}

/* The items of a list in this line. */
static int
parse_items(struct reader *r, const struct setting *row, const char *p)
{
    char *item;
    int rc = 0;

    while (rc == 0 && *p != '\0') {
        if (conf_scan_value(&p, CONF_SCAN_ITEM, &item, r->err) != 0) {
            return locate(r, &r->source->here);
        }
        r->source->list_filled = true;
        rc = set_item(r, row, item);
        free(item);
    }
    return rc;
}

static int
parse_value(struct reader *r, const struct setting *row, const char *p)
{
    struct section *s = r->source->section;
    const struct place *given = &s->given[row - s->table->row];
    char *value;
    int rc;

    if (given->line != 0) {
        return fail(r, "%s is given twice: it stands at %s:%u already",
                    row->name, given->file, given->line);
    }
    if (conf_scan_value(&p, CONF_SCAN_VALUE, &value, r->err) != 0) {
        return locate(r, &r->source->here);
    }
    rc = set_item(r, row, value);
    free(value);
    return rc;
}

/* A name that the section does not have. */
static int
fail_name(struct reader *r, const char *name)
{
    const struct section *s = r->source->section;
    bool forebay = s->pool == NULL;

    if (conf_table_find(forebay ? &conf_pool_table : &conf_manager_table,
                        name) != NULL) {
        return fail(r,
                    forebay ? "%s is a setting of a pool: it belongs below a "
                              "heading [pool NAME]"
                            : "%s is a setting of the manager: it belongs "
                              "below the heading [forebay]",
                    name);
    }
    conf_fail_unknown(s->table, name, r->err);
    return locate(r, &r->source->here);
}

/* name = value; line begins with no blank. */
static int
parse_setting(struct reader *r, char *line)
{
    char *equals = strchr(line, '='), *end = equals;
    const struct section *s = r->source->section;
    const struct setting *row;

    if (equals == NULL) {
        return fail(r,
                    "\"%.80s\" is neither a setting (name = value) nor a "
                    "heading ([pool NAME]) nor a comment (# ...)",
                    line);
    }
    while (end > line && (end[-1] == ' ' || end[-1] == '\t')) {
        end--;
    }
    *end = '\0';
    if (end == line) {
        return fail(r, "the name of the setting is missing in front of the =");
    }
    if (s == NULL) {
        return fail(r,
                    "%.80s stands above the first heading; begin with "
                    "[forebay] or [pool NAME]",
                    line);
    }
    row = conf_table_find(s->table, line);
    if (row == NULL) {
        return fail_name(r, line);
    }
    if (s->pool != NULL && strcmp(row->name, "name") == 0) {
        return fail(r, "the name of the pool is in its heading, [pool %s]",
                    s->pool->name);
    }
    equals += 1 + strspn(equals + 1, " \t");
    if (row->type != SETTING_LIST) {
        return parse_value(r, row, equals);
    }
    r->source->list = row;
    r->source->list_place = r->source->here;
    r->source->list_filled = false;
    return parse_items(r, row, equals);
}

/* Does this text, which would go on with a list, look like a setting that was
 * indented? NAME=VALUE is what the items of env are. */
static const struct setting *
indented_setting(const struct reader *r, const char *text)
{
    size_t len = strcspn(text, " \t=");
    const char *equals = text + len + strspn(text + len, " \t");
    char name[64];

    if (*equals != '=' || len >= sizeof(name) ||
        (equals == text + len && equals[1] != ' ' && equals[1] != '\t' &&
         r->source->list->check == conf_check_env)) {
        return NULL;
    }
    memcpy(name, text, len);
    name[len] = '\0';
    return conf_table_find(r->source->section->table, name);
}

/* A line that begins with a blank. */
static int
parse_more(struct reader *r, const char *text)
{
    const struct setting *row;

    if (r->source->list == NULL) {
        return fail(r, "a line that begins with a blank goes on with a list, "
                       "and there is none above it: take the blank away");
    }
    row = indented_setting(r, text);
    if (row != NULL) {
        return fail(r,
                    "%s begins with a blank, and so goes on with the list of "
                    "%s: take the blank away",
                    row->name, r->source->list->name);
    }
    return parse_items(r, r->source->list, text);
}

/* -- lines -----------------------------------------------------------------
 */

/* The list above has ended. */
static int
end_list(struct reader *r)
{
    const struct setting *row = r->source->list;

    r->source->list = NULL;
    if (row == NULL || r->source->list_filled) {
        return 0;
    }
    conf_fail(r->err, "%s: the value is empty", row->name);
    return locate(r, &r->source->list_place);
}

/* What no line of a configuration has. */
static int
check_line(struct reader *r, const char *line, size_t len)
{
    if (len > CONF_LINE_MAX) {
        return fail(r, "the line is longer than %d KB", CONF_LINE_MAX / 1024);
    }
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)line[i];

        if (c == '\0') {
            return fail(r, "there is a NUL byte in the line; the file must be "
                           "plain text (UTF-8)");
        }
        if ((c < 0x20 && c != '\t') || c == 0x7f) {
            return fail(r, "there is a control character (0x%02x) in the line",
                        c);
        }
    }
    return 0;
}

/* One line without its end; it is changed. */
static int
parse_line(struct reader *r, char *line, size_t len)
{
    char *text;

    if (len > 0 && line[len - 1] == '\r') {
        len--;
    }
    if (check_line(r, line, len) != 0) {
        return -1;
    }
    while (len > 0 && (line[len - 1] == ' ' || line[len - 1] == '\t')) {
        len--;
    }
    line[len] = '\0';
    text = line + strspn(line, " \t");
    if (*text == '\0' || *text == '#' || *text == ';') {
        return 0;
    }
    if (text != line) {
        return parse_more(r, text);
    }
    if (end_list(r) != 0) {
        return -1;
    }
    return *line == '[' ? parse_heading(r, line) : parse_setting(r, line);
}

/* A whole file, with a NUL behind it; it is changed. */
static int
parse_text(struct reader *r, char *text, size_t len)
{
    char *line = text, *end = text + len, *next;

    if (len >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0) {
        line += 3; /* the byte order mark that some editors write */
    }
    for (; line < end; line = next) {
        char *eol = memchr(line, '\n', (size_t)(end - line));

        next = eol != NULL ? eol + 1 : end;
        r->source->here.line++;
        if (parse_line(r, line, (size_t)((eol != NULL ? eol : end) - line)) !=
            0) {
            return -1;
        }
    }
    if (r->source->here.line == 0) {
        r->source->here.line = 1; /* of an empty file */
    }
    return end_list(r);
}

/* -- the whole -------------------------------------------------------------
 */

/* What only a whole pool can tell, in the order of the file. */
static int
finish(struct reader *r)
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
            return locate(r, &s->given[row - s->table->row]);
        }
        return locate(r, &s->heading);
    }
    return 0;
}

static void
release_reader(struct reader *r)
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

static int
start_reader(struct reader *r)
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

static int
end_reader(struct reader *r, int rc)
{
    if (rc == 0) {
        rc = finish(r);
    }
    release_reader(r);
    if (rc != 0) {
        config_release(r->c);
    }
    return rc;
}

int
config_read(const char *path, struct config *ret, struct conf_error *err)
{
    struct reader r = { .c = ret, .err = err, .may_include = true };
    int rc;

    config_init(ret);
    rc = start_reader(&r);
    if (rc == 0) {
        rc = read_file(&r, path);
    }
    return end_reader(&r, rc);
}

int
config_read_text(const char *name, const char *text, size_t len,
                 struct config *ret, struct conf_error *err)
{
    struct reader r = { .c = ret, .err = err };
    struct source s = { .here = { name, 0 } };
    char *copy = malloc(len + 1);
    int rc;

    config_init(ret);
    rc = start_reader(&r);
    if (rc == 0 && copy == NULL) {
        rc = conf_fail(err, "out of memory");
    } else if (rc == 0) {
        memcpy(copy, text, len);
        copy[len] = '\0';
        r.source = &s;
        rc = parse_text(&r, copy, len);
    }
    if (rc == 0 && ret->pools == 0) {
        rc = fail(&r, "there is no [pool NAME] section: nothing would be "
                      "served");
    }
    free(copy);
    return end_reader(&r, rc);
}
