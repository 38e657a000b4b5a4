/* SPDX-License-Identifier: MIT
 *
 * See worker_end.h. Manager only.
 */
#include "server/worker_end.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "server/log.h"
#include "server/scoreboard.h"

static const char *
name(const struct generation *g)
{
    return g->settings.name;
}

/* What its threads were doing, for the log. */
static void
tell_requests(struct generation *g, unsigned i)
{
    unsigned k = g->settings.threads;
    char line[SCORE_LINE_MAX], text[4 * SCORE_LINE_MAX];

    for (unsigned t = 0; t < k; t++) {
        struct scoreboard_slot *s = &g->score.slot[i * k + t];

        if (atomic_load(&s->begun_ns) != 0) {
            scoreboard_line(s, line, sizeof(line));
            log_error("pool %s: worker %d was running %s", name(g),
                      g->slot[i].pid,
                      log_escape(text, sizeof(text), line, strlen(line)));
        }
        atomic_store(&s->begun_ns, 0);
        atomic_store(&s->state, SCORE_FREE);
        atomic_store(&s->ordinary, 0);
        atomic_store(&s->held, 0);
    }
}

uint64_t
worker_end_answered(struct generation *g, unsigned i)
{
    unsigned k = g->settings.threads;
    uint64_t sum = 0;

    for (unsigned t = 0; t < k; t++) {
        sum +=
            scoreboard_take(&g->score.slot[i * k + t], &g->history->answered);
    }
    return sum;
}

static void
count_end(struct generation *g, int status)
{
    if (g->stopping) {
        return;
    }
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) {
        g->history->ended++;
    } else {
        g->history->crashed++;
    }
}

static void
tell_end(struct generation *g, unsigned i, int status, uint64_t delay)
{
    int pid = g->slot[i].pid;
    char next[64] = "";

    if (!g->stopping && g->slot[i].state != SLOT_RETIRING) {
        snprintf(next, sizeof(next), "; another one starts%s",
                 delay > 0 ? " after a pause" : "");
    }
    if (WIFSIGNALED(status) && next[0] == '\0' && g->settings.command != NULL &&
        WTERMSIG(status) == SIGUSR1) {
        log_debug("pool %s: program %d has ended: it does not handle SIGUSR1",
                  name(g), pid);
    } else if (WIFSIGNALED(status)) {
        log_error("pool %s: worker %d was killed by signal %d (%s)%s%s",
                  name(g), pid, WTERMSIG(status), strsignal(WTERMSIG(status)),
                  WCOREDUMP(status) ? ", core dumped" : "", next);
    } else if (WEXITSTATUS(status) != 0) {
        log_error("pool %s: worker %d exited with code %d%s", name(g), pid,
                  WEXITSTATUS(status), next);
    } else if (!g->stopping) {
        log_info("pool %s: worker %d has ended%s", name(g), pid, next);
    } else {
        log_debug("pool %s: worker %d has ended", name(g), pid);
    }
}

uint64_t
worker_end_merits(struct generation *g, unsigned i, int status)
{
    return worker_end_answered(g, i) +
           (g->settings.command != NULL && g->slot[i].state == SLOT_READY &&
            WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

void
worker_end_tell(struct generation *g, unsigned i, int status, uint64_t delay)
{
    count_end(g, status);
    tell_end(g, i, status, delay);
    tell_requests(g, i);
}
