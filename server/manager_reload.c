/* SPDX-License-Identifier: MIT
 *
 * A reload: the file is read again, its pools are compared with those that run,
 * and whoever asked hears when all have ended theirs. Manager only, on its
 * loop.
 */
#include "server/manager_state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/log.h"
#include "server/notify.h"

static bool
is_configured(const struct config *c, const char *name)
{
    for (unsigned i = 0; i < c->pools; i++) {
        if (strcmp(c->pool[i]->name, name) == 0) {
            return true;
        }
    }
    return false;
}

/* The pool that is to go on as this new one: the file no longer has its name,
 * and it listens where the new one is to. Started beside it, that would find
 * the address in use. */
static struct pool *
find_renamed(struct manager *m, const struct config *c,
             const struct pool_settings *s)
{
    for (struct pool *p = m->pools; p != NULL; p = p->following) {
        if (p->state == POOL_SERVING && !p->renamed &&
            !is_configured(c, p->settings->name) && pool_listens_at(p, s)) {
            return p;
        }
    }
    return NULL;
}

/* Before anything else changes: which pools have another name now. */
static void
note_renamed(struct manager *m, const struct config *c, const char *only)
{
    for (struct pool *p = m->pools; p != NULL; p = p->following) {
        p->renamed = false;
    }
    for (unsigned i = 0; i < c->pools; i++) {
        const struct pool_settings *s = c->pool[i];
        struct pool *p = NULL;

        if ((only == NULL || strcmp(s->name, only) == 0) &&
            manager_find_pool(m, s->name) == NULL) {
            p = find_renamed(m, c, s);
        }
        if (p != NULL) {
            p->renamed = true;
            log_info("pool %s: goes on as pool %s, on the same socket",
                     p->settings->name, s->name);
        }
    }
}

static struct pool *
take_renamed(struct manager *m, const struct pool_settings *s)
{
    for (struct pool *p = m->pools; p != NULL; p = p->following) {
        if (p->renamed && pool_listens_at(p, s)) {
            p->renamed = false;
            return p;
        }
    }
    return NULL;
}

/* A reload of one or several pools, and who waits for its end. */
struct reloading {
    struct manager *m;
    control_done done; /* NULL: nobody waits */
    void *who;
    unsigned pools; /* that have not ended theirs, and one more until all have
                       been told */
    char why[800];  /* what was refused first; "": nothing */
};

/* systemd hears of the end of a reload when all its pools have ended theirs. */
static void
on_reloaded(struct pool *p, const char *why, void *ctx)
{
    struct reloading *r = ctx;
    struct manager *m = r->m;

    if (why != NULL && r->why[0] == '\0') {
        snprintf(r->why, sizeof(r->why), "pool %s: %s", p->settings->name, why);
    }
    if (--r->pools > 0) {
        return;
    }
    if (--m->reloading == 0 && !m->stopping) {
        notify("READY=1");
    }
    if (r->done != NULL) {
        r->done(r->why[0] != '\0' ? r->why : NULL, r->who);
    }
    free(r);
}

static void
reload_pool(struct pool *p, struct pool_settings *s, struct reloading *r)
{
    r->pools++;
    pool_reload(p, s, on_reloaded, r);
}

static void
start_new_pool(struct pool_settings *s, struct reloading *r)
{
    char name[128];
    struct pool *p;

    snprintf(name, sizeof(name), "%s", s->name);
    if (manager_add_pool(r->m, s, &p) == 0) {
        r->pools++;
        pool_when_serving(p, on_reloaded, r);
        pool_start(p);
    } else if (r->why[0] == '\0') {
        snprintf(r->why, sizeof(r->why),
                 "pool %s cannot be opened; the log says why", name);
    }
}

/* Pools that the file no longer names end; the others reload; new ones start.
 * With a name, only that pool. */
static void
apply(struct manager *m, struct config *c, const char *only,
      struct reloading *r)
{
    struct pool *next;

    note_renamed(m, c, only);
    for (struct pool *p = m->pools; p != NULL && only == NULL; p = next) {
        next = p->following;
        if (p->state != POOL_STOPPING && !p->renamed &&
            !is_configured(c, p->settings->name)) {
            log_info("pool %s: no longer in %s; it ends", p->settings->name,
                     m->file);
            pool_stop(p);
        }
    }
    for (unsigned i = 0; i < c->pools; i++) {
        struct pool_settings *s = c->pool[i];
        struct pool *p = manager_find_pool(m, s->name);

        if (only != NULL && strcmp(s->name, only) != 0) {
            continue; /* config_release() frees it */
        }
        c->pool[i] = NULL; /* taken over */
        p = p != NULL ? p : take_renamed(m, s);
        if (p != NULL) {
            reload_pool(p, s, r);
        } else {
            start_new_pool(s, r);
        }
    }
}

/* What a reload does not change. */
static void
tell_unchanged(const struct manager *m, const char *name, const char *is,
               const char *becomes)
{
    if (strcmp(is != NULL ? is : "", becomes != NULL ? becomes : "") != 0) {
        log_warnx("%s is another one in %s now; that takes a restart", name,
                  m->file);
    }
}

static void
reload_file(struct manager *m, const char *only, struct reloading *r)
{
    struct conf_error error;
    struct config c;
    char why[512];

    if (config_read(m->file, &c, &error) != 0) {
        conf_error_format(&error, m->reload_failure, sizeof(m->reload_failure));
        m->reload_failed_ms = uv_now(&m->loop);
        log_error("reload refused: %s; everything serves on as it was",
                  m->reload_failure);
        snprintf(r->why, sizeof(r->why), "%s", m->reload_failure);
        return;
    }
    m->reload_failure[0] = '\0';
    if (only != NULL && !is_configured(&c, only)) {
        snprintf(r->why, sizeof(r->why), "there is no pool %s in %s", only,
                 m->file);
    }
    manager_take_log_level(&c.manager);
    if (manager_use_log(m, &c.manager, why, sizeof(why)) != 0) {
        log_error("reload: %s; the log stays where it is", why);
    }
    manager_set_pidfile(m, c.manager.pidfile);
    tell_unchanged(m, "control", m->settings.control, c.manager.control);
    tell_unchanged(m, "status_listen", m->settings.status_listen,
                   c.manager.status_listen);
    apply(m, &c, only, r);
    config_release(&c);
}

/* Without a file: the same settings again, the code anew. */
static void
reload_code(struct manager *m, const char *only, struct reloading *r)
{
    bool found = false;

    for (struct pool *p = m->pools; p != NULL; p = p->following) {
        if (p->state != POOL_STOPPING &&
            (only == NULL || strcmp(p->settings->name, only) == 0)) {
            reload_pool(p, NULL, r);
            found = true;
        }
    }
    if (!found) {
        snprintf(r->why, sizeof(r->why), "there is no pool %s",
                 only != NULL ? only : "");
    }
}

void
manager_reload(struct manager *m, const char *only, control_done done,
               void *who)
{
    struct reloading *r = calloc(1, sizeof(*r));

    if (m->stopping || r == NULL) {
        if (done != NULL) {
            done(r != NULL ? "forebay is being stopped" : "out of memory", who);
        }
        free(r);
        return;
    }
    *r = (struct reloading){ .m = m, .done = done, .who = who, .pools = 1 };
    m->reloading++;
    notify_reloading();
    if (m->file != NULL) {
        reload_file(m, only, r);
    } else {
        reload_code(m, only, r);
    }
    on_reloaded(NULL, NULL, r);
}
