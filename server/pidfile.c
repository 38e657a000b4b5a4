/* SPDX-License-Identifier: MIT
 *
 * See pidfile.h. Written beside its place and renamed to it, so that it is
 * never seen empty, and a link that somebody put there is replaced and not
 * followed.
 */
#include "server/pidfile.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The folder of path, with its last slash; owned by the caller, NULL out of
 * memory. */
static char *
folder_of(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash != NULL ? strndup(path, (size_t)(slash - path) + 1)
                         : strdup("./");
}

int
pidfile_check(const char *path, char *why, size_t size)
{
    char *folder = folder_of(path);
    struct stat st;
    int rc = 0;

    if (folder == NULL) {
        snprintf(why, size, "out of memory");
        return -1;
    }
    if (access(folder, W_OK | X_OK) != 0) {
        snprintf(why, size, "no file can be made in %.300s: %s", folder,
                 strerror(errno));
        rc = -1;
    } else if (lstat(path, &st) == 0 && !S_ISREG(st.st_mode) &&
               !S_ISLNK(st.st_mode)) {
        snprintf(why, size, "%.300s exists and is no file", path);
        rc = -1;
    }
    free(folder);
    return rc;
}

/* All of it, or -1 with errno. */
static int
fill(int fd)
{
    char text[32];
    int len = snprintf(text, sizeof(text), "%ld\n", (long)getpid());
    ssize_t n = write(fd, text, (size_t)len);

    if (n != len) {
        errno = n < 0 ? errno : ENOSPC;
        return -1;
    }
    return fchmod(fd, 0644);
}

int
pidfile_write(const char *path, char *why, size_t size)
{
    char *temporary = NULL;
    int fd = -1, rc = -1;

    if (asprintf(&temporary, "%s.XXXXXX", path) < 0) {
        snprintf(why, size, "out of memory");
        return -1;
    }
    fd = mkostemp(temporary, O_CLOEXEC);
    if (fd >= 0) {
        rc = fill(fd);
        if (rc == 0) {
            rc = rename(temporary, path);
        }
        if (rc != 0) {
            int saved = errno;

            unlink(temporary);
            errno = saved;
        }
    }
    if (rc != 0) {
        snprintf(why, size, "%.300s cannot be written: %s", path,
                 strerror(errno));
    }
    if (fd >= 0) {
        close(fd);
    }
    free(temporary);
    return rc;
}

/* Is its content the number of this process? */
static bool
is_ours(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    char text[32], ours[32];
    ssize_t n;

    if (fd < 0) {
        return false;
    }
    n = read(fd, text, sizeof(text) - 1);
    close(fd);
    if (n <= 0) {
        return false;
    }
    text[n] = '\0';
    snprintf(ours, sizeof(ours), "%ld\n", (long)getpid());
    return strcmp(text, ours) == 0;
}

void
pidfile_remove(const char *path)
{
    if (is_ours(path)) {
        unlink(path);
    }
}
