/* SPDX-License-Identifier: MIT
 *
 * Warm-up requests: the pool's `warmup` paths, run once in the template before
 * the first fork, so that what they import and fill is shared by all workers.
 *
 * Template; GIL held.
 */
#ifndef FOREBAY_SERVER_WARMUP_H
#define FOREBAY_SERVER_WARMUP_H

#include "conf/settings.h"
#include "python/app.h"

/* 0 (also when a request failed: that is logged), or -1 with a sentence when
 * the application cannot be called at all. */
int warmup_run(const struct pool_settings *s, const struct app_name *name,
               PyObject *imported, char *why, size_t size);

#endif
