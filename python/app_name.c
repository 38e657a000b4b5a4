/* SPDX-License-Identifier: MIT
 *
 * An APP text taken apart. See app.h. Needs no interpreter.
 *
 * A file gets the name that other modules of the application would import it
 * by, so that it exists once (wsgi checklist A6).
 */
#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "python/app.h"
#include "python/why.h"

/* Bytes of UTF-8 count as letters: Python decides. */
static bool
is_name_char(char c, bool first)
{
    unsigned char u = (unsigned char)c;

    return u >= 0x80 || u == '_' || isalpha(u) || (!first && isdigit(u));
}

static bool
is_identifier(const char *s, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (!is_name_char(s[i], i == 0)) {
            return false;
        }
    }
    return len > 0;
}

/* Identifiers with dots between them. */
static bool
is_dotted(const char *s)
{
    for (;;) {
        size_t len = strcspn(s, ".");

        if (!is_identifier(s, len)) {
            return false;
        }
        if (s[len] == '\0') {
            return true;
        }
        s += len + 1;
    }
}

static bool
ends_with(const char *s, const char *end)
{
    size_t len = strlen(s), end_len = strlen(end);

    return len > end_len && strcmp(s + len - end_len, end) == 0;
}

static bool
is_file(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 && S_ISREG(st.st_mode);
}

/* "callable", "a.b", "make()": into attribute and factory. */
static int
parse_attribute(const char *text, struct app_name *ret, char *why, size_t size)
{
    size_t len = strlen(text);

    if (len >= sizeof(ret->attribute)) {
        return why_say(why, size, "the name of the callable is too long");
    }
    memcpy(ret->attribute, text, len + 1);
    if (ends_with(ret->attribute, "()")) {
        ret->attribute[len - 2] = '\0';
        ret->factory = true;
    }
    if (!is_dotted(ret->attribute)) {
        return why_say(why, size,
                       "\"%s\" is no name of a callable: expected name, "
                       "name.name or name()",
                       text);
    }
    return 0;
}

/* Make path absolute, without "." and doubled slashes; ".." is left to the
 * kernel. Symbolic links stay, so that a "current" link keeps its meaning. */
static int
absolute_path(const char *path, char *out, size_t size, char *why,
              size_t why_size)
{
    char joined[2 * APP_PATH_MAX];
    size_t n = 0;

    joined[0] = '\0';
    if (path[0] != '/' && getcwd(joined, APP_PATH_MAX) == NULL) {
        return why_say(why, why_size, "the working directory: %s",
                       strerror(errno));
    }
    n = strlen(joined);
    snprintf(joined + n, sizeof(joined) - n, "/%s", path);
    n = 0;
    for (char *rest = joined, *part; (part = strsep(&rest, "/")) != NULL;) {
        if (part[0] == '\0' || strcmp(part, ".") == 0) {
            continue;
        }
        if (n + strlen(part) + 2 > size) {
            return why_say(why, why_size, "the path %s is too long", path);
        }
        n += (size_t)snprintf(out + n, size - n, "/%s", part);
    }
    return 0;
}

/* The name that a file without one of its own is loaded under: of "my-app.py"
 * my_app, of "django.wsgi" django_wsgi (which does not stand in the way of
 * django). */
static void
sanitise(const char *base, char *out, size_t size)
{
    size_t len = strlen(base), n = 0;

    if (ends_with(base, ".py")) {
        len -= 3;
    }
    if (len > 0 && !is_name_char(base[0], true)) {
        out[n++] = '_';
    }
    for (size_t i = base[0] == '.' ? 1 : 0; i < len && n + 1 < size; i++) {
        out[n++] = is_name_char(base[i], false) ? base[i] : '_';
    }
    out[n] = '\0';
}

/* dir becomes the folder that is to be on sys.path: that of the file, or the
 * one above the outermost package, whose names come before the module's. */
static int
climb_packages(struct app_name *ret, char *why, size_t size)
{
    for (;;) {
        char init[APP_PATH_MAX + 16], name[APP_PATH_MAX];
        char *slash = strrchr(ret->dir, '/');
        size_t len = strlen(ret->module);

        snprintf(init, sizeof(init), "%s/__init__.py", ret->dir);
        if (slash == NULL || !is_file(init) ||
            !is_identifier(slash + 1, strlen(slash + 1))) {
            return 0;
        }
        snprintf(name, sizeof(name), "%s", slash + 1);
        *slash = '\0';
        if (strlen(name) + len + 2 > sizeof(ret->module)) {
            return why_say(why, size, "the name of the module is too long");
        }
        if (len > 0) {
            memmove(ret->module + strlen(name) + 1, ret->module, len + 1);
            ret->module[strlen(name)] = '.';
            memcpy(ret->module, name, strlen(name));
        } else {
            memcpy(ret->module, name, strlen(name) + 1);
        }
        if (ret->dir[0] == '\0') {
            memcpy(ret->dir, "/", 2);
            return 0;
        }
    }
}

/* Whether a file can be imported by the name of its stem. */
static bool
has_import_name(const char *base)
{
    return ends_with(base, ".py") && is_identifier(base, strlen(base) - 3);
}

static int
parse_file(const char *path, struct app_name *ret, char *why, size_t size)
{
    const char *base;
    char *slash;

    if (absolute_path(path, ret->file, sizeof(ret->file), why, size) < 0) {
        return -1;
    }
    if (!is_file(ret->file)) {
        struct stat st;

        return stat(ret->file, &st) == 0
                   ? why_say(why, size, "%s is no file", ret->file)
                   : why_say(why, size, "%s: %s", ret->file, strerror(errno));
    }
    memcpy(ret->dir, ret->file, sizeof(ret->dir));
    slash = strrchr(ret->dir, '/');
    base = ret->file + (slash - ret->dir) + 1;
    slash[slash == ret->dir ? 1 : 0] = '\0';
    if (!has_import_name(base)) {
        sanitise(base, ret->module, sizeof(ret->module));
        return 0;
    }
    if (strcmp(base, "__init__.py") != 0) {
        snprintf(ret->module, sizeof(ret->module), "%.*s",
                 (int)(strlen(base) - 3), base);
    }
    return climb_packages(ret, why, size);
}

/* Whether text names a file rather than a module. "site.wsgi" is what Django
 * calls its module wsgi: a file only if there is one. */
static bool
looks_like_file(const char *text)
{
    return strchr(text, '/') != NULL || ends_with(text, ".py") ||
           is_file(text) || (ends_with(text, ".wsgi") && !is_dotted(text));
}

int
app_name_parse(const char *text, struct app_name *ret, char *why, size_t size)
{
    char target[APP_PATH_MAX];
    const char *colon = strrchr(text, ':');
    size_t len = strlen(text);

    memset(ret, 0, sizeof(*ret));
    if (colon != NULL && (strchr(colon, '/') != NULL || is_file(text))) {
        colon = NULL; /* a path with a colon in it */
    }
    if (colon != NULL) {
        len = (size_t)(colon - text);
        if (parse_attribute(colon + 1, ret, why, size) < 0) {
            return -1;
        }
    }
    if (len == 0 || len >= sizeof(target)) {
        return why_say(why, size,
                       "\"%s\" names no application: expected "
                       "module:callable or a path",
                       text);
    }
    memcpy(target, text, len);
    target[len] = '\0';
    if (looks_like_file(target)) {
        return parse_file(target, ret, why, size);
    }
    if (!is_dotted(target)) {
        return why_say(why, size,
                       "\"%s\" is neither the name of a module nor a file that "
                       "is there",
                       target);
    }
    memcpy(ret->module, target, len + 1);
    return 0;
}

bool
app_name_is_importable(const struct app_name *name)
{
    const char *slash = strrchr(name->file, '/');

    return slash == NULL || has_import_name(slash + 1);
}
