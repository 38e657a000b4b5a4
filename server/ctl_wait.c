/* SPDX-License-Identifier: MIT
 *
 * See ctl_wait.h. A tool.
 */
#include "server/ctl_wait.h"

#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <time.h>

#include "server/clock.h"

static volatile sig_atomic_t interrupted;

/* Signals that end the live status come while waiting, and only then. NULL:
 * they end the program as usual. */
static sigset_t *wait_mask;

static void
on_interrupt(int signo)
{
    (void)signo;
    interrupted = 1;
}

static void
on_resize(int signo)
{
    (void)signo; /* waiting ends, and the picture is drawn again */
}

void
ctl_wait_for_signals(void)
{
    static const int signals[] = { SIGINT, SIGTERM, SIGHUP, SIGWINCH };
    static sigset_t usual;
    sigset_t held;

    sigemptyset(&held);
    for (int i = 0; i < 4; i++) {
        struct sigaction action = { .sa_handler = signals[i] == SIGWINCH
                                                      ? on_resize
                                                      : on_interrupt };

        sigaddset(&held, signals[i]);
        sigaction(signals[i], &action, NULL);
    }
    sigprocmask(SIG_BLOCK, &held, &usual);
    wait_mask = &usual;
}

int
ctl_wait_readable(int fd, int64_t timeout_ms)
{
    struct pollfd p = { .fd = fd, .events = POLLIN };
    struct timespec t = { timeout_ms / 1000, timeout_ms % 1000 * NS_PER_MS };

    return ppoll(&p, 1, timeout_ms >= 0 ? &t : NULL, wait_mask);
}

bool
ctl_wait_interrupted(void)
{
    return interrupted != 0;
}
