/* SPDX-License-Identifier: MIT
 *
 * See memory.h; proc(5).
 */
#include "server/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The beginning of a file of a process, terminated. 0 or -errno. */
static int
read_file(int pid, const char *name, char *out, size_t size)
{
    char path[64];
    ssize_t n;
    int fd, rc;

    snprintf(path, sizeof(path), "/proc/%d/%s", pid, name);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return -errno;
    }
    n = read(fd, out, size - 1);
    rc = n < 0 ? -errno : 0;
    close(fd);
    out[n > 0 ? n : 0] = '\0';
    return rc;
}

/* "Rss:    1234 kB" */
static uint64_t
kilobytes(const char *text, const char *name)
{
    const char *at = strstr(text, name);

    return at != NULL ? strtoull(at + strlen(name), NULL, 10) * 1024 : 0;
}

int
memory_read(int pid, struct memory_use *ret)
{
    unsigned long long pages = 0;
    char text[2048];
    int rc;

    *ret = (struct memory_use){ 0, 0 };
    if (read_file(pid, "smaps_rollup", text, sizeof(text)) == 0) {
        ret->rss = kilobytes(text, "\nRss:");
        ret->pss = kilobytes(text, "\nPss:");
        return 0;
    }
    rc = read_file(pid, "statm", text, sizeof(text));
    if (rc == 0 && sscanf(text, "%*u %llu", &pages) == 1) {
        ret->rss = pages * (uint64_t)sysconf(_SC_PAGESIZE);
    }
    return rc;
}
