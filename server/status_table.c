/* SPDX-License-Identifier: MIT
 *
 * A look at the pools (status.h) as a table for people: one line a thread, no
 * line longer than 100 characters, all of them printable ASCII whatever peers
 * have sent. Manager.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "server/log.h"
#include "server/status.h"

enum { WIDTH = 100, WORD_MAX = 32 };

/* -- words ------------------------------------------------------------------
 */

/* "0.4s", "12s", "3m05s", "4h12m", "3d04h" */
static const char *
duration(uint64_t ms, char *out)
{
    unsigned long long s = ms / 1000;

    if (ms < 10000) {
        snprintf(out, WORD_MAX, "%llu.%llus", s,
                 (unsigned long long)ms % 1000 / 100);
    } else if (s < 60) {
        snprintf(out, WORD_MAX, "%llus", s);
    } else if (s < 3600) {
        snprintf(out, WORD_MAX, "%llum%02llus", s / 60, s % 60);
    } else if (s < 86400) {
        snprintf(out, WORD_MAX, "%lluh%02llum", s / 3600, s / 60 % 60);
    } else {
        snprintf(out, WORD_MAX, "%llud%02lluh", s / 86400, s / 3600 % 24);
    }
    return out;
}

/* At most five characters: "12345", "123k", "12M" */
static const char *
count(uint64_t n, uint64_t step, char *out)
{
    static const char units[] = " kMGTP";
    unsigned u = 0;

    while (n > 99999 && units[u + 1] != '\0') {
        n /= step;
        u++;
    }
    snprintf(out, WORD_MAX, "%llu%.*s", (unsigned long long)n, u > 0,
             units + u);
    return out;
}

/* "89M"; "-" when it is not known. */
static const char *
megabytes(uint64_t n, char *out)
{
    if (n == 0) {
        return strcpy(out, "-");
    }
    snprintf(out, WORD_MAX, "%lluM", (unsigned long long)(n + (1 << 19)) >> 20);
    return out;
}

static const char *
plural(uint64_t n)
{
    return n == 1 ? "" : "s";
}

/* -- lines ------------------------------------------------------------------
 */

static int __attribute__((format(printf, 2, 3)))
line(struct buf *out, const char *fmt, ...)
{
    char text[1024];
    va_list args;
    size_t len;

    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    len = strlen(text);
    len = len < WIDTH ? len : WIDTH;
    while (len > 0 && text[len - 1] == ' ') {
        len--;
    }
    return buf_append(out, text, len) == 0 ? buf_append_str(out, "\n") : -1;
}

/* A sentence that may need several lines, broken at blanks. */
static int
alarm_lines(struct buf *out, const struct status_alarm *a)
{
    char text[4 * sizeof(a->text)], since[WORD_MAX + 8] = "", word[WORD_MAX];
    const char *rest = text, *lead = "  ! ";

    log_escape(text, sizeof(text), a->text, strlen(a->text));
    if (a->age_ms > 0) {
        snprintf(since, sizeof(since), "%s ago: ", duration(a->age_ms, word));
    }
    while (*rest != '\0') {
        size_t room = WIDTH - strlen(lead) - strlen(since);
        size_t n = strlen(rest);

        if (n > room) {
            n = room;
            while (n > 0 && rest[n] != ' ') {
                n--;
            }
            n = n > 0 ? n : room;
        }
        if (line(out, "%s%s%.*s", lead, since, (int)n, rest) != 0) {
            return -1;
        }
        rest += n;
        rest += strspn(rest, " ");
        lead = "    ";
        since[0] = '\0';
    }
    return 0;
}

/* -- a pool -----------------------------------------------------------------
 */

/* Both are cut: they are other people's words. */
static const char *
name_of(const struct pool *p, char *out, size_t size)
{
    return log_escape(out, size, p->settings->name, strlen(p->settings->name));
}

static const char *
app_of(const struct pool *p, char *out, size_t size)
{
    const char *app = p->settings->app != NULL       ? p->settings->app
                      : p->settings->command != NULL ? p->settings->command
                                                     : "-";

    return log_escape(out, size, app, strlen(app));
}

static int
pool_head(struct buf *out, const struct status_pool *s)
{
    const struct pool *p = s->pool;
    char name[64], app[64], template[64] = "no template";

    if (p->current != NULL && !p->current->ended) {
        snprintf(template, sizeof(template), "template %d, generation %lu",
                 p->current->process.pid, p->current->number);
    }
    return line(out, "pool %s: %s, %s, %s, %lu reload%s",
                name_of(p, name, sizeof(name)), s->state,
                app_of(p, app, sizeof(app)), template, p->reloads,
                plural(p->reloads));
}

static int
pool_queues(struct buf *out, const struct status_pool *s)
{
    const struct listener_set *set = &s->pool->listeners;
    int rc = 0;

    for (unsigned i = 0; i < set->count && rc == 0; i++) {
        const struct backlog *q = &s->queue[i];
        char where[80];

        log_escape(where, sizeof(where), set->item[i].text,
                   strlen(set->item[i].text));
        rc = q->known ? line(out, "  %s: %u waiting of %u at most", where,
                             q->waiting, q->limit)
                      : line(out, "  %s", where);
    }
    if (rc == 0 && s->counts.held > 0) {
        rc = line(out, "  %llu held back: only reserved_slots are free",
                  (unsigned long long)s->counts.held);
    }
    return rc;
}

static int
pool_counts(struct buf *out, const struct status_pool *s)
{
    const struct status_counts *c = &s->counts;
    const struct score_totals *t = &c->answered;
    char requests[WORD_MAX], failed[WORD_MAX], memory[WORD_MAX];
    double each_ms =
        t->requests > 0 ? (double)t->time_ns / 1e6 / (double)t->requests : 0;
    int rc;

    rc = line(
        out,
        "  %u worker%s of %u thread%s: %u idle, %u busy, %u starting, "
        "%u stopping; %s of memory",
        s->workers, plural(s->workers), s->pool->settings->threads,
        plural(s->pool->settings->threads), c->workers[STATUS_IDLE],
        c->workers[STATUS_BUSY], c->workers[STATUS_STARTING],
        c->workers[STATUS_STOPPING],
        megabytes(c->memory.pss > 0 ? c->memory.pss : c->memory.rss, memory));
    if (rc != 0) {
        return -1;
    }
    return line(out,
                "  %s request%s, %s failed, %.1f ms each; %llu worker%s "
                "crashed, %llu ended",
                count(t->requests, 1000, requests), plural(t->requests),
                count(t->failures, 1000, failed), each_ms,
                (unsigned long long)c->crashed, plural(c->crashed),
                (unsigned long long)c->ended);
}

/* t is NULL for a worker that starts. */
static int
thread_line(struct buf *out, const struct status_worker *w,
            const struct status_thread *t)
{
    char slot[WORD_MAX], pid[WORD_MAX], life[WORD_MAX], requests[WORD_MAX];
    char failures[WORD_MAX], memory[WORD_MAX], since[WORD_MAX] = "";
    char request[4 * SCORE_LINE_MAX] = "";
    const char *state = status_state_name(w->state);

    snprintf(slot, sizeof(slot), w->threads > 1 ? "%u/%u" : "%u", w->slot,
             t != NULL ? (unsigned)(t - w->thread) : 0);
    snprintf(pid, sizeof(pid), w->pid > 0 ? "%d" : "-", w->pid);
    if (t != NULL && w->state != STATUS_STOPPING) {
        state = status_thread_state_name(t->state);
    }
    if (t != NULL && t->running) {
        duration(t->running_ms, since);
        log_escape(request, sizeof(request), t->line, strlen(t->line));
    }
    return line(
        out, "  %-6s %7s %3lu %-8s %6s %8s %6s %5s %6s  %s", slot, pid,
        w->generation, state, duration(w->age_ms, life),
        count(t != NULL ? t->requests : 0, 1000, requests),
        count(t != NULL ? t->failures : 0, 1000, failures),
        megabytes(w->memory.pss > 0 ? w->memory.pss : w->memory.rss, memory),
        since, request);
}

static int
pool_workers(struct buf *out, const struct status_pool *s)
{
    int rc;

    if (s->workers == 0) {
        return 0;
    }
    rc = line(out, "  %-6s %7s %3s %-8s %6s %8s %6s %5s %6s  %s", "WORKER",
              "PID", "GEN", "STATE", "AGE", "REQUESTS", "FAILED", "MEM", "FOR",
              "REQUEST");
    for (unsigned i = 0; i < s->workers && rc == 0; i++) {
        const struct status_worker *w = &s->worker[i];

        if (w->threads == 0) {
            rc = thread_line(out, w, NULL);
        }
        for (unsigned t = 0; t < w->threads && rc == 0; t++) {
            rc = thread_line(out, w, &w->thread[t]);
        }
    }
    return rc;
}

static int
alarms(struct buf *out, const struct status_alarm *a, unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        if (alarm_lines(out, &a[i]) != 0) {
            return -1;
        }
    }
    return 0;
}

int
status_table(const struct status *s, struct buf *out)
{
    char up[WORD_MAX];
    int rc;

    rc = line(out, "forebay %s: pid %d, up %s, %u pool%s%s", FOREBAY_VERSION,
              getpid(), duration(s->now_ms - s->manager.started_ms, up),
              s->pools, plural(s->pools),
              s->manager.stopping ? ", stopping" : "");
    rc = rc == 0 ? alarms(out, s->alarm, s->alarms) : rc;
    for (unsigned i = 0; i < s->pools && rc == 0; i++) {
        const struct status_pool *p = &s->pool[i];

        if (line(out, "%s", "") != 0 || pool_head(out, p) != 0 ||
            pool_queues(out, p) != 0 || pool_counts(out, p) != 0 ||
            alarms(out, p->alarm, p->alarms) != 0 ||
            pool_workers(out, p) != 0) {
            rc = -1;
        }
    }
    return rc;
}
