/* SPDX-License-Identifier: MIT
 *
 * See overtime.h.
 */
#include "server/overtime.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "python/deadline.h"
#include "python/errors.h"
#include "server/clock.h"
#include "server/log.h"

enum { TRACE_WAIT_MS = 200, TRACE_MAX = 16384 };

bool
overtime_is_on(const struct worker *w)
{
    return w->settings->slow_request > 0 || w->settings->request_timeout > 0;
}

int
overtime_setup(struct worker *w)
{
    int fd[2];

    w->trace_fd = -1;
    if (!overtime_is_on(w)) {
        return 0;
    }
    if (pipe2(fd, O_CLOEXEC | O_NONBLOCK) != 0) {
        log_warn("slow_request: a pipe for stacks");
        return -1;
    }
    if (deadline_setup(fd[1]) != 0) {
        errors_log_exception("setting up slow_request and request_timeout");
        close(fd[0]);
        close(fd[1]);
        return -1;
    }
    w->trace_fd = fd[0];
    return 0;
}

/* The stack of a thread as text; its length. The text is complete when nothing
 * more comes for a moment. */
static size_t
read_stack(struct worker *w, struct executor *x, char *out, size_t size)
{
    struct pollfd p = { .fd = w->trace_fd, .events = POLLIN };
    size_t len = 0;
    ssize_t n;

    while (read(w->trace_fd, out, size) > 0) {
    }
    if (deadline_trace(x->thread) != 0) {
        return 0;
    }
    for (int wait = TRACE_WAIT_MS; len < size && poll(&p, 1, wait) == 1;
         wait = 5) {
        n = read(w->trace_fd, out + len, size - len);
        if (n <= 0) {
            break;
        }
        len += (size_t)n;
    }
    return len;
}

static void
report_slow(struct worker *w, struct executor *x, uint64_t age_ms)
{
    static const char none[] =
        "(no stack: the application has blocked the signal that asks for it)";
    char line[SCORE_LINE_MAX], shown[4 * SCORE_LINE_MAX];
    char text[TRACE_MAX];
    int used;
    size_t len;

    scoreboard_line(x->score, line, sizeof(line));
    used =
        snprintf(text, sizeof(text),
                 "slow request: %s runs for %" PRIu64 ".%03u s in thread %td\n",
                 log_escape(shown, sizeof(shown), line, strlen(line)),
                 age_ms / 1000, (unsigned)(age_ms % 1000), x - w->executor);
    len = read_stack(w, x, text + used, sizeof(text) - (size_t)used);
    if (len == 0) {
        memcpy(text + used, none, sizeof(none));
        len = sizeof(none) - 1;
    }
    log_text('S', text, (size_t)used + len);
}

/* The request may have ended, and the next one begun, while the GIL was waited
 * for. */
static bool
is_meant(void *ctx)
{
    struct executor *x = ctx;

    return atomic_load(&x->score->begun_ns) == atomic_load(&x->raised_ns);
}

/* Waits for the GIL, which a stuck extension module may hold for ever; the
 * control thread must not. One at a time per worker: the next is raised when
 * this one is done, or waits for the manager's knife as well. */
static void *
raise_main(void *arg)
{
    struct executor *x = arg;

    deadline_raise_nogil(x->wsgi, is_meant, x);
    atomic_store(&x->worker->raising, false);
    return NULL;
}

/* w->raising has been set for it. */
static void
raise_in(struct worker *w, struct executor *x, uint64_t begun)
{
    sigset_t all, old;
    pthread_t thread;
    int rc;

    atomic_store(&x->raised_ns, begun);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    rc = pthread_create(&thread, NULL, raise_main, x);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (rc == 0) {
        pthread_detach(thread);
    } else {
        atomic_store(&w->raising, false);
    }
}

static void
tell_end(struct executor *x)
{
    char line[SCORE_LINE_MAX], shown[4 * SCORE_LINE_MAX];

    scoreboard_line(x->score, line, sizeof(line));
    log_error("request_timeout: %s is told to end (forebay.RequestTimeout)",
              log_escape(shown, sizeof(shown), line, strlen(line)));
}

static void
check_one(struct worker *w, struct executor *x, uint64_t now)
{
    const struct pool_settings *s = w->settings;
    uint64_t begun = atomic_load(&x->score->begun_ns);
    uint64_t age_ms;

    if (begun == 0 || now <= begun ||
        atomic_load(&x->score->state) == SCORE_AFTER) {
        return;
    }
    age_ms = (now - begun) / NS_PER_MS;
    if (s->slow_request > 0 && age_ms >= s->slow_request &&
        x->traced_ns != begun) {
        x->traced_ns = begun;
        report_slow(w, x, age_ms);
    }
    if (s->request_timeout > 0 && age_ms >= s->request_timeout &&
        atomic_load(&x->raised_ns) != begun &&
        !atomic_exchange(&w->raising, true)) {
        if (s->slow_request == 0) {
            report_slow(w, x, age_ms);
        }
        tell_end(x);
        raise_in(w, x, begun);
    }
}

void
overtime_check(struct worker *w)
{
    uint64_t now = clock_now_ns();

    if (w->trace_fd < 0) {
        return;
    }
    for (unsigned i = 0; i < w->settings->threads; i++) {
        check_one(w, &w->executor[i], now);
    }
}
