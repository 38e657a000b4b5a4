/* SPDX-License-Identifier: MIT
 *
 * See access_log.h.
 */
#include "server/access_log.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "server/clock.h"
#include "server/log.h"

enum { TELL_MS = 1000 };
#define NS_PER_S UINT64_C(1000000000)

struct access_log *
access_log_open(const struct pool_settings *s, int worker, int fd, char *why,
                size_t size)
{
    struct access_log *a = calloc(1, sizeof(*a));

    if (a == NULL) {
        snprintf(why, size, "out of memory");
        return NULL;
    }
    a->format = access_format_new(s->access_format, why, size);
    if (a->format == NULL) {
        free(a);
        return NULL;
    }
    a->fd = fd;
    a->pool = s->name;
    a->worker = worker;
    a->pid = getpid();
    return a;
}

static void
tell_dropped(struct access_log *a)
{
    unsigned long n = atomic_exchange(&a->dropped, 0);

    if (n > 0) {
        log_warnx("access_log: %lu lines were dropped: the manager did not "
                  "read them in time",
                  n);
    }
}

/* Once a second at most. */
static void
tell_now_and_then(struct access_log *a, uint64_t now_ns)
{
    uint64_t told = atomic_load(&a->told_ns);

    if (now_ns - told >= (uint64_t)TELL_MS * NS_PER_MS &&
        atomic_compare_exchange_strong(&a->told_ns, &told, now_ns)) {
        tell_dropped(a);
    }
}

void
access_log_write(struct access_log *a, struct access_entry *e,
                 uint64_t begun_ns, uint64_t ended_ns)
{
    char line[ACCESS_LINE_MAX];
    uint64_t now_ns = clock_now_ns(), ago, day_ns;
    struct timespec now;
    ssize_t n;

    clock_gettime(CLOCK_REALTIME, &now);
    ago = now_ns - begun_ns;
    day_ns = (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec - ago;
    e->begun.tv_sec = (time_t)(day_ns / NS_PER_S);
    e->begun.tv_nsec = (long)(day_ns % NS_PER_S);
    e->took_ns = ended_ns - begun_ns;
    e->pool = a->pool;
    e->worker = a->worker;
    e->pid = a->pid;
    do {
        n = write(a->fd, line, access_format_line(a->format, e, line));
    } while (n < 0 && errno == EINTR);
    if (n < 0) {
        atomic_fetch_add(&a->dropped, 1);
    }
    if (atomic_load_explicit(&a->dropped, memory_order_relaxed) > 0) {
        tell_now_and_then(a, now_ns);
    }
}

void
access_log_end(struct access_log *a)
{
    if (a != NULL) {
        tell_dropped(a);
    }
}
