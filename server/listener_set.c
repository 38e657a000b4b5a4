/* SPDX-License-Identifier: MIT
 *
 * See listener_set.h.
 */
#include "server/listener_set.h"

#include <stdio.h>
#include <string.h>

#include "server/privileges.h"

int
listener_set_rights(const struct pool_settings *s, struct listener_options *o,
                    char *why, size_t size)
{
    uid_t uid = (uid_t)-1;
    gid_t gid = (gid_t)-1;

    if (s->socket_owner != NULL &&
        privileges_uid(s->socket_owner, &uid, why, size) != 0) {
        return -1;
    }
    if (s->socket_group != NULL &&
        privileges_gid(s->socket_group, &gid, why, size) != 0) {
        return -1;
    }
    *o = (struct listener_options){ .backlog = s->backlog,
                                    .mode = (unsigned)s->socket_mode,
                                    .owner = uid,
                                    .group = gid,
                                    .single = s->command != NULL };
    return 0;
}

int
listener_set_check(const struct pool_settings *s, char *why, size_t size)
{
    struct listener_options o;
    struct address a;

    for (unsigned i = 0; i < s->listen.count; i++) {
        if (address_parse(s->listen.item[i], &a, why, size) != 0) {
            return -1;
        }
    }
    return listener_set_rights(s, &o, why, size);
}

/* Take over what old has open under this spec. How many. A socket whose path
 * somebody has removed is made anew instead. */
static unsigned
share(struct listener_set *set, const struct listener_set *old,
      const char *spec)
{
    unsigned n = 0;

    for (unsigned i = 0; old != NULL && i < old->count; i++) {
        if (strcmp(old->spec[i], spec) == 0 &&
            set->count < EXECUTOR_MAX_LISTENERS &&
            !listener_is_lost(&old->item[i])) {
            memcpy(set->spec[set->count], old->spec[i],
                   sizeof(set->spec[set->count]));
            set->item[set->count++] = old->item[i];
            n++;
        }
    }
    return n;
}

static int
open_one(struct listener_set *set, const char *spec,
         const struct listener_options *o, char *why, size_t size)
{
    unsigned room = EXECUTOR_MAX_LISTENERS - set->count;
    struct address a;
    int n;

    if (address_parse(spec, &a, why, size) != 0) {
        return -1;
    }
    if (o->single && room > 1) {
        room = 1;
    }
    n = listener_open(&a, o, set->item + set->count, room, why, size);
    for (int i = 0; i < n; i++) {
        snprintf(set->spec[set->count++], sizeof(set->spec[0]), "%s", spec);
    }
    return n < 0 ? -1 : 0;
}

int
listener_set_open(struct listener_set *set, const struct pool_settings *s,
                  const struct listener_set *old, char *why, size_t size)
{
    struct listener_options o;

    set->count = 0;
    if (listener_set_rights(s, &o, why, size) != 0) {
        return -1;
    }
    for (unsigned i = 0; i < s->listen.count; i++) {
        const char *spec = s->listen.item[i];

        if (share(set, old, spec) == 0 &&
            open_one(set, spec, &o, why, size) != 0) {
            listener_set_close(set, old);
            return -1;
        }
    }
    return 0;
}

int
listener_set_inherit(struct listener_set *set, char *why, size_t size)
{
    set->count = 1;
    snprintf(set->spec[0], sizeof(set->spec[0]), "fd:0");
    return listener_inherit(0, &set->item[0], why, size);
}

static bool
has(const struct listener_set *set, int fd)
{
    for (unsigned i = 0; set != NULL && i < set->count; i++) {
        if (set->item[i].fd == fd) {
            return true;
        }
    }
    return false;
}

void
listener_set_close(struct listener_set *set, const struct listener_set *keep)
{
    for (unsigned i = 0; i < set->count; i++) {
        if (!has(keep, set->item[i].fd)) {
            listener_close(&set->item[i]);
        }
    }
    set->count = 0;
}

void
listener_set_part(struct listener_set *set, const struct listener_set *keep,
                  struct listener_set *parting)
{
    for (unsigned i = 0; i < set->count; i++) {
        struct listener *l = &set->item[i];

        if (!has(keep, l->fd) && parting->count < EXECUTOR_MAX_LISTENERS &&
            listener_is_own_tcp(l)) {
            parting->item[parting->count++] = *l;
            l->fd = -1; /* it has moved */
        }
    }
    listener_set_close(set, keep);
}

unsigned
listener_set_refuse(struct listener_set *parting, bool also_waiting)
{
    unsigned left = 0;

    for (unsigned i = 0; i < parting->count; i++) {
        if (!listener_refuse(&parting->item[i], also_waiting)) {
            parting->item[left++] = parting->item[i];
        }
    }
    parting->count = left;
    return left;
}

void
listener_set_disown(struct listener_set *set)
{
    for (unsigned i = 0; i < set->count; i++) {
        set->item[i].inherited = true;
        set->item[i].path[0] = '\0';
    }
}

char *
listener_set_format(const struct listener_set *set, char *out, size_t size)
{
    size_t used = 0;

    out[0] = '\0';
    for (unsigned i = 0; i < set->count && used < size - 1; i++) {
        used += (size_t)snprintf(out + used, size - used, "%s%s",
                                 i > 0 ? ", " : "", set->item[i].text);
    }
    return out;
}
