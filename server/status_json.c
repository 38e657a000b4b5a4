/* SPDX-License-Identifier: MIT
 *
 * A look at the pools (status.h) as JSON. Manager.
 *
 * A value that could not be made (no memory) is NULL; jansson refuses to put
 * that anywhere, so that one check at the end of each object is enough.
 */
#include <string.h>
#include <unistd.h>

#include "server/status.h"

/* Any bytes as text: each is the character of its number. */
static json_t *
bytes(const char *s, size_t len)
{
    char utf8[2048];
    size_t n = 0;

    for (size_t i = 0; i < len && n < sizeof(utf8) - 1; i++) {
        unsigned char c = (unsigned char)s[i];

        if (c < 0x80) {
            utf8[n++] = (char)c;
        } else {
            utf8[n++] = (char)(0xc0 | c >> 6);
            utf8[n++] = (char)(0x80 | (c & 0x3f));
        }
    }
    return json_stringn(utf8, n);
}

/* Text from the configuration: UTF-8, or else bytes. */
static json_t *
text(const char *s)
{
    json_t *found;

    if (s == NULL) {
        return json_null();
    }
    found = json_string(s);
    return found != NULL ? found : bytes(s, strlen(s));
}

static json_t *
seconds(uint64_t ms)
{
    return json_real((double)ms / 1000);
}

/* Zero is "not known" here. */
static json_t *
known(uint64_t n)
{
    return n > 0 ? json_integer((json_int_t)n) : json_null();
}

/* o, or NULL (and o is freed) when something was missing. */
static json_t *
whole(json_t *o, int rc)
{
    if (rc != 0) {
        json_decref(o);
        return NULL;
    }
    return o;
}

static json_t *
number(uint64_t n)
{
    return json_integer((json_int_t)n);
}

static json_t *
thread(const struct status_thread *t)
{
    json_t *o = json_object();
    int rc = 0;

    rc |= json_object_set_new(o, "state",
                              text(status_thread_state_name(t->state)));
    rc |= json_object_set_new(o, "state_seconds", seconds(t->state_ms));
    rc |= json_object_set_new(o, "request",
                              t->running ? bytes(t->line, strlen(t->line))
                                         : json_null());
    rc |=
        json_object_set_new(o, "request_seconds",
                            t->running ? seconds(t->running_ms) : json_null());
    rc |= json_object_set_new(o, "requests", number(t->requests));
    rc |= json_object_set_new(o, "failures", number(t->failures));
    return whole(o, rc);
}

static json_t *
worker(const struct status_worker *w)
{
    json_t *o = json_object(), *threads = json_array();
    int rc = 0;

    for (unsigned i = 0; i < w->threads; i++) {
        rc |= json_array_append_new(threads, thread(&w->thread[i]));
    }
    rc |= json_object_set_new(o, "slot", number(w->slot));
    rc |= json_object_set_new(o, "pid", known((uint64_t)w->pid));
    rc |= json_object_set_new(o, "generation", number(w->generation));
    rc |= json_object_set_new(o, "state", text(status_state_name(w->state)));
    rc |= json_object_set_new(o, "age", seconds(w->age_ms));
    rc |= json_object_set_new(o, "requests", number(w->requests));
    rc |= json_object_set_new(o, "failures", number(w->failures));
    rc |= json_object_set_new(o, "rss", known(w->memory.rss));
    rc |= json_object_set_new(o, "pss", known(w->memory.pss));
    rc |= json_object_set_new(o, "threads", threads);
    return whole(o, rc);
}

static json_t *
worker_counts(const struct status_counts *c)
{
    json_t *o = json_object();
    unsigned total = 0;
    int rc = 0;

    for (int i = 0; i < STATUS_STATES; i++) {
        total += c->workers[i];
    }
    rc |= json_object_set_new(o, "total", number(total));
    for (int i = 0; i < STATUS_STATES; i++) {
        rc |= json_object_set_new(o, status_state_name((enum status_state)i),
                                  number(c->workers[i]));
    }
    return whole(o, rc);
}

static json_t *
thread_counts(const struct status_counts *c)
{
    json_t *o = json_object();
    unsigned total = 0;
    int rc = 0;

    for (int i = 0; i < STATUS_THREAD_STATES; i++) {
        total += c->threads[i];
    }
    rc |= json_object_set_new(o, "total", number(total));
    for (int i = SCORE_IDLE; i < STATUS_THREAD_STATES; i++) {
        rc |= json_object_set_new(
            o, status_thread_state_name((enum scoreboard_state)i),
            number(c->threads[i]));
    }
    return whole(o, rc);
}

/* How many took at most so many seconds: cumulative, as Prometheus has it. */
static json_t *
latency(const struct score_totals *t)
{
    json_t *o = json_object(), *up_to = json_object();
    uint64_t sum = 0;
    int rc = 0;

    for (unsigned i = 0; i < SCORE_BUCKETS; i++) {
        char bound[32] = "+Inf";

        if (i < SCORE_BOUNDS) {
            snprintf(bound, sizeof(bound), "%g", scoreboard_bound_us[i] / 1e6);
        }
        sum += t->bucket[i];
        rc |= json_object_set_new(up_to, bound, number(sum));
    }
    rc |=
        json_object_set_new(o, "seconds", json_real((double)t->time_ns / 1e9));
    rc |= json_object_set_new(o, "up_to", up_to);
    return whole(o, rc);
}

static json_t *
counts(const struct status_counts *c)
{
    json_t *o = json_object();
    int rc = 0;

    rc |= json_object_set_new(o, "workers", worker_counts(c));
    rc |= json_object_set_new(o, "threads", thread_counts(c));
    rc |= json_object_set_new(o, "requests", number(c->answered.requests));
    rc |= json_object_set_new(o, "failures", number(c->answered.failures));
    rc |= json_object_set_new(o, "latency", latency(&c->answered));
    rc |= json_object_set_new(o, "workers_crashed", number(c->crashed));
    rc |= json_object_set_new(o, "workers_ended", number(c->ended));
    rc |= json_object_set_new(o, "held_back", number(c->held));
    rc |= json_object_set_new(o, "rss", known(c->memory.rss));
    rc |= json_object_set_new(o, "pss", known(c->memory.pss));
    return whole(o, rc);
}

static json_t *
listeners(const struct status_pool *s)
{
    const struct listener_set *set = &s->pool->listeners;
    json_t *list = json_array();
    int rc = 0;

    for (unsigned i = 0; i < set->count; i++) {
        const struct backlog *q = &s->queue[i];
        json_t *o = json_object();

        rc |= json_object_set_new(o, "address", text(set->item[i].text));
        rc |= json_object_set_new(o, "queue",
                                  q->known ? number(q->waiting) : json_null());
        rc |= json_object_set_new(o, "queue_limit",
                                  q->known ? number(q->limit) : json_null());
        rc |= json_array_append_new(list, o);
    }
    return whole(list, rc);
}

static json_t *
alarm_object(const char *about, const struct status_alarm *a)
{
    json_t *o = json_object();
    int rc = 0;

    rc |= json_object_set_new(o, "pool", text(about));
    rc |= json_object_set_new(o, "age", seconds(a->age_ms));
    rc |= json_object_set_new(o, "text", text(a->text));
    return whole(o, rc);
}

static json_t *template(const struct generation *g)
{
    json_t *o;
    int rc = 0;

    if (g == NULL || g->ended) {
        return json_null();
    }
    o = json_object();
    rc |= json_object_set_new(o, "pid", number((uint64_t)g->process.pid));
    rc |= json_object_set_new(o, "generation", number(g->number));
    rc |= json_object_set_new(o, "rss", known(g->memory.rss));
    rc |= json_object_set_new(o, "pss", known(g->memory.pss));
    return whole(o, rc);
}

static json_t *
pool(const struct status_pool *s)
{
    static const char *const modes[] = { "prefork", "threaded" };
    static const char *const scalings[] = { "static", "dynamic", "ondemand" };
    const struct pool *p = s->pool;
    json_t *o = json_object(), *workers = json_array(), *alarms = json_array();
    int rc = 0;

    for (unsigned i = 0; i < s->workers; i++) {
        rc |= json_array_append_new(workers, worker(&s->worker[i]));
    }
    for (unsigned i = 0; i < s->alarms; i++) {
        rc |= json_array_append_new(
            alarms, alarm_object(p->settings->name, &s->alarm[i]));
    }
    rc |= json_object_set_new(o, "name", text(p->settings->name));
    rc |= json_object_set_new(o, "state", text(s->state));
    rc |= json_object_set_new(o, "app", text(p->settings->app));
    rc |= json_object_set_new(o, "command", text(p->settings->command));
    rc |= json_object_set_new(o, "mode", text(modes[p->settings->mode]));
    rc |=
        json_object_set_new(o, "scaling", text(scalings[p->settings->scaling]));
    rc |= json_object_set_new(o, "workers_wanted", number(status_wanted(p)));
    rc |= json_object_set_new(o, "threads_per_worker",
                              number(p->settings->threads));
    rc |= json_object_set_new(o, "listen", listeners(s));
    rc |= json_object_set_new(o, "template", template(p->current));
    rc |= json_object_set_new(o, "generations", number(p->generations));
    rc |= json_object_set_new(o, "reloads", number(p->reloads));
    rc |= json_object_set_new(o, "reloads_refused", number(p->refused));
    rc |= json_object_set_new(o, "templates_lost", number(p->lost));
    rc |= json_object_set_new(o, "alarms", alarms);
    rc |= json_object_set_new(o, "totals", counts(&s->counts));
    rc |= json_object_set_new(o, "workers", workers);
    return whole(o, rc);
}

json_t *
status_json(const struct status *s)
{
    json_t *o = json_object(), *pools = json_array(), *alarms = json_array();
    int rc = 0;

    for (unsigned i = 0; i < s->alarms; i++) {
        rc |= json_array_append_new(alarms, alarm_object(NULL, &s->alarm[i]));
    }
    for (unsigned i = 0; i < s->pools; i++) {
        rc |= json_array_append_new(pools, pool(&s->pool[i]));
    }
    rc |= json_object_set_new(o, "version", text(FOREBAY_VERSION));
    rc |= json_object_set_new(o, "pid", number((uint64_t)getpid()));
    rc |= json_object_set_new(
        o, "state", text(s->manager.stopping ? "stopping" : "running"));
    rc |= json_object_set_new(o, "uptime",
                              seconds(s->now_ms - s->manager.started_ms));
    rc |= json_object_set_new(o, "alarms", alarms);
    rc |= json_object_set_new(o, "totals", counts(&s->counts));
    rc |= json_object_set_new(o, "pools", pools);
    return whole(o, rc);
}

static int
put(const char *data, size_t len, void *out)
{
    return buf_append(out, data, len);
}

int
status_json_text(const struct status *s, struct buf *out)
{
    json_t *o = status_json(s);
    int rc = o == NULL ? -1
                       : json_dump_callback(o, put, out,
                                            JSON_INDENT(1) | JSON_ENSURE_ASCII |
                                                JSON_REAL_PRECISION(12));

    json_decref(o);
    return rc == 0 ? buf_append_str(out, "\n") : -1;
}
