/* SPDX-License-Identifier: MIT
 *
 * See nursery.h.
 */
#include "server/nursery.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "server/channel.h"
#include "server/clock.h"
#include "server/log.h"

enum { ASK_MS = 500, SETTLE_MS = 100, REMIND_MS = 250 };

int
nursery_init(struct nursery *n)
{
    n->child = calloc(n->slots, sizeof(*n->child));
    if (n->child == NULL) {
        return -1;
    }
    for (unsigned i = 0; i < n->slots; i++) {
        n->child[i] = (struct nursery_child){ .pidfd = -1, .channel = -1 };
    }
    n->children = 0;
    n->stopping = false;
    n->siblings = 0;
    n->remind_at_ns = 0;
    n->kill_at_ns = 0;
    return 0;
}

/* -- children ---------------------------------------------------------------
 */

static void
leave_to_child(struct nursery *n)
{
    for (unsigned i = 0; i < n->slots; i++) {
        if (n->child[i].pid != 0) {
            close(n->child[i].pidfd);
            if (n->child[i].channel >= 0) {
                close(n->child[i].channel);
            }
        }
    }
    close(n->channel);
    if (n->kill_group) {
        setpgid(0, 0);
    }
}

static void
spawn(struct nursery *n, int slot, int log_fd)
{
    struct nursery_child *child = &n->child[slot];
    char why[128];
    int pair[2];
    pid_t pid;

    if (child->pid != 0 || channel_pair(pair) < 0) {
        channel_say(n->channel, CHANNEL_WORKER_FAILED, slot, 0, 0,
                    "no channel for a worker");
        return;
    }
    pid = n->ops->fork(n->ctx);
    if (pid == 0) {
        close(pair[0]);
        leave_to_child(n);
        n->ops->become(n->ctx, slot, pair[1], log_fd);
        _exit(1);
    }
    close(pair[1]);
    if (pid < 0) {
        snprintf(why, sizeof(why), "fork: %s", strerror(errno));
        close(pair[0]);
        channel_say(n->channel, CHANNEL_WORKER_FAILED, slot, 0, 0, why);
        return;
    }
    child->pid = pid;
    child->channel = pair[0];
    child->pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
    n->children++;
    channel_say(n->channel, CHANNEL_FORKED, slot, pid, 0, NULL);
}

static void
kill_child(struct nursery *n, int slot)
{
    pid_t pid = n->child[slot].pid;

    if (pid != 0) {
        kill(n->kill_group ? -pid : pid, SIGKILL);
    }
}

static void
reap(struct nursery *n, int slot)
{
    struct nursery_child *child = &n->child[slot];
    int status;

    pid_t rc = waitpid(child->pid, &status, WNOHANG);

    if (rc == -1 && errno == ECHILD) {
        status = 0; /* somebody has waited for it, or nobody need */
    } else if (rc != child->pid) {
        return;
    }
    if (n->kill_group) {
        kill(-child->pid, SIGKILL); /* what it left running */
    }
    channel_say(n->channel, CHANNEL_EXITED, slot, child->pid, status, NULL);
    if (child->channel >= 0) {
        close(child->channel);
    }
    if (child->pidfd >= 0) {
        close(child->pidfd);
    }
    *child = (struct nursery_child){ .pidfd = -1, .channel = -1 };
    n->children--;
}

/* Pass on what a child says. */
static void
hear_child(struct nursery *n, int slot)
{
    struct nursery_child *child = &n->child[slot];
    struct channel_message m;
    int fd = -1;
    int rc = channel_receive(child->channel, &m, &fd);

    if (fd >= 0) {
        close(fd);
    }
    if (rc == 1) {
        if (m.type == CHANNEL_WORKER_READY || m.type == CHANNEL_WORKER_FAILED) {
            child->failed = m.type == CHANNEL_WORKER_FAILED;
            channel_say(n->channel, m.type, slot, child->pid, m.value, m.text);
        }
    } else if (rc != -EAGAIN) {
        close(child->channel);
        child->channel = -1;
        if (n->ops->ready_at_close && !child->failed) {
            child->ready_at_ns = clock_now_ns() + SETTLE_MS * NS_PER_MS;
        }
    }
}

/* Of programs: most that cannot serve end at once. */
static void
look_whether_settled(struct nursery *n, int slot)
{
    struct nursery_child *child = &n->child[slot];

    if (child->pid != 0 && child->ready_at_ns != 0 &&
        clock_now_ns() >= child->ready_at_ns) {
        child->ready_at_ns = 0;
        channel_say(n->channel, CHANNEL_WORKER_READY, slot, child->pid, 0,
                    NULL);
    }
}

static void
stop_child(struct nursery *n, int slot)
{
    struct nursery_child *child = &n->child[slot];

    if (child->pid == 0) {
        return;
    }
    if (n->ops->stop_signal != 0) {
        kill(child->pid, n->ops->stop_signal);
        child->told = true;
        n->remind_at_ns = clock_now_ns() + REMIND_MS * NS_PER_MS;
    } else if (child->channel >= 0) {
        channel_say(child->channel, CHANNEL_STOP, slot, 0, n->siblings, NULL);
    }
}

/* A program that was about to wait for a connection when the signal came may
 * have noted it, and waits all the same (libfcgi does): the next one wakes it.
 */
static void
remind(struct nursery *n)
{
    if (n->remind_at_ns == 0 || clock_now_ns() < n->remind_at_ns) {
        return;
    }
    n->remind_at_ns = 0;
    for (unsigned i = 0; i < n->slots; i++) {
        if (n->child[i].told) {
            stop_child(n, (int)i);
        }
    }
}

static void
for_slots(struct nursery *n, int slot, void (*fn)(struct nursery *, int))
{
    if (slot >= 0 && (unsigned)slot < n->slots) {
        fn(n, slot);
    } else if (slot == -1) {
        for (unsigned i = 0; i < n->slots; i++) {
            fn(n, (int)i);
        }
    }
}

/* -- orders -----------------------------------------------------------------
 */

static void
manager_gone(struct nursery *n)
{
    log_warnx("the manager is gone: workers finish what they have and end");
    n->stopping = true;
    n->siblings = 0;
    close(n->channel);
    n->channel = -1;
    n->kill_at_ns = clock_now_ns() + n->graceful_ms * NS_PER_MS + 1;
    for_slots(n, -1, stop_child);
}

static void
obey(struct nursery *n)
{
    struct channel_message m;
    int fd = -1;
    int rc = channel_receive(n->channel, &m, &fd);

    if (rc == -EAGAIN) {
        return;
    }
    if (rc <= 0) {
        manager_gone(n);
        return;
    }
    switch (m.type) {
    case CHANNEL_SPAWN:
        if (m.slot >= 0 && (unsigned)m.slot < n->slots && fd >= 0) {
            spawn(n, m.slot, fd);
        }
        break;
    case CHANNEL_STOP:
        if (m.slot == -1 && !n->stopping) {
            n->stopping = true;
            if (n->ops->stopping != NULL) {
                n->ops->stopping(n->ctx);
            }
        }
        n->siblings = m.value;
        for_slots(n, m.slot, stop_child);
        break;
    case CHANNEL_KILL:
        for_slots(n, m.slot, kill_child);
        break;
    default:
        log_error("order %d of the manager is not known here", m.type);
    }
    if (fd >= 0) {
        close(fd);
    }
}

/* Without a pidfd (no descriptor was left) a child has to be asked after. */
static bool
must_ask(const struct nursery *n)
{
    for (unsigned i = 0; i < n->slots; i++) {
        if (n->child[i].pid != 0 && n->child[i].pidfd < 0) {
            return true;
        }
    }
    return false;
}

static int
wait_timeout_ms(struct nursery *n)
{
    uint64_t now = clock_now_ns(), next = n->kill_at_ns;

    for (unsigned i = 0; i < n->slots; i++) {
        uint64_t at = n->child[i].pid != 0 ? n->child[i].ready_at_ns : 0;

        next = at != 0 && (next == 0 || at < next) ? at : next;
    }
    if (n->remind_at_ns != 0 && (next == 0 || n->remind_at_ns < next)) {
        next = n->remind_at_ns;
    }
    if (next == 0) {
        return must_ask(n) ? ASK_MS : -1;
    }
    if (n->kill_at_ns != 0 && now >= n->kill_at_ns) {
        log_warnx("graceful_timeout has passed: killing %u workers",
                  n->children);
        for_slots(n, -1, kill_child);
        n->kill_at_ns = 0;
        return 0;
    }
    return next > now ? (int)((next - now) / NS_PER_MS) + 1 : 0;
}

/* One entry for the manager and two for each child (what it says, its end);
 * slots without one have none: poll(2) refuses more entries than a process may
 * have descriptors. slot[] says whose an entry is. How many. */
static nfds_t
fill(struct nursery *n, struct pollfd *p, int *slot)
{
    nfds_t count = 0;

    p[count++] = (struct pollfd){ n->channel, POLLIN, 0 };
    for (unsigned i = 0; i < n->slots; i++) {
        if (n->child[i].pid != 0) {
            slot[count] = slot[count + 1] = (int)i;
            p[count++] = (struct pollfd){ n->child[i].channel, POLLIN, 0 };
            p[count++] = (struct pollfd){ n->child[i].pidfd, POLLIN, 0 };
        }
    }
    return count;
}

static void
look(struct nursery *n, const struct pollfd *p, const int *slot, nfds_t count)
{
    for (nfds_t k = 1; k + 1 < count; k += 2) {
        if (p[k].revents != 0) {
            hear_child(n, slot[k]);
        }
        if (p[k + 1].revents != 0 || p[k + 1].fd < 0) {
            reap(n, slot[k]);
        }
    }
    if (n->ops->ready_at_close) {
        for_slots(n, -1, look_whether_settled);
    }
    remind(n);
    if (p[0].revents != 0) {
        obey(n);
    }
}

void
nursery_run(struct nursery *n)
{
    size_t entries = 2 * (size_t)n->slots + 1;
    struct pollfd *p = calloc(entries, sizeof(*p));
    int *slot = calloc(entries + 1, sizeof(*slot));

    if (p == NULL || slot == NULL) {
        log_error("out of memory in the template");
        free(p);
        free(slot);
        return;
    }
    while (!n->stopping || n->children > 0) {
        nfds_t count = fill(n, p, slot);

        if (poll(p, count, wait_timeout_ms(n)) >= 0) {
            look(n, p, slot, count);
        } else if (errno != EINTR) {
            log_error("the template cannot wait for its %u workers: %s; it "
                      "ends (is the limit of open files too low?)",
                      n->children, strerror(errno));
            break;
        }
    }
    free(p);
    free(slot);
}
