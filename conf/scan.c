/* SPDX-License-Identifier: MIT
 *
 * Values as they are written in a configuration file, and the words of a
 * command. Any process. Reads the environment, no file; never logs.
 *
 *     value   = *( variable | character )          to the end of the line
 *     item    = 1*( variable | not a blank or " )  to the next blank
 *     quoted  = <"> *( variable | character | \" | \\ ) <">  instead of either
 *     variable = "$$" | "${" NAME "}" | "${" NAME ":-" default "}"
 *
 * What a variable holds is put in as it is: it is not looked at for quotes,
 * blanks or variables.
 */
#include "conf/internal.h"

#include <stdlib.h>
#include <string.h>

struct scan {
    const char *p; /* what was not looked at yet */
    enum conf_scan how;
    bool quoted;
    char *out; /* owned */
    size_t len, cap;
    struct conf_error *err;
};

static bool
is_blank(char c)
{
    return c == ' ' || c == '\t';
}

static int
put(struct scan *s, const char *data, size_t n)
{
    if (n >= CONF_LINE_MAX || s->len + n >= CONF_LINE_MAX) {
        return conf_fail(s->err,
                         "the value is longer than %d KB once its variables "
                         "are put in",
                         CONF_LINE_MAX / 1024);
    }
    if (s->len + n >= s->cap) {
        size_t cap = 2 * (s->len + n) + 32;
        char *grown = realloc(s->out, cap);

        if (grown == NULL) {
            return conf_fail(s->err, "out of memory");
        }
        s->out = grown;
        s->cap = cap;
    }
    memcpy(s->out + s->len, data, n);
    s->len += n;
    s->out[s->len] = '\0';
    return 0;
}

/* A backslash inside quotes. */
static int
put_escaped(struct scan *s)
{
    if (s->p[1] != '"' && s->p[1] != '\\') {
        return conf_fail(s->err,
                         "a backslash inside quotes stands before a quote or "
                         "another backslash only: write \\\" or \\\\");
    }
    s->p += 2;
    return put(s, s->p - 1, 1);
}

/* Behind "${NAME:-", up to and with the brace. used: it is put in. */
static int
scan_default(struct scan *s, bool used)
{
    size_t before = s->len;
    int rc = 0;

    while (rc == 0 && *s->p != '}') {
        if (*s->p == '\0' || (s->quoted && *s->p == '"')) {
            return conf_fail(s->err, "a } is missing: a variable is written "
                                     "${NAME} or ${NAME:-default}");
        }
        if (*s->p == '$' && s->p[1] != '$') {
            return conf_fail(s->err, "the default of a variable holds no other "
                                     "variable; write $$ for a dollar");
        }
        if (s->quoted && *s->p == '\\') {
            rc = put_escaped(s);
        } else {
            rc = put(s, s->p, 1);
            s->p += *s->p == '$' ? 2 : 1;
        }
    }
    if (rc == 0) {
        s->p++;
    }
    if (!used && s->len > before) {
        s->len = before;
        s->out[before] = '\0';
    }
    return rc;
}

static int
scan_variable(struct scan *s)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz"
                                  "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";
    char name[256];
    const char *value;
    size_t n;

    if (s->p[1] == '$') {
        s->p += 2;
        return put(s, "$", 1);
    }
    if (s->p[1] != '{') {
        return conf_fail(s->err, "a $ alone means nothing: write $$ for a "
                                 "dollar, ${NAME} for a variable of the "
                                 "environment");
    }
    s->p += 2;
    n = strspn(s->p, letters);
    if (n == 0 || n >= sizeof(name) || (*s->p >= '0' && *s->p <= '9')) {
        return conf_fail(s->err, "behind ${ the name of a variable is missing, "
                                 "as in ${HOME}");
    }
    memcpy(name, s->p, n);
    name[n] = '\0';
    s->p += n;
    value = getenv(name);
    if (strncmp(s->p, ":-", 2) == 0) {
        s->p += 2;
        /* As in a shell, the default is for empty ones as well. */
        if (scan_default(s, value == NULL || *value == '\0') != 0) {
            return -1;
        }
        return value != NULL ? put(s, value, strlen(value)) : 0;
    }
    if (*s->p != '}') {
        return conf_fail(s->err, "a } is missing: a variable is written "
                                 "${NAME} or ${NAME:-default}");
    }
    if (value == NULL) {
        return conf_fail(s->err,
                         "the environment has no variable %s; set it, or write "
                         "${%s:-default}",
                         name, name);
    }
    s->p++;
    return put(s, value, strlen(value));
}

static int
scan_quoted(struct scan *s)
{
    int rc = 0;

    s->p++;
    s->quoted = true;
    while (rc == 0 && *s->p != '"') {
        if (*s->p == '\0') {
            return conf_fail(s->err, "the closing quote is missing");
        }
        if (*s->p == '\\') {
            rc = put_escaped(s);
        } else if (*s->p == '$' && s->how != CONF_SCAN_WORD) {
            rc = scan_variable(s);
        } else {
            rc = put(s, s->p++, 1);
        }
    }
    if (rc != 0) {
        return -1;
    }
    s->p++;
    if (*s->p != '\0' && (s->how == CONF_SCAN_VALUE || !is_blank(*s->p))) {
        const char *more = s->p + strspn(s->p, " \t");

        if (*more != '\0') {
            return conf_fail(s->err,
                             "there is more behind the closing quote: "
                             "\"%.40s\"; put quotes around all of it, and \\\" "
                             "for those inside",
                             more);
        }
    }
    return 0;
}

static int
scan_bare(struct scan *s)
{
    const char *start = s->p;
    int rc = 0;

    while (rc == 0 && *s->p != '\0') {
        if (s->how != CONF_SCAN_VALUE && is_blank(*s->p)) {
            break;
        }
        if (s->how != CONF_SCAN_VALUE && *s->p == '"') {
            return conf_fail(s->err, "a quote in the middle of a word: put "
                                     "quotes around the whole, as in "
                                     "\"NAME=two words\"");
        }
        /* Read as a part of the value it would be there unnoticed; read as a
         * comment, passwords and colours would be cut. */
        if (s->how != CONF_SCAN_WORD && (*s->p == '#' || *s->p == ';') &&
            (s->p == start || is_blank(s->p[-1]))) {
            return conf_fail(
                s->err,
                "a comment must be a line of its own; if \"%.40s\" "
                "belongs to the value, put quotes around it",
                s->p);
        }
        if (*s->p == '$' && s->how != CONF_SCAN_WORD) {
            rc = scan_variable(s);
        } else {
            rc = put(s, s->p++, 1);
        }
    }
    return rc;
}

int
conf_scan_value(const char **at, enum conf_scan how, char **ret,
                struct conf_error *err)
{
    struct scan s = { .p = *at, .how = how, .err = err };
    int rc = put(&s, "", 0); /* there is always a text to return */

    if (rc == 0) {
        rc = *s.p == '"' ? scan_quoted(&s) : scan_bare(&s);
    }
    if (rc != 0) {
        free(s.out);
        return -1;
    }
    *at = s.p + strspn(s.p, " \t");
    *ret = s.out;
    return 0;
}

int
settings_words(const char *text, struct conf_list *ret, struct conf_error *err)
{
    const char *p = text + strspn(text, " \t");
    char *word;
    int rc = 0;

    *ret = (struct conf_list){ 0 };
    while (rc == 0 && *p != '\0') {
        rc = conf_scan_value(&p, CONF_SCAN_WORD, &word, err);
        if (rc == 0) {
            rc = conf_list_append(ret, word) == 0
                     ? 0
                     : conf_fail(err, "out of memory");
            free(word);
        }
    }
    if (rc == 0 && (ret->count == 0 || ret->item[0][0] == '\0')) {
        rc = conf_fail(err, "there is no program to run");
    }
    if (rc != 0) {
        conf_list_release(ret);
    }
    return rc;
}
