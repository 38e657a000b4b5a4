/* SPDX-License-Identifier: MIT
 *
 * Looks at the scoreboard of a generation at intervals and does what follows:
 * more workers or fewer (scaling.h), replacement of those that are used up,
 * an end for those whose request is past every deadline, a word about those
 * that are stopped.
 *
 * Manager only, on its loop.
 */
#ifndef FOREBAY_SERVER_SUPERVISE_H
#define FOREBAY_SERVER_SUPERVISE_H

#include "server/generation.h"

/* Prepare the timer (once); begin to look when the generation serves. */
void supervise_init(struct generation *g);
void supervise_begin(struct generation *g);

/* Something has changed: look now. */
void supervise_now(struct generation *g);

/* No more workers are started or let go from here on. */
void supervise_end(struct generation *g);

#endif
