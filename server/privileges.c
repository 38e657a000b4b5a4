/* SPDX-License-Identifier: MIT
 *
 * Who a pool runs as. Lookups: manager, while it may still read the user
 * database. The drop: template, before it runs any Python; its caller ends the
 * process when it fails. Does not log.
 */
#include "server/privileges.h"

#include <errno.h>
#include <grp.h>
#include <limits.h>
#include <pwd.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A whole decimal number that fits an id; (uid_t)-1 means "unchanged" to the
 * system calls and is therefore no id. */
static bool
parse_id(const char *text, unsigned long *ret)
{
    unsigned long n;
    char *end;

    if (text[0] < '0' || text[0] > '9') {
        return false;
    }
    errno = 0;
    n = strtoul(text, &end, 10);
    if (errno != 0 || *end != '\0' || n >= UINT_MAX) {
        return false;
    }
    *ret = n;
    return true;
}

/* The entry of a name or number. 1 found, 0 none (a number then is in *ret_id),
 * -1 with a sentence. A name of digits counts before the number, as in
 * chown(1). */
static int
find_user(const char *user, struct passwd **ret, uid_t *ret_id, char *why,
          size_t size)
{
    unsigned long number = 0;
    struct passwd *pw;
    bool is_number = parse_id(user, &number);
    int error;

    errno = 0;
    pw = getpwnam(user);
    error = errno;
    if (pw == NULL && is_number) {
        errno = 0;
        pw = getpwuid((uid_t)number);
        error = errno;
    }
    if (pw != NULL) {
        *ret = pw;
        *ret_id = pw->pw_uid;
        return 1;
    }
    if (is_number) {
        *ret = NULL;
        *ret_id = (uid_t)number;
        return 0;
    }
    /* "Not there" comes as any of these (getpwnam(3), ERRORS). */
    if (error != 0 && error != ENOENT && error != ESRCH && error != EBADF &&
        error != EPERM) {
        snprintf(why, size, "the user \"%s\" cannot be looked up: %s", user,
                 strerror(error));
    } else {
        snprintf(why, size, "there is no user \"%s\" on this machine", user);
    }
    return -1;
}

int
privileges_uid(const char *user, uid_t *ret, char *why, size_t size)
{
    struct passwd *pw;

    return find_user(user, &pw, ret, why, size) < 0 ? -1 : 0;
}

int
privileges_gid(const char *group, gid_t *ret, char *why, size_t size)
{
    unsigned long number;
    struct group *gr;
    int error;

    errno = 0;
    gr = getgrnam(group);
    error = errno;
    if (gr != NULL) {
        *ret = gr->gr_gid;
        return 0;
    }
    if (parse_id(group, &number)) {
        *ret = (gid_t)number;
        return 0;
    }
    if (error != 0 && error != ENOENT && error != ESRCH && error != EBADF &&
        error != EPERM) {
        snprintf(why, size, "the group \"%s\" cannot be looked up: %s", group,
                 strerror(error));
    } else {
        snprintf(why, size, "there is no group \"%s\" on this machine", group);
    }
    return -1;
}

/* Name, home and groups of a user that is in the database. */
static int
fill_user(const struct passwd *pw, const char *group, struct privileges *p,
          char *why, size_t size)
{
    int count = PRIVILEGES_MAX_GROUPS;

    if (group == NULL) {
        p->gid = pw->pw_gid;
    }
    if (strlen(pw->pw_name) >= sizeof(p->user) ||
        strlen(pw->pw_dir) >= sizeof(p->home)) {
        snprintf(why, size,
                 "the name or the home folder of user %lu is too long "
                 "(%zu and %zu bytes are allowed)",
                 (unsigned long)pw->pw_uid, sizeof(p->user) - 1,
                 sizeof(p->home) - 1);
        return -1;
    }
    snprintf(p->user, sizeof(p->user), "%s", pw->pw_name);
    snprintf(p->home, sizeof(p->home), "%s",
             pw->pw_dir[0] != '\0' ? pw->pw_dir : "/");
    if (getgrouplist(p->user, p->gid, p->groups, &count) < 0) {
        snprintf(why, size,
                 "the user \"%s\" is in more than %d groups, which is more "
                 "than forebay can hand on",
                 p->user, (int)PRIVILEGES_MAX_GROUPS);
        return -1;
    }
    p->group_count = count;
    return 0;
}

/* Nobody but root can become somebody else: say so before anything starts. */
static int
check_may_change(struct privileges *p, char *why, size_t size)
{
    if (geteuid() == 0) {
        return 0;
    }
    if (p->uid == geteuid() && p->gid == getegid()) {
        p->change = 0;
        return 0;
    }
    snprintf(why, size,
             "forebay was started as user %lu, group %lu and cannot become "
             "user %lu, group %lu: only root can; start it as root or leave "
             "out the settings user and group",
             (unsigned long)geteuid(), (unsigned long)getegid(),
             (unsigned long)p->uid, (unsigned long)p->gid);
    return -1;
}

int
privileges_lookup(const char *user, const char *group, struct privileges *ret,
                  char *why, size_t size)
{
    struct privileges p = { .change = 1 };
    struct passwd *pw = NULL;
    char number[24];

    if (user == NULL && group == NULL) {
        p.change = 0;
        *ret = p;
        return 0;
    }
    if (user == NULL) {
        /* Another group for the user that we are. */
        snprintf(number, sizeof(number), "%lu", (unsigned long)geteuid());
        user = number;
    }
    if (group != NULL && privileges_gid(group, &p.gid, why, size) != 0) {
        return -1;
    }
    if (find_user(user, &pw, &p.uid, why, size) < 0) {
        return -1;
    }
    if (pw != NULL) {
        if (fill_user(pw, group, &p, why, size) != 0) {
            return -1;
        }
    } else {
        /* No entry: never the group that the manager happens to have, which
         * would be root's. */
        if (group == NULL) {
            p.gid = (gid_t)p.uid;
        }
        p.groups[0] = p.gid;
        p.group_count = 1;
        snprintf(p.user, sizeof(p.user), "%lu", (unsigned long)p.uid);
        snprintf(p.home, sizeof(p.home), "/");
    }
    if (check_may_change(&p, why, size) != 0) {
        return -1;
    }
    *ret = p;
    return 0;
}

static bool
has_group(const gid_t *groups, int count, gid_t gid)
{
    for (int i = 0; i < count; i++) {
        if (groups[i] == gid) {
            return true;
        }
    }
    return false;
}

/* The calls said yes; ask the kernel whether it is so. */
static int
check_took(const struct privileges *p, char *why, size_t size)
{
    gid_t groups[PRIVILEGES_MAX_GROUPS + 1];
    uid_t r, e, s;
    gid_t gr, ge, gs;
    int count;

    if (getresuid(&r, &e, &s) != 0 || getresgid(&gr, &ge, &gs) != 0 ||
        r != p->uid || e != p->uid || s != p->uid || gr != p->gid ||
        ge != p->gid || gs != p->gid) {
        snprintf(why, size,
                 "the change to user %s (%lu), group %lu did not take", p->user,
                 (unsigned long)p->uid, (unsigned long)p->gid);
        return -1;
    }
    count = getgroups(PRIVILEGES_MAX_GROUPS + 1, groups);
    for (int i = 0; i < count; i++) {
        if (!has_group(p->groups, p->group_count, groups[i])) {
            snprintf(why, size,
                     "group %lu, which user %s is not in, could not be given "
                     "up",
                     (unsigned long)groups[i], p->user);
            return -1;
        }
    }
    if (count < 0) {
        snprintf(why, size, "the groups cannot be read back: %s",
                 strerror(errno));
        return -1;
    }
    if (p->uid != 0 && (setuid(0) == 0 || seteuid(0) == 0)) {
        snprintf(why, size,
                 "user %s could still take root back, so nothing is run as it",
                 p->user);
        return -1;
    }
    return 0;
}

int
privileges_change(const struct privileges *p, char *why, size_t size)
{
    const char *what = NULL;

    if (!p->change) {
        return 0;
    }
    /* Groups first: without root's user id they can no longer be set. */
    if (setgroups((size_t)p->group_count, p->groups) != 0) {
        what = "setgroups";
    } else if (setresgid(p->gid, p->gid, p->gid) != 0) {
        what = "setresgid";
    } else if (setresuid(p->uid, p->uid, p->uid) != 0) {
        what = "setresuid";
    }
    if (what != NULL) {
        snprintf(why, size, "cannot become user %s (%lu), group %lu: %s: %s%s",
                 p->user, (unsigned long)p->uid, (unsigned long)p->gid, what,
                 strerror(errno),
                 errno == EAGAIN ? " (its limit of processes is reached)" : "");
        return -1;
    }
    return check_took(p, why, size);
}

int
privileges_drop(const struct privileges *p, char *why, size_t size)
{
    if (privileges_change(p, why, size) != 0) {
        return -1;
    }
    if (!p->change) {
        return 0;
    }
    if (setenv("HOME", p->home, 1) != 0 || setenv("USER", p->user, 1) != 0 ||
        setenv("LOGNAME", p->user, 1) != 0) {
        snprintf(why, size, "cannot set HOME, USER and LOGNAME: %s",
                 strerror(errno));
        return -1;
    }
    return 0;
}
