/* SPDX-License-Identifier: MIT
 *
 * Virtual environments and worker programs, by reading files. Manager and
 * tools. Starts nothing and does not log.
 */
#include "server/venv.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "server/own_program.h"

#ifndef FOREBAY_LIBEXECDIR
#define FOREBAY_LIBEXECDIR "/usr/local/libexec/forebay"
#endif
/* The same seen from the folder of the program: an installation may have been
 * put elsewhere than the build was told (cmake --install --prefix). */
#ifndef FOREBAY_LIBEXEC_BESIDE
#define FOREBAY_LIBEXEC_BESIDE "../libexec/forebay"
#endif

static const char worker_prefix[] = "forebay-worker-";

/* "3.11" at the start of text; *ret_end is behind it. */
static bool
parse_version(const char *text, struct python_version *ret,
              const char **ret_end)
{
    unsigned long major, minor;
    char *end;

    if (!isdigit((unsigned char)text[0])) {
        return false;
    }
    major = strtoul(text, &end, 10);
    if (*end != '.' || !isdigit((unsigned char)end[1])) {
        return false;
    }
    minor = strtoul(end + 1, &end, 10);
    if (major == 0 || major > 99 || minor > 999) {
        return false;
    }
    ret->major = (unsigned)major;
    ret->minor = (unsigned)minor;
    *ret_end = end;
    return true;
}

/* -- pyvenv.cfg --------------------------------------------------------------
 */

/* One line "key = value"; blanks around both do not matter. */
static bool
split_line(char *line, char **ret_key, char **ret_value)
{
    char *equals = strchr(line, '='), *end;

    if (equals == NULL) {
        return false;
    }
    for (end = equals; end > line && isspace((unsigned char)end[-1]);) {
        end--;
    }
    *end = '\0';
    while (isspace((unsigned char)*line)) {
        line++;
    }
    for (equals++; isspace((unsigned char)*equals);) {
        equals++;
    }
    end = equals + strlen(equals);
    while (end > equals && isspace((unsigned char)end[-1])) {
        end--;
    }
    *end = '\0';
    *ret_key = line;
    *ret_value = equals;
    return true;
}

/* venv writes "version", virtualenv and uv "version_info" as well. */
static void
read_config(FILE *f, struct venv *v)
{
    struct python_version version;
    char *line = NULL, *key, *value;
    const char *end;
    size_t cap = 0;

    while (getline(&line, &cap, f) > 0) {
        if (!split_line(line, &key, &value)) {
            continue;
        }
        if (strcasecmp(key, "home") == 0 && strlen(value) < sizeof(v->home)) {
            memcpy(v->home, value, strlen(value) + 1);
        } else if ((strcasecmp(key, "version") == 0 ||
                    strcasecmp(key, "version_info") == 0) &&
                   parse_version(value, &version, &end)) {
            v->version = version;
        }
    }
    free(line);
}

/* Cut path behind the first folder that this user may not pass: "permission
 * denied" alone does not say where. */
static void
cut_at_barrier(char *path)
{
    for (char *p = path + 1; *p != '\0'; p++) {
        if (*p == '/') {
            *p = '\0';
            if (faccessat(AT_FDCWD, path, X_OK, AT_EACCESS) != 0) {
                return;
            }
            *p = '/';
        }
    }
}

static int
fail_access(const char *path, int error, char *why, size_t size)
{
    char barrier[VENV_PATH_MAX + 32];

    snprintf(barrier, sizeof(barrier), "%s", path);
    if (error == EACCES) {
        cut_at_barrier(barrier);
    }
    snprintf(why, size, "virtualenv: %s cannot be read by user %lu: %s%s%s",
             path, (unsigned long)geteuid(), strerror(error),
             error == EACCES ? " at " : "", error == EACCES ? barrier : "");
    return -1;
}

/* Why there is no pyvenv.cfg: say what the folder is instead. */
static int
fail_no_config(const char *folder, char *why, size_t size)
{
    char path[VENV_PATH_MAX + 32];
    const char *what;

    snprintf(path, sizeof(path), "%s/conda-meta", folder);
    if (access(path, F_OK) == 0) {
        what = "it is a conda environment, a whole Python of its own";
    } else {
        snprintf(path, sizeof(path), "%s/bin/python", folder);
        what = access(path, F_OK) == 0
                   ? "it may be a whole Python installation instead"
                   : "it has no bin/python either";
    }
    snprintf(why, size,
             "virtualenv: %s is not a virtual environment: there is no "
             "pyvenv.cfg in it (%s)",
             folder, what);
    return -1;
}

static int
check_folder(const char *folder, char *why, size_t size)
{
    struct stat st;

    if (stat(folder, &st) != 0) {
        if (errno == ENOENT || errno == ENOTDIR) {
            snprintf(why, size, "virtualenv: there is no folder %s%s", folder,
                     folder[0] != '/'
                         ? " (from where forebay was started; better write "
                           "the whole path)"
                         : "");
            return -1;
        }
        return fail_access(folder, errno, why, size);
    }
    if (!S_ISDIR(st.st_mode)) {
        snprintf(why, size,
                 "virtualenv: %s is a file; give the folder of the virtual "
                 "environment (the one with pyvenv.cfg)",
                 folder);
        return -1;
    }
    return 0;
}

/* The Python behind it may have been removed by an upgrade of the system. */
static int
check_home(const struct venv *v, char *why, size_t size)
{
    struct stat st;

    if (v->home[0] == '\0' || stat(v->home, &st) == 0) {
        return 0;
    }
    if (errno == EACCES) {
        return fail_access(v->home, errno, why, size);
    }
    snprintf(
        why, size,
        "virtualenv: %s was made from the Python in %s, which is not there "
        "any more; make the virtual environment anew",
        v->folder, v->home);
    return -1;
}

int
venv_read(const char *folder, struct venv *ret, char *why, size_t size)
{
    struct venv v = { .folder = "" };
    char path[VENV_PATH_MAX + 16];
    size_t len = strlen(folder);
    FILE *f;

    while (len > 1 && folder[len - 1] == '/') {
        len--;
    }
    if (len == 0 || len >= sizeof(v.folder)) {
        snprintf(why, size, "virtualenv: the path is %s",
                 len == 0 ? "empty" : "too long");
        return -1;
    }
    memcpy(v.folder, folder, len);
    if (check_folder(v.folder, why, size) != 0) {
        return -1;
    }
    snprintf(path, sizeof(path), "%s/pyvenv.cfg", v.folder);
    f = fopen(path, "re");
    if (f == NULL) {
        return errno == ENOENT ? fail_no_config(v.folder, why, size)
                               : fail_access(path, errno, why, size);
    }
    read_config(f, &v);
    fclose(f);
    if (v.version.major == 0) {
        snprintf(why, size,
                 "virtualenv: %s has no line \"version = 3.x\", so its Python "
                 "version is not known; add the line, or make the virtual "
                 "environment anew",
                 path);
        return -1;
    }
    if (check_home(&v, why, size) != 0) {
        return -1;
    }
    *ret = v;
    return 0;
}

/* -- the setting python
 * -------------------------------------------------------- */

/* ".../python3.11" */
static bool
version_in_name(const char *path, struct python_version *ret)
{
    const char *name = strrchr(path, '/'), *end;

    name = name != NULL ? name + 1 : path;
    return strncmp(name, "python", 6) == 0 &&
           parse_version(name + 6, ret, &end) && *end == '\0';
}

/* PREFIX/bin/python belongs to PREFIX/lib/python3.11/os.py, when there is only
 * one such folder. */
static bool
version_in_library(const char *executable, struct python_version *ret)
{
    char lib[VENV_PATH_MAX + 16], file[VENV_PATH_MAX + 300];
    struct python_version version;
    unsigned found = 0;
    struct dirent *entry;
    const char *slash = strrchr(executable, '/');
    DIR *dir;

    if (slash == NULL) {
        return false;
    }
    snprintf(lib, sizeof(lib), "%.*s/../lib", (int)(slash - executable),
             executable);
    dir = opendir(lib);
    if (dir == NULL) {
        return false;
    }
    while ((entry = readdir(dir)) != NULL) {
        if (version_in_name(entry->d_name, &version)) {
            snprintf(file, sizeof(file), "%s/%s/os.py", lib, entry->d_name);
            if (access(file, F_OK) == 0) {
                *ret = version;
                found++;
            }
        }
    }
    closedir(dir);
    return found == 1;
}

/* .../venv/bin/python: the environment knows. */
static bool
version_in_venv(const char *executable, struct python_version *ret)
{
    char path[VENV_PATH_MAX], ignored[512];
    struct venv *v;
    char *slash;
    bool ok = false;

    snprintf(path, sizeof(path), "%s", executable);
    for (int up = 0; up < 2; up++) {
        slash = strrchr(path, '/');
        if (slash == NULL || slash == path) {
            return false;
        }
        *slash = '\0';
    }
    v = malloc(sizeof(*v));
    if (v != NULL && venv_read(path, v, ignored, sizeof(ignored)) == 0) {
        *ret = v->version;
        ok = true;
    }
    free(v);
    return ok;
}

int
venv_python_version(const char *python, struct python_version *ret, char *why,
                    size_t size)
{
    struct python_version version;
    char real[PATH_MAX];
    const char *end;

    if (strchr(python, '/') == NULL) {
        if (parse_version(python, &version, &end) && *end == '\0') {
            *ret = version;
            return 0;
        }
        snprintf(why, size,
                 "python: \"%s\" is neither a version such as 3.11 nor the "
                 "path of a python executable",
                 python);
        return -1;
    }
    if (strlen(python) >= VENV_PATH_MAX || realpath(python, real) == NULL ||
        access(python, X_OK) != 0) {
        snprintf(why, size, "python: %s cannot be run by user %lu: %s", python,
                 (unsigned long)geteuid(),
                 strlen(python) >= VENV_PATH_MAX ? "the path is too long"
                                                 : strerror(errno));
        return -1;
    }
    if (version_in_name(python, &version) || version_in_name(real, &version) ||
        version_in_venv(python, &version) ||
        version_in_library(real, &version)) {
        *ret = version;
        return 0;
    }
    snprintf(why, size,
             "python: nothing about %s tells its version; give the version "
             "itself, such as 3.11",
             python);
    return -1;
}

int
venv_wanted(const char *python, const char *virtualenv,
            struct python_version *ret, char *why, size_t size)
{
    struct python_version version = { 0, 0 };
    struct venv *v = NULL;
    int rc = -1;

    if (python != NULL &&
        venv_python_version(python, &version, why, size) != 0) {
        return -1;
    }
    if (virtualenv != NULL) {
        v = malloc(sizeof(*v));
        if (v == NULL) {
            snprintf(why, size, "out of memory");
            return -1;
        }
        if (venv_read(virtualenv, v, why, size) != 0) {
            goto out;
        }
        if (python != NULL && (v->version.major != version.major ||
                               v->version.minor != version.minor)) {
            snprintf(why, size,
                     "python is %u.%u, but the virtual environment %s was made "
                     "for %u.%u: they must be the same; leave out one of the "
                     "settings python and virtualenv",
                     version.major, version.minor, v->folder, v->version.major,
                     v->version.minor);
            goto out;
        }
        version = v->version;
    }
    *ret = version;
    rc = 0;
out:
    free(v);
    return rc;
}

/* -- worker programs
 * ------------------------------------------------------------ */

static int
compare_versions(const struct python_version *a, const struct python_version *b)
{
    if (a->major != b->major) {
        return a->major < b->major ? -1 : 1;
    }
    return a->minor < b->minor ? -1 : a->minor > b->minor;
}

static int
newest_first(const void *a, const void *b)
{
    const struct venv_worker *x = a, *y = b;

    return compare_versions(&y->version, &x->version);
}

static bool
is_listed(const struct venv_worker *list, unsigned count,
          const struct python_version *version)
{
    for (unsigned i = 0; i < count; i++) {
        if (compare_versions(&list[i].version, version) == 0) {
            return true;
        }
    }
    return false;
}

/* Add what one folder has and the list has not. */
static unsigned
list_folder(const char *folder, struct venv_worker *list, unsigned count,
            unsigned max)
{
    struct python_version version;
    char path[VENV_PATH_MAX];
    struct dirent *entry;
    const char *end;
    DIR *dir = opendir(folder);

    if (dir == NULL) {
        return count;
    }
    while (count < max && (entry = readdir(dir)) != NULL) {
        size_t prefix = sizeof(worker_prefix) - 1;

        if (strncmp(entry->d_name, worker_prefix, prefix) != 0 ||
            !parse_version(entry->d_name + prefix, &version, &end) ||
            *end != '\0' || is_listed(list, count, &version) ||
            snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name) >=
                (int)sizeof(path) ||
            access(path, X_OK) != 0) {
            continue;
        }
        list[count].version = version;
        memcpy(list[count].path, path, strlen(path) + 1);
        count++;
    }
    closedir(dir);
    return count;
}

/* Folder of the running program, "" when it cannot be found out. */
static void
own_folder(char *out, size_t size)
{
    char *slash = strrchr(own_program(out, size), '/');

    if (slash != NULL) {
        slash[slash == out] = '\0';
    }
}

unsigned
venv_list_workers(struct venv_worker *ret, unsigned max)
{
    char folder[VENV_PATH_MAX];
    unsigned count = 0;

    own_folder(folder, sizeof(folder));
    if (folder[0] != '\0') {
        size_t len = strlen(folder);

        count = list_folder(folder, ret, count, max);
        snprintf(folder + len, sizeof(folder) - len, "/%s",
                 FOREBAY_LIBEXEC_BESIDE);
        count = list_folder(folder, ret, count, max);
    }
    count = list_folder(FOREBAY_LIBEXECDIR, ret, count, max);
    qsort(ret, count, sizeof(*ret), newest_first);
    return count;
}

static const struct venv_worker *
choose_worker(const struct venv_worker *list, unsigned count,
              const struct python_version *wanted)
{
    struct python_version version = *wanted;

#ifdef FOREBAY_PYTHON_DEFAULT
    if (version.major == 0) {
        const char *end;

        parse_version(FOREBAY_PYTHON_DEFAULT, &version, &end);
    }
#endif
    for (unsigned i = 0; i < count; i++) {
        if (compare_versions(&list[i].version, &version) == 0) {
            return &list[i];
        }
    }
    return wanted->major == 0 && count > 0 ? &list[0] : NULL;
}

static void
say_missing(const struct venv_worker *list, unsigned count,
            const struct python_version *wanted, char *why, size_t size)
{
    char installed[256] = "", folder[512];
    size_t used = 0;

    for (unsigned i = 0; i < count && used < sizeof(installed); i++) {
        used += (size_t)snprintf(installed + used, sizeof(installed) - used,
                                 "%s%u.%u", i > 0 ? ", " : "",
                                 list[i].version.major, list[i].version.minor);
    }
    own_folder(folder, sizeof(folder));
    if (count == 0) {
        snprintf(why, size,
                 "no worker program is installed: there is no %s3.x in %s "
                 "or in %s%s",
                 worker_prefix,
                 folder[0] != '\0' ? folder : "the folder of forebay",
                 FOREBAY_LIBEXECDIR,
                 access("/proc/self/exe", F_OK) != 0
                     ? " (/proc is not mounted here: start forebay by its full "
                       "path, or mount it)"
                     : "");
    } else {
        snprintf(why, size,
                 "Python %u.%u is wanted, but there is no worker program for "
                 "it (%s%u.%u); installed are those for %s",
                 wanted->major, wanted->minor, worker_prefix, wanted->major,
                 wanted->minor, installed);
    }
}

int
venv_find_worker(const struct python_version *wanted, char *ret_path,
                 size_t path_size, char *why, size_t size)
{
    const struct venv_worker *chosen;
    struct venv_worker *list;
    unsigned count;
    int rc = -1;

    list = malloc(VENV_MAX_WORKERS * sizeof(*list));
    if (list == NULL) {
        snprintf(why, size, "out of memory");
        return -1;
    }
    count = venv_list_workers(list, VENV_MAX_WORKERS);
    chosen = choose_worker(list, count, wanted);
    if (chosen == NULL) {
        say_missing(list, count, wanted, why, size);
    } else if (strlen(chosen->path) >= path_size) {
        snprintf(why, size, "the path of the worker program %s is too long",
                 chosen->path);
    } else {
        memcpy(ret_path, chosen->path, strlen(chosen->path) + 1);
        rc = 0;
    }
    free(list);
    return rc;
}
