/* SPDX-License-Identifier: MIT
 *
 * A question of `forebay ctl` to the manager, and its answer (control.h). A
 * tool; prints nothing.
 */
#ifndef FOREBAY_SERVER_CTL_ASK_H
#define FOREBAY_SERVER_CTL_ASK_H

#include <stddef.h>

#include "protocol/buf.h"
#include "server/ctl_options.h"

enum { CTL_ANSWER_MAX = 256 * 1024 * 1024 };

/* Ask what c->line says, and leave in answer what came behind "ok". 0, or -1
 * with a sentence. */
int ctl_ask(const struct ctl_options *c, struct buf *answer, char *why,
            size_t size);

#endif
