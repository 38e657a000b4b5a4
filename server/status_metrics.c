/* SPDX-License-Identifier: MIT
 *
 * A look at the pools (status.h) in the text format of Prometheus, version
 * 0.0.4: for each metric its HELP and TYPE lines, then all its samples.
 * Manager.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "server/status.h"

struct writer {
    const struct status *status;
    struct buf *out;
    int rc; /* the first failure stays */
};

static void __attribute__((format(printf, 2, 3)))
put(struct writer *w, const char *fmt, ...)
{
    char text[1024];
    va_list args;

    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    if (w->rc == 0) {
        w->rc = buf_append_str(w->out, text);
    }
}

static void
metric(struct writer *w, const char *name, const char *type, const char *help)
{
    put(w, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

/* A label's value: backslash and quote are escaped as the format asks; what is
 * no printable ASCII is shown as \xNN, since it would have to be UTF-8. */
static const char *
label(const char *s, char *out, size_t size)
{
    size_t n = 0;

    for (; *s != '\0' && n + 6 < size; s++) {
        unsigned char c = (unsigned char)*s;

        if (c == '\\' || c == '"') {
            out[n++] = '\\';
            out[n++] = (char)c;
        } else if (c < 0x20 || c >= 0x7f) {
            n += (size_t)snprintf(out + n, size - n, "\\\\x%02x", c);
        } else {
            out[n++] = (char)c;
        }
    }
    out[n] = '\0';
    return out;
}

static const char *
pool_label(const struct status_pool *p, char *out, size_t size)
{
    return label(p->pool->settings->name, out, size);
}

/* Two pools of one name: an old one ends, a reload brought a new one. A sample
 * must not come twice, so only one of them has its say. */
static bool
is_shown(const struct status *s, const struct status_pool *p)
{
    const struct status_pool *chosen = p;

    for (unsigned i = s->pools; i > 0; i--) {
        const struct status_pool *other = &s->pool[i - 1];

        if (strcmp(other->pool->settings->name, p->pool->settings->name) == 0 &&
            (chosen->pool->state == POOL_STOPPING ||
             other->pool->state != POOL_STOPPING)) {
            chosen = other;
        }
    }
    return chosen == p;
}

/* One sample a pool. */
static void
each(struct writer *w, const char *name, const char *type, const char *help,
     double (*value)(const struct status_pool *p))
{
    char pool[256];

    metric(w, name, type, help);
    for (unsigned i = 0; i < w->status->pools; i++) {
        const struct status_pool *p = &w->status->pool[i];

        if (is_shown(w->status, p)) {
            put(w, "%s{pool=\"%s\"} %.15g\n", name,
                pool_label(p, pool, sizeof(pool)), value(p));
        }
    }
}

/* -- one value a pool -------------------------------------------------------
 */

static double
up(const struct status_pool *p)
{
    return p->pool->state == POOL_SERVING && p->pool->current != NULL &&
           p->pool->current->serving;
}

static double
wanted(const struct status_pool *p)
{
    return status_wanted(p->pool);
}

static double
requests(const struct status_pool *p)
{
    return (double)p->counts.answered.requests;
}

static double
held_back(const struct status_pool *p)
{
    return (double)p->counts.held;
}

static double
failures(const struct status_pool *p)
{
    return (double)p->counts.answered.failures;
}

static double
generations(const struct status_pool *p)
{
    return (double)p->pool->generations;
}

static double
templates_lost(const struct status_pool *p)
{
    return (double)p->pool->lost;
}

static double
reload_failed(const struct status_pool *p)
{
    return p->pool->reload_failure[0] != '\0';
}

static double
alarm_count(const struct status_pool *p)
{
    return p->alarms;
}

static double
rss(const struct status_pool *p)
{
    return (double)p->counts.memory.rss;
}

static double
pss(const struct status_pool *p)
{
    return (double)p->counts.memory.pss;
}

/* -- several values a pool --------------------------------------------------
 */

static void
workers(struct writer *w, const struct status_pool *p, const char *pool)
{
    for (int i = 0; i < STATUS_STATES; i++) {
        put(w, "forebay_workers{pool=\"%s\",state=\"%s\"} %u\n", pool,
            status_state_name((enum status_state)i), p->counts.workers[i]);
    }
}

static void
threads(struct writer *w, const struct status_pool *p, const char *pool)
{
    for (int i = SCORE_IDLE; i < STATUS_THREAD_STATES; i++) {
        put(w, "forebay_threads{pool=\"%s\",state=\"%s\"} %u\n", pool,
            status_thread_state_name((enum scoreboard_state)i),
            p->counts.threads[i]);
    }
}

static void
exits(struct writer *w, const struct status_pool *p, const char *pool)
{
    put(w,
        "forebay_worker_exits_total{pool=\"%s\",reason=\"crashed\"} %llu\n"
        "forebay_worker_exits_total{pool=\"%s\",reason=\"ended\"} %llu\n",
        pool, (unsigned long long)p->counts.crashed, pool,
        (unsigned long long)p->counts.ended);
}

static void
reloads(struct writer *w, const struct status_pool *p, const char *pool)
{
    put(w,
        "forebay_reloads_total{pool=\"%s\",result=\"done\"} %lu\n"
        "forebay_reloads_total{pool=\"%s\",result=\"refused\"} %lu\n",
        pool, p->pool->reloads, pool, p->pool->refused);
}

/* _count is the last bucket and not the number of requests: both are counted
 * while the workers go on. */
static void
durations(struct writer *w, const struct status_pool *p, const char *pool)
{
    static const char name[] = "forebay_request_duration_seconds";
    const struct score_totals *t = &p->counts.answered;
    unsigned long long sum = 0;

    for (unsigned i = 0; i < SCORE_BUCKETS; i++) {
        sum += t->bucket[i];
        if (i < SCORE_BOUNDS) {
            put(w, "%s_bucket{pool=\"%s\",le=\"%g\"} %llu\n", name, pool,
                scoreboard_bound_us[i] / 1e6, sum);
        } else {
            put(w, "%s_bucket{pool=\"%s\",le=\"+Inf\"} %llu\n", name, pool,
                sum);
        }
    }
    put(w, "%s_sum{pool=\"%s\"} %.9f\n%s_count{pool=\"%s\"} %llu\n", name, pool,
        (double)t->time_ns / 1e9, name, pool, sum);
}

static void
queue(struct writer *w, const struct status_pool *p, const char *pool,
      const char *name, bool limit)
{
    const struct listener_set *set = &p->pool->listeners;
    char address[512];

    for (unsigned i = 0; i < set->count; i++) {
        const struct backlog *q = &p->queue[i];

        if (q->known) {
            put(w, "%s{pool=\"%s\",listen=\"%s\"} %u\n", name, pool,
                label(set->item[i].text, address, sizeof(address)),
                limit ? q->limit : q->waiting);
        }
    }
}

static void
queue_length(struct writer *w, const struct status_pool *p, const char *pool)
{
    queue(w, p, pool, "forebay_queue_length", false);
}

static void
queue_limit(struct writer *w, const struct status_pool *p, const char *pool)
{
    queue(w, p, pool, "forebay_queue_limit", true);
}

static void
several(struct writer *w, const char *name, const char *type, const char *help,
        void (*samples)(struct writer *w, const struct status_pool *p,
                        const char *pool))
{
    char pool[256];

    metric(w, name, type, help);
    for (unsigned i = 0; i < w->status->pools; i++) {
        const struct status_pool *p = &w->status->pool[i];

        if (is_shown(w->status, p)) {
            samples(w, p, pool_label(p, pool, sizeof(pool)));
        }
    }
}

/* -- all of it --------------------------------------------------------------
 */

static void
manager(struct writer *w)
{
    const struct status *s = w->status;

    metric(w, "forebay_build_info", "gauge", "The version that runs.");
    put(w, "forebay_build_info{version=\"%s\"} 1\n", FOREBAY_VERSION);
    metric(w, "forebay_start_time_seconds", "gauge",
           "When the manager was started, in seconds since 1970.");
    put(w, "forebay_start_time_seconds %.0f\n", (double)s->manager.started_at);
    metric(w, "forebay_config_reload_failed", "gauge",
           "1 when the configuration file was refused at the last reload.");
    put(w, "forebay_config_reload_failed %u\n", s->alarms);
}

static void
processes(struct writer *w)
{
    each(w, "forebay_pool_up", "gauge", "1 while the pool serves.", up);
    each(w, "forebay_workers_wanted", "gauge",
         "Worker processes that the settings or ctl scale ask for; what "
         "scaling makes of that is below.",
         wanted);
    several(w, "forebay_workers", "gauge",
            "Worker processes by state; the states exclude each other.",
            workers);
    several(w, "forebay_threads", "gauge",
            "Threads of workers that have started, by state.", threads);
    several(w, "forebay_worker_exits_total", "counter",
            "Workers that ended, but for reloads and the end of the pool: "
            "crashed, or in order (recycled, not needed any more).",
            exits);
    each(w, "forebay_template_restarts_total", "counter",
         "Templates that died and were replaced.", templates_lost);
    each(w, "forebay_generations_total", "counter",
         "Templates that were started, for whatever reason.", generations);
    several(w, "forebay_reloads_total", "counter", "Reloads by result.",
            reloads);
    each(w, "forebay_reload_failed", "gauge",
         "1 when the last reload of the pool was refused.", reload_failed);
    each(w, "forebay_alarms", "gauge",
         "Sentences that the status has for an administrator.", alarm_count);
    each(w, "forebay_memory_rss_bytes", "gauge",
         "Resident memory of template and workers; shared pages count for "
         "each of them.",
         rss);
    each(w, "forebay_memory_pss_bytes", "gauge",
         "Memory of template and workers with shared pages divided among "
         "those that share them; 0: not known.",
         pss);
}

int
status_metrics(const struct status *s, struct buf *out)
{
    struct writer w = { .status = s, .out = out };

    manager(&w);
    processes(&w);
    each(&w, "forebay_requests_total", "counter",
         "Requests answered, by workers that are gone as well.", requests);
    each(&w, "forebay_request_failures_total", "counter",
         "Requests in which the application failed.", failures);
    several(&w, "forebay_request_duration_seconds", "histogram",
            "How long a thread was occupied with a request, from its complete "
            "head to the end of what it runs after the response.",
            durations);
    each(&w, "forebay_requests_held_back", "gauge",
         "Requests that wait while only reserved slots are free.", held_back);
    several(&w, "forebay_queue_length", "gauge",
            "Connections that wait to be accepted.", queue_length);
    several(&w, "forebay_queue_limit", "gauge",
            "Connections that may wait to be accepted.", queue_limit);
    return w.rc;
}
