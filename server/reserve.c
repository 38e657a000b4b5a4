/* SPDX-License-Identifier: MIT
 *
 * See reserve.h.
 */
#include "server/reserve.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "server/clock.h"
#include "server/connection.h"
#include "server/log.h"
#include "server/lookout.h"
#include "server/request_path.h"

enum {
    TICK_MS = 5, /* between two looks at what is held back */
    SCRATCH_MAX = 1024 * 1024,
    WARN_EVERY_MS = 60000,
};

struct reserve {
    int timer_fd;
    pthread_mutex_t lock; /* guards the rest */
    struct connection *first, **end;
    unsigned held;
    uint64_t warned_ns;
};

int
reserve_open(struct worker *w)
{
    struct reserve *r;

    w->reserve = NULL;
    if (w->settings->reserved_slots == 0) {
        return 0;
    }
    r = calloc(1, sizeof(*r));
    if (r == NULL) {
        return -ENOMEM;
    }
    r->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    if (r->timer_fd < 0) {
        free(r);
        return -errno;
    }
    pthread_mutex_init(&r->lock, NULL);
    r->end = &r->first;
    w->reserve = r;
    return 0;
}

int
reserve_timer(const struct reserve *r)
{
    return r->timer_fd;
}

/* -- which requests are short -----------------------------------------------
 */

/* The length of the longest of these paths that path is, or is below; 0: none
 * ("/" has length 1). */
static size_t
longest_match(const struct conf_list *list, struct cgi_text path)
{
    size_t best = 0;

    for (unsigned i = 0; i < list->count; i++) {
        const char *item = list->item[i];
        size_t len = strlen(item);
        size_t n = len > 1 && item[len - 1] == '/' ? len - 1 : len;

        if (path.len >= n && memcmp(path.data, item, n) == 0 &&
            (n == 1 || path.len == n || path.data[n] == '/') && len > best) {
            best = len;
        }
    }
    return best;
}

static bool
is_own_page(const char *page, struct cgi_text path)
{
    return page != NULL && path.len == strlen(page) &&
           memcmp(path.data, page, path.len) == 0;
}

static bool
is_short(const struct pool_settings *s, const struct request *request)
{
    struct cgi_text path;
    struct buf scratch;
    size_t a, b;
    bool result = true;

    buf_init(&scratch, SCRATCH_MAX);
    /* What is no path is refused, and that is short. */
    if (request_path(request, &scratch, &path) &&
        !is_own_page(s->ping_path, path) &&
        !is_own_page(s->status_path, path)) {
        a = longest_match(&s->short_paths, path);
        b = longest_match(&s->long_paths, path);
        result = a == 0 && b == 0 ? s->short_paths.count == 0 : a > b;
    }
    buf_release(&scratch);
    return result;
}

/* -- room -------------------------------------------------------------------
 */

/* How many more requests that are not short there is room for; negative when
 * there are too many. At least one may run. */
static int
room(const struct worker *w)
{
    int slots = 0, taken = 0;

    for (unsigned i = 0; i < w->board->count; i++) {
        const struct scoreboard_slot *s = &w->board->slot[i];
        uint32_t state = atomic_load(&s->state);

        slots += state != SCORE_FREE && state != SCORE_STARTING;
        taken += atomic_load(&s->ordinary) != 0;
    }
    slots -= (int)w->settings->reserved_slots;
    return (slots > 1 ? slots : 1) - taken;
}

static bool
is_free(const struct worker *w, const struct request *request)
{
    return atomic_load(&w->stopping) || is_short(w->settings, request);
}

bool
reserve_has_room(const struct worker *w, const struct request *request)
{
    return is_free(w, request) || room(w) > 0;
}

bool
reserve_enter(struct executor *x, const struct request *request)
{
    struct worker *w = x->worker;

    if (is_free(w, request)) {
        return true;
    }
    /* Marked before counting: of two threads that look at the same moment, none
     * overlooks the other. Perhaps both wait, for one tick. */
    atomic_store(&x->score->ordinary, 1);
    if (room(w) >= 0) {
        return true;
    }
    atomic_store(&x->score->ordinary, 0);
    return false;
}

void
reserve_leave(struct executor *x)
{
    if (atomic_load_explicit(&x->score->ordinary, memory_order_relaxed) != 0) {
        atomic_store(&x->score->ordinary, 0);
    }
}

bool
reserve_is_late(const struct worker *w, const struct connection *c)
{
    uint64_t limit = w->settings->queue_timeout * NS_PER_MS;

    return limit > 0 && c->held_ns != 0 &&
           clock_coarse_ns() - c->held_ns >= limit;
}

/* -- connections that are held back -----------------------------------------
 */

static void
arm(struct reserve *r, long ms)
{
    struct itimerspec t = { .it_value = { 0, ms * NS_PER_MS } };

    timerfd_settime(r->timer_fd, 0, &t, NULL);
}

/* For the status, in the slot of the worker's first thread. */
static void
count(struct worker *w, int by)
{
    struct reserve *r = w->reserve;

    r->held = (unsigned)((int)r->held + by);
    atomic_store(&w->executor[0].score->held,
                 (uint16_t)(r->held < UINT16_MAX ? r->held : UINT16_MAX));
}

static void
warn(struct worker *w)
{
    struct reserve *r = w->reserve;
    uint64_t now = clock_coarse_ns();

    if (r->warned_ns == 0 ||
        now - r->warned_ns > (uint64_t)WARN_EVERY_MS * NS_PER_MS) {
        r->warned_ns = now;
        log_warnx("only reserved_slots are left (%u): requests that are not "
                  "short wait; more workers (or threads) are needed if this "
                  "repeats",
                  w->settings->reserved_slots);
    }
}

void
reserve_hold(struct executor *x, struct connection *c)
{
    struct worker *w = x->worker;
    struct reserve *r = w->reserve;

    if (c->held_ns == 0) {
        c->held_ns = clock_coarse_ns();
    }
    c->next_held = NULL;
    pthread_mutex_lock(&r->lock);
    *r->end = c;
    r->end = &c->next_held;
    count(w, 1);
    if (r->held == 1) {
        arm(r, TICK_MS);
    }
    warn(w);
    pthread_mutex_unlock(&r->lock);
    /* While every thread of this worker is busy, the control thread looks. */
    lookout_parked(w);
}

/* Take the one that has waited for longest, or that one among those that can go
 * to a sibling. NULL: none. The lock is held. */
static struct connection *
take_first(struct worker *w, bool to_sibling)
{
    struct reserve *r = w->reserve;
    struct connection **at = &r->first, *c;

    while (to_sibling && *at != NULL && (*at)->saved != NULL) {
        at = &(*at)->next_held;
    }
    c = *at;
    if (c != NULL) {
        *at = c->next_held;
        r->end = c->next_held == NULL ? at : r->end;
        count(w, -1);
    }
    return c;
}

static void
put_back(struct worker *w, struct connection *c)
{
    struct reserve *r = w->reserve;

    pthread_mutex_lock(&r->lock);
    c->next_held = r->first;
    r->end = r->first == NULL ? &c->next_held : r->end;
    r->first = c;
    count(w, 1);
    if (r->held == 1) {
        arm(r, TICK_MS);
    }
    pthread_mutex_unlock(&r->lock);
}

void
reserve_tick(struct executor *x)
{
    struct worker *w = x->worker;
    struct reserve *r = w->reserve;
    struct connection *c = NULL;
    uint64_t expired;

    if (read(r->timer_fd, &expired, sizeof(expired)) < 0) {
        return; /* another thread was faster */
    }
    pthread_mutex_lock(&r->lock);
    if (r->first != NULL && (atomic_load(&w->stopping) || room(w) > 0 ||
                             reserve_is_late(w, r->first))) {
        c = take_first(w, false);
    }
    if (r->first != NULL) {
        arm(r, c != NULL ? 1 : TICK_MS);
    }
    pthread_mutex_unlock(&r->lock);
    if (c != NULL) {
        connection_serve(x, c);
    }
}

void
reserve_pass_on(struct worker *w)
{
    struct reserve *r = w->reserve;

    if (w->queue_out < 0) {
        return;
    }
    for (int left = room(w); left > 0; left--) {
        struct connection *c;

        pthread_mutex_lock(&r->lock);
        c = take_first(w, true);
        pthread_mutex_unlock(&r->lock);
        if (c == NULL) {
            return;
        }
        if (connection_give_away(w, c) != 0) {
            put_back(w, c);
            return;
        }
    }
}
