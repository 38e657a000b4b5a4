/* SPDX-License-Identifier: MIT
 *
 * See admin.h.
 */
#include "server/admin.h"

#include <stdio.h>
#include <string.h>

#include "server/clients.h"
#include "server/upgrade.h"

/* One of a name and an address: what the manager before has passed, else a new
 * one. How many, or -1 with a sentence; they are in a->listeners as well. */
static int
open_sockets(struct admin *a, const char *name, const char *text,
             const struct listener_options *rights, struct listener *ret,
             char *why, size_t size)
{
    const struct listener_set *passed = upgrade_listeners();
    struct listener_set *set = &a->listeners;
    struct address address;
    char spec[sizeof(set->spec[0])];
    int n = 0;

    snprintf(spec, sizeof(spec), "%s %s", name, text);
    for (unsigned i = 0; i < passed->count; i++) {
        if (strcmp(passed->spec[i], spec) == 0) {
            ret[n++] = passed->item[i];
        }
    }
    if (n == 0) {
        if (address_parse(text, &address, why, size) != 0) {
            return -1;
        }
        n = listener_open(&address, rights, ret, EXECUTOR_MAX_LISTENERS, why,
                          size);
    }
    for (int i = 0; i < n && set->count < EXECUTOR_MAX_LISTENERS; i++) {
        memcpy(set->spec[set->count], spec, sizeof(spec));
        set->item[set->count++] = ret[i];
    }
    return n;
}

static int
open_control(struct admin *a, uv_loop_t *loop, const char *path,
             const struct control_handlers *h, char *why, size_t size)
{
    struct listener l[EXECUTOR_MAX_LISTENERS];
    int n;

    n = open_sockets(a, "control", path, &control_rights, l, why, size);
    if (n < 0) {
        return -1;
    }
    a->control = control_open(loop, l, (unsigned)n, h);
    return a->control != NULL ? 0 : -1;
}

static int
open_status(struct admin *a, uv_loop_t *loop, const char *text,
            const struct pool_settings *pool, char *why, size_t size)
{
    struct listener l[EXECUTOR_MAX_LISTENERS];
    struct listener_options rights;
    int n;

    /* Who reaches the first pool reaches the status. */
    if (listener_set_rights(pool, &rights, why, size) != 0) {
        return -1;
    }
    n = open_sockets(a, "status_listen", text, &rights, l, why, size);
    if (n < 0) {
        return -1;
    }
    a->status = status_server_open(loop, l, (unsigned)n, &a->source);
    return a->status != NULL ? 0 : -1;
}

static int
check_address(const char *name, const char *text, bool unix_only, char *why,
              size_t size)
{
    struct address a;
    char wrong[700];

    if (text == NULL) {
        return 0;
    }
    if (address_parse(text, &a, wrong, sizeof(wrong)) != 0) {
        snprintf(why, size, "%s: %s", name, wrong);
        return -1;
    }
    if (unix_only && a.kind != ADDRESS_UNIX) {
        snprintf(why, size, "%s: %s is no path of a unix socket", name, text);
        return -1;
    }
    return 0;
}

int
admin_check(const struct manager_settings *s, char *why, size_t size)
{
    return check_address("control", s->control, true, why, size) != 0
               ? -1
               : check_address("status_listen", s->status_listen, false, why,
                               size);
}

int
admin_open(struct admin *a, uv_loop_t *loop, const struct manager_settings *s,
           const struct pool_settings *pool, const struct control_handlers *h,
           char *why, size_t size)
{
    char text[900] = "out of memory";

    memset(a, 0, sizeof(*a));
    a->source = (struct status_source){ .ctx = h->ctx, .write = h->status };
    if (s->control != NULL &&
        open_control(a, loop, s->control, h, text, sizeof(text)) != 0) {
        snprintf(why, size, "control: %s", text);
        return -1;
    }
    if (s->status_listen != NULL &&
        open_status(a, loop, s->status_listen, pool, text, sizeof(text)) != 0) {
        snprintf(why, size, "status_listen: %s", text);
        return -1;
    }
    return 0;
}

void
admin_hand_over(struct admin *a)
{
    clients_hand_over(a->control);
    clients_hand_over(a->status);
}

void
admin_close(struct admin *a)
{
    clients_close(a->control);
    clients_close(a->status);
    a->control = a->status = NULL;
    a->listeners.count = 0;
}
