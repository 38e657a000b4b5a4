/* SPDX-License-Identifier: MIT
 *
 * The process of a template: which descriptors and arguments it is started with
 * (template_args.h reads them), and what connects it with the manager. Manager
 * only.
 */
#ifndef FOREBAY_SERVER_TEMPLATE_LAUNCH_H
#define FOREBAY_SERVER_TEMPLATE_LAUNCH_H

#include <uv.h>

#include "server/generation.h"
#include "server/listener_set.h"

/* Start program for g, of which process, channel and log are set. queue: as
 * generation_start(). access: the workers' end of the access log, or -1; stays
 * the caller's. on_exit finds g in process->data. 0 or -errno; g->process.data
 * is set as soon as the loop knows the handle. */
int template_launch(struct generation *g, const struct listener_set *listeners,
                    const int *queue, const char *program, int access,
                    uv_exit_cb on_exit);

#endif
