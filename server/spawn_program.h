/* SPDX-License-Identifier: MIT
 *
 * The programs of `forebay spawn`: started on an open socket, looked at for a
 * moment, left alone. Tool; never logs: sentences go to descriptor 2.
 */
#ifndef FOREBAY_SERVER_SPAWN_PROGRAM_H
#define FOREBAY_SERVER_SPAWN_PROGRAM_H

/* Nothing of it is owned. */
struct spawn_program {
    const char *name;     /* of this tool, in front of its sentences */
    char **words;         /* program and arguments, NULL behind them; or NULL */
    const char *shell;    /* instead of words: a line for /bin/sh */
    int socket_fd;        /* becomes its descriptor 0 */
    int null_fd;          /* becomes 1 and 2; /dev/null */
    int pid_fd;           /* for the process numbers; -1: not wanted */
    const char *pid_path; /* the name of that file, for sentences */
};

/* Become the program. Returns only when it cannot be run: the exit code. */
int spawn_program_become(const struct spawn_program *p);

/* Start it count times, and say which of them run. 0, or the exit code of the
 * last one that does not; 255 when there was no process for one. */
int spawn_program_start(const struct spawn_program *p, int count);

#endif
