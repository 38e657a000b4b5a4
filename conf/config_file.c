/* SPDX-License-Identifier: MIT
 *
 * Reading a configuration file and the files that it includes. What stands in
 * them is config_lines.c. Any process. Never logs: an error has file, line and
 * a sentence.
 */
#include "conf/reader.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    FILE_MAX = 4 * 1024 * 1024, /* bytes; more is no configuration */
    DEPTH_MAX = 8,              /* files that include each other */
};

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

/* Read what s is filled for; the text is changed. */
static int
read_source(struct reader *r, struct source *s, char *text, size_t len)
{
    int rc;

    r->source = s;
    rc = config_parse(r, text, len);
    if (rc == 0 && s->from == NULL && r->c->pools == 0) {
        rc = reader_fail(r, "there is no [pool NAME] section: nothing would be "
                            "served");
    }
    r->source = s->from;
    return rc;
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
        return reader_fail(r, "files include each other more than %d deep",
                           (int)DEPTH_MAX);
    }
    text = load(path, &st, &len);
    if (text == NULL) {
        if (s.from != NULL) {
            return reader_fail(r, "%s cannot be read: %s", path,
                               load_problem(errno));
        }
        conf_fail(r->err, "the configuration cannot be read: %s",
                  load_problem(errno));
        return reader_locate(r, &whole);
    }
    s.dev = st.st_dev;
    s.ino = st.st_ino;
    for (const struct source *o = s.from; o != NULL; o = o->from) {
        if (o->dev == s.dev && o->ino == s.ino) {
            free(text);
            return reader_fail(r, "%s includes itself by this", path);
        }
    }
    s.here.file = reader_keep_name(r, path);
    if (s.here.file == NULL) {
        free(text);
        conf_fail(r->err, "out of memory");
        return reader_locate(r, &whole);
    }
    rc = read_source(r, &s, text, len);
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

int
config_include(struct reader *r, const char *item)
{
    bool pattern = strpbrk(item, "*?[") != NULL;
    glob_t found = { 0 };
    char *path;
    int rc;

    if (!r->may_include) {
        return reader_fail(r, "nothing can be included here");
    }
    path = beside(r, item, pattern);
    if (path == NULL) {
        return reader_fail(r, "out of memory");
    }
    if (!pattern) {
        rc = read_file(r, path);
        free(path);
        return rc;
    }
    rc = glob(path, 0, on_glob_error, &found);
    free(path);
    if (rc == GLOB_NOSPACE || rc == GLOB_ABORTED) {
        rc = reader_fail(r, "include %s: %s", item,
                         rc == GLOB_NOSPACE ? "out of memory"
                                            : strerror(glob_errno));
    } else {
        rc = 0; /* a folder may be empty */
    }
    for (size_t i = 0; rc == 0 && i < found.gl_pathc; i++) {
        rc = read_file(r, found.gl_pathv[i]);
    }
    globfree(&found);
    return rc;
}

/* -- the whole -------------------------------------------------------------
 */

static int
end_reader(struct reader *r, int rc)
{
    if (rc == 0) {
        rc = reader_finish(r);
    }
    reader_release(r);
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
    rc = reader_start(&r);
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
    rc = reader_start(&r);
    if (rc == 0 && copy == NULL) {
        rc = conf_fail(err, "out of memory");
    } else if (rc == 0) {
        memcpy(copy, text, len);
        copy[len] = '\0';
        rc = read_source(&r, &s, copy, len);
    }
    free(copy);
    return end_reader(&r, rc);
}
