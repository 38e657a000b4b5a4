/* SPDX-License-Identifier: MIT
 *
 * What the manager gives a template when it executes it: descriptors, as
 * arguments with their numbers, and the settings in a memfd. Template (Python
 * or program).
 */
#ifndef FOREBAY_SERVER_TEMPLATE_ARGS_H
#define FOREBAY_SERVER_TEMPLATE_ARGS_H

#include <stdbool.h>
#include <stddef.h>

#include "conf/settings.h"
#include "server/executor_limits.h"

struct template_start {
    int channel;    /* to the manager */
    int scoreboard; /* memfd */
    int settings;   /* memfd with settings_write()'s text */
    int queue_in;   /* handover.h, or -1 */
    int queue_out;
    int access; /* pipe of the access log, or -1 */
    int listen_fd[EXECUTOR_MAX_LISTENERS];
    unsigned listen_count;
    unsigned slots; /* workers at most */
    bool clean;     /* started a second time, without preload: the first import
                       left things behind that must not be forked */
    char **argv;    /* to be started with again; room for one more */
};

/* 0, or -1: not what the manager writes. Copies argv, whose memory may be
 * overwritten with a title afterwards. */
int template_args_read(int argc, char **argv, struct template_start *ret);

/* Every descriptor among them, -1-terminated; ret has room for
 * TEMPLATE_MAX_DESCRIPTORS. */
enum { TEMPLATE_MAX_DESCRIPTORS = EXECUTOR_MAX_LISTENERS + 7 };
void template_args_descriptors(const struct template_start *start, int *ret);

/* Whether a program that this process executes gets them (FD_CLOEXEC or 0). */
void template_args_set_flag(const struct template_start *start, int flag);

/* Settings from their memfd. 0, or -1 with a sentence. */
int template_args_settings(const struct template_start *start,
                           struct pool_settings *ret, char *why, size_t size);

/* Become what the pool's settings say: limits, root folder, user and groups,
 * capabilities, no_new_privs, umask, working directory, environment; checked
 * where the kernel could have refused in silence. No privilege of the manager's
 * is left afterwards. 0, or -1 with a sentence; the process must end then. */
int template_args_confine(const struct pool_settings *s, char *why,
                          size_t size);

#endif
