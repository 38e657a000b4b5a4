/* SPDX-License-Identifier: MIT
 *
 * The grammar of a configuration file: lines, headings, settings and lists.
 * Values are scan.c, their meaning is the tables'. Any process. Never logs.
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
#include "conf/reader.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* -- headings --------------------------------------------------------------
 */

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
        return reader_fail(
            r,
            "there is no section [%.60s%s%.60s]; did you mean [pool "
            "%.60s]?",
            word, *rest != '\0' ? " " : "", rest,
            *rest != '\0' ? rest : "NAME");
    }
    if (ours) {
        return reader_fail(
            r, "there is no section [%.60s]; did you mean [forebay]?", word);
    }
    return reader_fail(
        r, "there is no section [%.60s]; did you mean [pool %.60s]?", word,
        word);
}

/* line begins with a bracket. */
static int
parse_heading(struct reader *r, char *line)
{
    char *word = line + 1 + strspn(line + 1, " \t");
    char *end = strchr(line, ']'), *rest;

    if (end == NULL) {
        return reader_fail(r, "a ] is missing behind the name of the section");
    }
    if (end[1] != '\0') {
        return reader_fail(
            r,
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
        return reader_start_pool(r, rest);
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
        return reader_locate(r, &r->source->here);
    }
    if (given->line == 0) {
        *given = r->source->here;
    }
    if (strcmp(row->name, "listen") == 0 ||
        (strcmp(row->name, "status_listen") == 0 && *value != '\0')) {
        return reader_note_address(r, s, value);
    }
    return strcmp(row->name, "include") == 0 ? config_include(r, value) : 0;
}

/* The items of a list in this line. */
static int
parse_items(struct reader *r, const struct setting *row, const char *p)
{
    char *item;
    int rc = 0;

    while (rc == 0 && *p != '\0') {
        if (conf_scan_value(&p, CONF_SCAN_ITEM, &item, r->err) != 0) {
            return reader_locate(r, &r->source->here);
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
        return reader_fail(r, "%s is given twice: it stands at %s:%u already",
                           row->name, given->file, given->line);
    }
    if (conf_scan_value(&p, CONF_SCAN_VALUE, &value, r->err) != 0) {
        return reader_locate(r, &r->source->here);
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
        return reader_fail(
            r,
            forebay ? "%s is a setting of a pool: it belongs below a "
                      "heading [pool NAME]"
                    : "%s is a setting of the manager: it belongs "
                      "below the heading [forebay]",
            name);
    }
    conf_fail_unknown(s->table, name, r->err);
    return reader_locate(r, &r->source->here);
}

/* name = value; line begins with no blank. */
static int
parse_setting(struct reader *r, char *line)
{
    char *equals = strchr(line, '='), *end = equals;
    const struct section *s = r->source->section;
    const struct setting *row;

    if (equals == NULL) {
        return reader_fail(
            r,
            "\"%.80s\" is neither a setting (name = value) nor a "
            "heading ([pool NAME]) nor a comment (# ...)",
            line);
    }
    while (end > line && (end[-1] == ' ' || end[-1] == '\t')) {
        end--;
    }
    *end = '\0';
    if (end == line) {
        return reader_fail(
            r, "the name of the setting is missing in front of the =");
    }
    if (s == NULL) {
        return reader_fail(r,
                           "%.80s stands above the first heading; begin with "
                           "[forebay] or [pool NAME]",
                           line);
    }
    row = conf_table_find(s->table, line);
    if (row == NULL) {
        return fail_name(r, line);
    }
    if (s->pool != NULL && strcmp(row->name, "name") == 0) {
        return reader_fail(r,
                           "the name of the pool is in its heading, [pool %s]",
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
        return reader_fail(
            r, "a line that begins with a blank goes on with a list, "
               "and there is none above it: take the blank away");
    }
    row = indented_setting(r, text);
    if (row != NULL) {
        return reader_fail(
            r,
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
    return reader_locate(r, &r->source->list_place);
}

/* What no line of a configuration has. */
static int
check_line(struct reader *r, const char *line, size_t len)
{
    if (len > CONF_LINE_MAX) {
        return reader_fail(r, "the line is longer than %d KB",
                           CONF_LINE_MAX / 1024);
    }
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)line[i];

        if (c == '\0') {
            return reader_fail(
                r, "there is a NUL byte in the line; the file must be "
                   "plain text (UTF-8)");
        }
        if ((c < 0x20 && c != '\t') || c == 0x7f) {
            return reader_fail(
                r, "there is a control character (0x%02x) in the line", c);
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

int
config_parse(struct reader *r, char *text, size_t len)
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
