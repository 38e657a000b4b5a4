/* SPDX-License-Identifier: MIT
 *
 * Users, groups and umask of a pool: looked up in the manager, taken in the
 * template before it runs any Python.
 */
#ifndef FOREBAY_SERVER_PRIVILEGES_H
#define FOREBAY_SERVER_PRIVILEGES_H

#include <stddef.h>
#include <sys/types.h>

enum { PRIVILEGES_MAX_GROUPS = 256 };

struct privileges {
    int change; /* 0: stay who we are */
    uid_t uid;
    gid_t gid;
    gid_t groups[PRIVILEGES_MAX_GROUPS]; /* all of the user's, or only gid */
    int group_count;
    char user[64];
    char home[256];
};

/* Look up names or numbers (a number needs no passwd entry: then its groups are
 * gid alone). user NULL: no change. 0, or -1 with a sentence. */
int privileges_lookup(const char *user, const char *group,
                      struct privileges *ret, char *why, size_t size);

/* A user or group name or number for socket_owner and socket_group. */
int privileges_uid(const char *user, uid_t *ret, char *why, size_t size);
int privileges_gid(const char *group, gid_t *ret, char *why, size_t size);

/* setgroups, setresgid, setresuid, and check that all three took and that root
 * cannot be taken back. Any failure is an error; the caller must end. */
int privileges_change(const struct privileges *p, char *why, size_t size);

/* The same, and set HOME, USER and LOGNAME of the process. */
int privileges_drop(const struct privileges *p, char *why, size_t size);

#endif
