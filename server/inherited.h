/* SPDX-License-Identifier: MIT
 *
 * Descriptors that a process was started with. Manager and tools, before they
 * open anything.
 */
#ifndef FOREBAY_SERVER_INHERITED_H
#define FOREBAY_SERVER_INHERITED_H

#include <stdbool.h>

/* 0, 1 and 2 are open afterwards, if need be on /dev/null: whoever opens these
 * next must not get a descriptor that everybody takes for a standard stream. */
void inherited_open_standard(void);

/* Descriptors that a careless parent left open (mod_fcgid, h2o) end here: at
 * exec, or with now at once, when nothing above 2 can be meant for us. */
void inherited_close(bool now);

#endif
