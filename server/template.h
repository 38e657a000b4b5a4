/* SPDX-License-Identifier: MIT
 *
 * The template of a pool: started afresh by the manager with only the
 * descriptors that it is given, it drops privileges, imports the application
 * once (preload) and forks workers when told to. One thread; no Python runs
 * here once it is ready. When the manager's channel closes it stops its workers
 * and ends.
 */
#ifndef FOREBAY_SERVER_TEMPLATE_H
#define FOREBAY_SERVER_TEMPLATE_H

#include <stdbool.h>

#include "server/executor.h"

struct template_start {
    int channel;    /* to the manager */
    int scoreboard; /* memfd */
    int settings;   /* memfd with settings_write()'s text */
    int queue_in;   /* handover.h, or -1 */
    int queue_out;
    int listen_fd[EXECUTOR_MAX_LISTENERS];
    unsigned listen_count;
    unsigned slots; /* workers at most */
    bool clean;     /* started a second time, without preload: the first
                       import left things behind that must not be forked */
    char **argv;    /* to be started with again */
};

/* Run the template; the exit code. */
int template_main(const struct template_start *start);

/* `forebay check`: only import and make the application of these settings, as
 * the pool's user; say on descriptor 2 what is wrong. The exit code. */
int template_check(int settings);

#endif
