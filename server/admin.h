/* SPDX-License-Identifier: MIT
 *
 * The manager's own sockets, for whoever administers it: `control` and
 * `status_listen`. Opens them, or takes them over from the manager before
 * (upgrade.h), and gives them back.
 *
 * Manager only, on its loop.
 */
#ifndef FOREBAY_SERVER_ADMIN_H
#define FOREBAY_SERVER_ADMIN_H

#include <stddef.h>
#include <uv.h>

#include "conf/config.h"
#include "server/control.h"
#include "server/listener_set.h"
#include "server/status_server.h"

struct clients;

struct admin {
    struct clients *control; /* NULL: none */
    struct clients *status;
    struct status_source source;
    struct listener_set listeners; /* theirs: to be passed on */
};

/* Are the addresses of control and status_listen well-formed? 0, or -1 with a
 * sentence. */
int admin_check(const struct manager_settings *s, char *why, size_t size);

/* Open what s asks for (control and status_listen). h is borrowed; pool, the
 * first one's settings, says who may use a unix socket of status_listen. 0, or
 * -1 with a sentence in why; admin_close() is due in either case. */
int admin_open(struct admin *a, uv_loop_t *loop,
               const struct manager_settings *s,
               const struct pool_settings *pool,
               const struct control_handlers *h, char *why, size_t size);

/* A new manager has the sockets: accept nothing more, leave their paths. Who is
 * connected stays. */
void admin_hand_over(struct admin *a);

/* Close everything; whoever waits for an answer is cut off. */
void admin_close(struct admin *a);

#endif
