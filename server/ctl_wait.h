/* SPDX-License-Identifier: MIT
 *
 * Where `forebay ctl` waits, and the signals that end it there. A tool.
 */
#ifndef FOREBAY_SERVER_CTL_WAIT_H
#define FOREBAY_SERVER_CTL_WAIT_H

#include <stdbool.h>
#include <stdint.h>

/* Until fd (-1: none) can be read, or timeout_ms are over (-1: never). As
 * poll(2): 1, 0, or -1 with errno, EINTR for a signal. */
int ctl_wait_readable(int fd, int64_t timeout_ms);

/* From now on INT, TERM and HUP do not end the program, but are seen by
 * ctl_wait_interrupted(); WINCH ends the waiting, too. */
void ctl_wait_for_signals(void);
bool ctl_wait_interrupted(void);

#endif
