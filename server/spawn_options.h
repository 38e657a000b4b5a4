/* SPDX-License-Identifier: MIT
 *
 * The command line of `forebay spawn`, which is that of spawn-fcgi(1) and, for
 * --supervise, settings of a pool behind two dashes. Only reads it: nothing is
 * looked up or opened. Tools; never logs.
 */
#ifndef FOREBAY_SERVER_SPAWN_OPTIONS_H
#define FOREBAY_SERVER_SPAWN_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>

/* Strings belong to argv. NULL, or -1 for a number: not given. */
struct spawn_options {
    char **program;    /* and its arguments, NULL behind them; owned; or NULL */
    const char *shell; /* -f: a line for /bin/sh; counts without program */
    const char *folder;       /* -d */
    const char *address;      /* -a, a numeric one */
    int port;                 /* -p, from 1 */
    const char *path;         /* -s */
    int mode;                 /* -M; -1: 0660 without the umask's bits */
    int backlog;              /* -b; 1024 */
    int php_children;         /* -C */
    int children;             /* -F; 1 */
    const char *pidfile;      /* -P */
    bool stay;                /* -n: become the program, or the manager */
    const char *root;         /* -c */
    bool socket_first;        /* -S: before the root changes */
    const char *user, *group; /* -u, -g */
    const char *socket_owner, *socket_group; /* -U, -G */

    bool supervise; /* --supervise */
    char **more;    /* settings_parse_args() of what stood behind two dashes,
                       more[0] is argv[0]; owned, and so are its items but the
                       first */
    int more_count;

    bool help, version;
};

enum spawn_read {
    SPAWN_READ,
    SPAWN_UNKNOWN, /* an option that there is not, or one without its value */
    SPAWN_BAD,     /* any other mistake */
};

/* argv[0] is skipped. Whatever is returned, spawn_options_release() is due; but
 * for SPAWN_READ a sentence is in why. */
enum spawn_read spawn_options_read(int argc, char **argv,
                                   struct spawn_options *ret, char *why,
                                   size_t size);
void spawn_options_release(struct spawn_options *o);

#endif
