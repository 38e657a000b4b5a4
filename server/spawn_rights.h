/* SPDX-License-Identifier: MIT
 *
 * Whose rights a program of `forebay spawn` gets, and whose its socket is:
 * names looked up, before the root folder changes. Tools; never logs.
 */
#ifndef FOREBAY_SERVER_SPAWN_RIGHTS_H
#define FOREBAY_SERVER_SPAWN_RIGHTS_H

#include <stdbool.h>

#include "server/privileges.h"
#include "server/spawn_options.h"

struct spawn_rights {
    bool root;              /* may change all of this */
    struct privileges user; /* of the program */
    uid_t socket_uid;       /* (uid_t)-1: unchanged */
    gid_t socket_gid;
    char unheard[2]; /* the first option that takes root, when it is not; "" */
};

/* From -u, -g, -U and -G. 0, or -1 with a sentence. */
int spawn_rights_find(const struct spawn_options *o, struct spawn_rights *ret,
                      char *why, size_t size);

#endif
