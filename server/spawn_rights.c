/* SPDX-License-Identifier: MIT
 *
 * See spawn_rights.h.
 */
#include "server/spawn_rights.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int
refuse_root(char letter, const char *name, char *why, size_t size)
{
    snprintf(why, size,
             "-%c: %.80s is root; leave the option out, or name who has fewer "
             "rights",
             letter, name);
    return -1;
}

static int
find_user(const struct spawn_options *o, struct privileges *ret, char *why,
          size_t size)
{
    if (privileges_lookup(o->user, o->group, ret, why, size) != 0) {
        return -1;
    }
    if (o->user != NULL && ret->uid == 0) {
        return refuse_root('u', o->user, why, size);
    }
    if (ret->change && ret->gid == 0) {
        return refuse_root(o->group != NULL ? 'g' : 'u',
                           o->group != NULL ? o->group : o->user, why, size);
    }
    if (o->user == NULL) {
        ret->group_count = 0; /* -g alone: none of root's others */
    }
    return 0;
}

/* spawn-fcgi(1): -U is as -u when it is not given; -G as the group of -U, and
 * without that as -g, which is that of -u. */
static int
find_socket(const struct spawn_options *o, struct spawn_rights *r, char *why,
            size_t size)
{
    struct privileges owner;

    if (o->socket_owner != NULL) {
        if (privileges_lookup(o->socket_owner, NULL, &owner, why, size) != 0) {
            return -1;
        }
        r->socket_uid = owner.uid;
        r->socket_gid = owner.gid;
    } else if (r->user.change) {
        r->socket_uid = o->user != NULL ? r->user.uid : (uid_t)-1;
        r->socket_gid = r->user.gid;
    }
    if (o->socket_group != NULL) {
        return privileges_gid(o->socket_group, &r->socket_gid, why, size);
    }
    return 0;
}

int
spawn_rights_find(const struct spawn_options *o, struct spawn_rights *ret,
                  char *why, size_t size)
{
    const char *unheard = o->user != NULL           ? "u"
                          : o->group != NULL        ? "g"
                          : o->socket_owner != NULL ? "U"
                          : o->socket_group != NULL ? "G"
                          : o->root != NULL         ? "c"
                                                    : "";

    *ret = (struct spawn_rights){ .root = geteuid() == 0,
                                  .socket_uid = (uid_t)-1,
                                  .socket_gid = (gid_t)-1 };
    if (!ret->root) {
        memcpy(ret->unheard, unheard, strlen(unheard) + 1);
        return 0;
    }
    return find_user(o, &ret->user, why, size) != 0
               ? -1
               : find_socket(o, ret, why, size);
}
