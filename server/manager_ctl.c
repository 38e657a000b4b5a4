/* SPDX-License-Identifier: MIT
 *
 * What the manager does for `forebay ctl` and for those who ask for its status.
 * Manager only, on its loop.
 */
#include "server/manager_state.h"

#include <stdio.h>
#include <stdlib.h>

#include "server/log.h"
#include "server/log_sink.h"
#include "server/status.h"

static int
ctl_status(void *ctx, enum status_format format, struct buf *out)
{
    struct manager *m = ctx;
    const struct status_manager self = {
        .started_ms = m->started_ms,
        .started_at = m->started_at,
        .stopping = m->stopping,
        .reload_failure =
            m->reload_failure[0] != '\0' ? m->reload_failure : NULL,
        .reload_failed_ms = m->reload_failed_ms,
    };

    return status_write(m->pools, &self, format, out);
}

static void
ctl_reload(void *ctx, const char *pool, control_done done, void *who)
{
    manager_reload(ctx, pool, done, who);
}

static void
ctl_stop(void *ctx)
{
    manager_stop(ctx, MANAGER_EXIT_OK, "forebay ctl stop");
}

struct draining {
    control_done done;
    void *who;
};

static void
on_drained(struct pool *p, const char *why, void *ctx)
{
    struct draining *d = ctx;
    (void)p;

    d->done(why, d->who);
    free(d);
}

static void
ctl_drain(void *ctx, const char *pool, uint64_t timeout_ms, control_done done,
          void *who)
{
    struct pool *p;
    struct draining *d;
    char why[256];

    if (pool == NULL) {
        manager_drain(ctx, timeout_ms);
        return;
    }
    p = manager_find_pool(ctx, pool);
    d = malloc(sizeof(*d));
    if (p == NULL || d == NULL) {
        snprintf(why, sizeof(why), "there is no pool %s", pool);
        done(p != NULL ? "out of memory" : why, who);
        free(d);
        return;
    }
    *d = (struct draining){ done, who };
    log_info("pool %s: draining: no new connections; its end comes with the "
             "last request%s",
             pool, timeout_ms > 0 ? ", or when the time is up" : "");
    pool_when_gone(p, on_drained, d);
    pool_drain(p, timeout_ms);
}

static void
ctl_log_reopen(void *ctx, control_done done, void *who)
{
    (void)ctx;
    log_sink_reopen(done, who);
}

static int
ctl_scale(void *ctx, const char *pool, char sign, unsigned number, char *why,
          size_t size)
{
    struct pool *p = manager_find_pool(ctx, pool);
    unsigned now;

    if (p == NULL || p->current == NULL) {
        snprintf(why, size,
                 p == NULL ? "there is no pool %s"
                           : "pool %s has no template right now",
                 pool);
        return -1;
    }
    now = status_wanted(p);
    if (sign == '+') {
        number += now;
    } else if (sign == '-') {
        number = now > number ? now - number : 0;
    }
    return generation_scale(p->current, number, why, size);
}

int
manager_open_sockets(struct manager *m, const struct config *c)
{
    char why[1024];

    m->handlers = (struct control_handlers){
        .ctx = m,
        .status = ctl_status,
        .reload = ctl_reload,
        .stop = ctl_stop,
        .drain = ctl_drain,
        .scale = ctl_scale,
        .log_reopen = ctl_log_reopen,
    };
    if (admin_check(&m->settings, why, sizeof(why)) != 0) {
        log_error("%s", why);
        return MANAGER_EXIT_CONFIG;
    }
    if (admin_open(&m->admin, &m->loop, &m->settings, c->pool[0], &m->handlers,
                   why, sizeof(why)) != 0) {
        log_error("%s", why);
        return MANAGER_EXIT_UNAVAILABLE;
    }
    return 0;
}
