/* SPDX-License-Identifier: MIT
 *
 * All listening sockets of a pool, as its settings name them. A reload makes a
 * second set beside the first: addresses that stay are shared between the two,
 * so that no connection is refused meanwhile. Manager only.
 */
#ifndef FOREBAY_SERVER_LISTENER_SET_H
#define FOREBAY_SERVER_LISTENER_SET_H

#include "conf/settings.h"
#include "server/executor_limits.h"
#include "server/listener.h"

struct listener_set {
    struct listener item[EXECUTOR_MAX_LISTENERS];
    char spec[EXECUTOR_MAX_LISTENERS][256]; /* the setting that opened it */
    unsigned count;
};

/* Backlog, mode, owner and group as the settings have them. 0, or -1 with a
 * sentence. */
int listener_set_rights(const struct pool_settings *s,
                        struct listener_options *o, char *why, size_t size);

/* Can these settings be meant at all: are the addresses well-formed, do the
 * owner and the group exist? Opens nothing. 0, or -1 with a sentence. */
int listener_set_check(const struct pool_settings *s, char *why, size_t size);

/* Open what s->listen names; what old (or NULL) has open under the same setting
 * is taken from there and not opened again, unless its path is gone. 0, or -1
 * with a sentence; then nothing new is open. */
int listener_set_open(struct listener_set *set, const struct pool_settings *s,
                      const struct listener_set *old, char *why, size_t size);

/* Only descriptor 0, inherited from whoever started us. 0 or -1. */
int listener_set_inherit(struct listener_set *set, char *why, size_t size);

/* Leave the paths alone: somebody else listens on these sockets now. */
void listener_set_disown(struct listener_set *set);

/* Close those of set that keep (or NULL) has not. */
void listener_set_close(struct listener_set *set,
                        const struct listener_set *keep);

/* The same, but own TCP sockets go to *parting: busy workers still have them
 * open, and the kernel would say "connected" to clients that nobody serves. */
void listener_set_part(struct listener_set *set,
                       const struct listener_set *keep,
                       struct listener_set *parting);
/* Refuse connections on those where nobody waits any more, or on all of them,
 * and close them. Returns how many are left. */
unsigned listener_set_refuse(struct listener_set *parting, bool also_waiting);

/* "unix:/run/a.sock, 127.0.0.1:9000". Returns out. */
char *listener_set_format(const struct listener_set *set, char *out,
                          size_t size);

#endif
