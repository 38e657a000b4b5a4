/* SPDX-License-Identifier: MIT
 *
 * The live status of `forebay ctl status --watch`. A tool.
 */
#ifndef FOREBAY_SERVER_CTL_WATCH_H
#define FOREBAY_SERVER_CTL_WATCH_H

#include "server/ctl_options.h"

/* Ask again and again, and show it, until q or a signal. A manager that cannot
 * be reached just now (a restart) is asked again. Returns the exit code. */
int ctl_watch(const struct ctl_options *c);

#endif
