/* SPDX-License-Identifier: MIT
 *
 * See pyvenv.h. CPython itself takes a virtualenv of another minor version in
 * silence (its packages are then missing), and one of another build of the same
 * version until some extension module does not load; both are refused here.
 */
#include "python/pyvenv.h"

#include <errno.h>
#include <limits.h>
#include <pwd.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct pyvenv_config {
    char version[64]; /* "" when it does not say */
    char home[PATH_MAX];
};

/* "www-data (uid 33)" */
static const char *
user_name(char *out, size_t size)
{
    uid_t uid = geteuid();
    struct passwd *pw = getpwuid(uid);

    snprintf(out, size, "%s (uid %lu)", pw != NULL ? pw->pw_name : "no name",
             (unsigned long)uid);
    return out;
}

/* The first folder on the way to path that this user cannot enter, or NULL. */
static const char *
closed_folder(const char *path, char *out, size_t size)
{
    size_t len = strlen(path);

    for (size_t i = 1; i <= len && i < size; i++) {
        if (path[i] != '/' && path[i] != '\0') {
            continue;
        }
        memcpy(out, path, i);
        out[i] = '\0';
        if (access(out, X_OK) != 0 && errno == EACCES) {
            return out;
        }
    }
    return NULL;
}

static int
cannot(const char *dir, const char *path, int error, char *why, size_t size)
{
    char user[128], folder[PATH_MAX];
    const char *closed = NULL;

    if (error == EACCES) {
        closed = closed_folder(path, folder, sizeof(folder));
    }
    if (closed != NULL) {
        snprintf(why, size,
                 "virtualenv %s: user %s may not enter %s; give it the right "
                 "(chmod, chgrp) or move the virtualenv",
                 dir, user_name(user, sizeof(user)), closed);
    } else if (error == EACCES) {
        snprintf(why, size, "virtualenv %s: user %s may not read %s", dir,
                 user_name(user, sizeof(user)), path);
    } else {
        snprintf(why, size, "virtualenv %s: %s: %s", dir, path,
                 strerror(error));
    }
    return -1;
}

/* Take "key = value" apart; value has no blanks around it. */
static bool
split_line(char *line, char **ret_key, char **ret_value)
{
    char *equal = strchr(line, '=');
    char *end;

    if (equal == NULL) {
        return false;
    }
    for (end = equal; end > line && (end[-1] == ' ' || end[-1] == '\t');
         end--) {
    }
    *end = '\0';
    *ret_key = line + strspn(line, " \t");
    *ret_value = equal + 1 + strspn(equal + 1, " \t");
    (*ret_value)[strcspn(*ret_value, "\r\n")] = '\0';
    for (end = *ret_value + strlen(*ret_value);
         end > *ret_value && (end[-1] == ' ' || end[-1] == '\t'); end--) {
    }
    *end = '\0';
    return true;
}

/* Keys are in any case (site.py); "version_info" is what virtualenv and uv
 * write for "version". 0 or -errno. */
static int
read_config(const char *path, struct pyvenv_config *ret)
{
    char line[PATH_MAX + 64];
    FILE *in = fopen(path, "re");

    memset(ret, 0, sizeof(*ret));
    if (in == NULL) {
        return -errno;
    }
    while (fgets(line, sizeof(line), in) != NULL) {
        char *key, *value;

        if (!split_line(line, &key, &value)) {
            continue;
        }
        if (strcasecmp(key, "version") == 0 ||
            strcasecmp(key, "version_info") == 0) {
            snprintf(ret->version, sizeof(ret->version), "%s", value);
        } else if (strcasecmp(key, "home") == 0) {
            snprintf(ret->home, sizeof(ret->home), "%s", value);
        }
    }
    fclose(in);
    return 0;
}

/* The executable of major.minor in a folder, symbolic links followed. */
static bool
find_python(const char *dir, int major, int minor, char out[PATH_MAX])
{
    char name[3][32], path[PATH_MAX + 64];

    snprintf(name[0], sizeof(name[0]), "python%d.%d", major, minor);
    snprintf(name[1], sizeof(name[1]), "python%d", major);
    snprintf(name[2], sizeof(name[2]), "python");
    for (int i = 0; i < 3; i++) {
        snprintf(path, sizeof(path), "%.*s/%.31s", PATH_MAX - 1, dir, name[i]);
        if (realpath(path, out) != NULL) {
            return true;
        }
    }
    return false;
}

static int
check_version(const char *dir, const struct pyvenv_config *config, int major,
              int minor, char *why, size_t size)
{
    int has_major = -1, has_minor = -1;

    if (config->version[0] == '\0') {
        return 0;
    }
    if (sscanf(config->version, "%d.%d", &has_major, &has_minor) != 2 ||
        has_major != major || has_minor != minor) {
        snprintf(why, size,
                 "virtualenv %s is made for Python %s, this worker is Python "
                 "%d.%d; make the virtualenv anew, or use the worker of its "
                 "version",
                 dir, config->version, major, minor);
        return -1;
    }
    return 0;
}

/* dir holds the file of path, whose symbolic links were followed. */
static bool
is_in_folder(const char *dir, const char *path)
{
    char found[PATH_MAX], name[2 * PATH_MAX];
    const char *base = strrchr(path, '/');

    snprintf(name, sizeof(name), "%.*s%.*s", PATH_MAX - 1, dir, PATH_MAX - 1,
             base != NULL ? base : path);
    return realpath(name, found) != NULL && strcmp(found, path) == 0;
}

/* Its home holds the python that this program was built with. */
static int
check_home(const char *dir, const struct pyvenv_config *config, int major,
           int minor, const char *base, char *why, size_t size)
{
    char found[PATH_MAX], ours[PATH_MAX];

    if (config->home[0] == '\0') {
        snprintf(why, size,
                 "virtualenv %s: its pyvenv.cfg has no \"home\" line, so it is "
                 "none",
                 dir);
        return -1;
    }
    if (realpath(base, ours) == NULL) {
        snprintf(ours, sizeof(ours), "%s", base);
    }
    if (is_in_folder(config->home, ours)) {
        return 0;
    }
    if (!find_python(config->home, major, minor, found)) {
        snprintf(why, size,
                 "virtualenv %s was made from a Python in %s, which is not "
                 "there (any more); make it anew",
                 dir, config->home);
        return -1;
    }
    if (strcmp(found, ours) != 0) {
        snprintf(why, size,
                 "virtualenv %s was made from %s, this worker is built with "
                 "%s; make the virtualenv anew with \"%s -m venv\"",
                 dir, found, ours, ours);
        return -1;
    }
    return 0;
}

int
pyvenv_check(const char *dir, int major, int minor, const char *base,
             char *ret_python, size_t python_size, char *why, size_t size)
{
    char path[PATH_MAX], python[PATH_MAX];
    size_t len = strlen(dir);
    struct pyvenv_config config;
    struct stat st;
    int rc;

    while (len > 1 && dir[len - 1] == '/') {
        len--;
    }
    if (len > PATH_MAX - 32) {
        snprintf(why, size, "virtualenv: its path is too long");
        return -1;
    }
    snprintf(path, sizeof(path), "%.*s", (int)len, dir);
    if (stat(path, &st) != 0) {
        return cannot(dir, path, errno, why, size);
    }
    if (!S_ISDIR(st.st_mode)) {
        return cannot(dir, path, ENOTDIR, why, size);
    }
    snprintf(python, sizeof(python), "%.*s/bin/python", (int)len, dir);
    snprintf(path + len, sizeof(path) - len, "/pyvenv.cfg");
    rc = read_config(path, &config);
    if (rc == -ENOENT) {
        snprintf(why, size, "virtualenv %s: there is no %s, so it is none", dir,
                 path);
        return -1;
    }
    if (rc < 0) {
        return cannot(dir, path, -rc, why, size);
    }
    if (check_version(dir, &config, major, minor, why, size) < 0 ||
        check_home(dir, &config, major, minor, base, why, size) < 0) {
        return -1;
    }
    if (access(python, X_OK) != 0) {
        return cannot(dir, python, errno, why, size);
    }
    snprintf(ret_python, python_size, "%s", python);
    return 0;
}
