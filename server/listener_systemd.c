/* SPDX-License-Identifier: MIT
 *
 * Sockets that a service manager opened and passed (sd_listen_fds(3)). Manager
 * only.
 */
#include "server/listener_kinds.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    SYSTEMD_FIRST_FD = 3, /* SD_LISTEN_FDS_START */
    SYSTEMD_MAX = 4096,
};

/* How many sockets the service manager passed to this very process, 0 none. */
static int
systemd_count(void)
{
    const char *pid = getenv("LISTEN_PID"), *fds = getenv("LISTEN_FDS");
    char *end;
    long n;

    if (pid == NULL || fds == NULL || strtol(pid, &end, 10) != getpid() ||
        *end != '\0') {
        return 0;
    }
    n = strtol(fds, &end, 10);
    return *end == '\0' && n > 0 && n <= SYSTEMD_MAX ? (int)n : 0;
}

/* Is the name of the index'th passed socket this one? (sd_listen_fds(3)) */
static bool
systemd_name_is(int index, const char *name)
{
    const char *names = getenv("LISTEN_FDNAMES");
    size_t len;

    if (names == NULL) {
        return strcmp(name, "unknown") == 0;
    }
    while (index-- > 0) {
        names = strchr(names, ':');
        if (names == NULL) {
            return false;
        }
        names++;
    }
    len = strcspn(names, ":");
    return strlen(name) == len && memcmp(names, name, len) == 0;
}

int
listener_open_systemd(const struct address *a, struct listener *ret,
                      unsigned max, char *why, size_t size)
{
    static bool taken[SYSTEMD_MAX];
    int passed = systemd_count();
    unsigned opened = 0;

    if (passed == 0) {
        snprintf(why, size,
                 "%s: no sockets were passed to this process (LISTEN_FDS and "
                 "LISTEN_PID); start it from a systemd socket unit",
                 a->text);
        return -1;
    }
    for (int i = 0; i < passed; i++) {
        if (a->name[0] != '\0' ? !systemd_name_is(i, a->name) : taken[i]) {
            continue;
        }
        if (opened == max) {
            snprintf(why, size,
                     "%s: more sockets were passed than the %u that "
                     "are left room for",
                     a->text, max);
            goto fail;
        }
        if (listener_inherit(SYSTEMD_FIRST_FD + i, &ret[opened], why, size) !=
            0) {
            goto fail;
        }
        opened++;
        taken[i] = true;
    }
    if (opened > 0) {
        return (int)opened;
    }
    if (a->name[0] == '\0') {
        snprintf(why, size,
                 "%s: all %d sockets that were passed are taken by others",
                 a->text, passed);
        return -1;
    }
    snprintf(why, size,
             "%s: none of the %d sockets that were passed has this name "
             "(FileDescriptorName= in the socket unit; LISTEN_FDNAMES is "
             "\"%s\")",
             a->text, passed,
             getenv("LISTEN_FDNAMES") ? getenv("LISTEN_FDNAMES") : "");
fail:
    while (opened > 0) {
        opened--;
        taken[ret[opened].fd - SYSTEMD_FIRST_FD] = false;
        listener_close(&ret[opened]);
    }
    return -1;
}
