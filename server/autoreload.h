/* SPDX-License-Identifier: MIT
 *
 * autoreload = yes: watches the folders that the application's code comes from
 * (its working directory, that of its file, pythonpath) and tells when a source
 * file changes. For development.
 *
 * Manager only, on its loop.
 */
#ifndef FOREBAY_SERVER_AUTORELOAD_H
#define FOREBAY_SERVER_AUTORELOAD_H

#include <uv.h>

#include "conf/settings.h"

struct autoreload;

/* Begin to watch; changed is called some moments after the last of a burst of
 * changes. NULL: out of memory (logged). s is read now only. */
struct autoreload *
autoreload_start(uv_loop_t *loop, const struct pool_settings *s,
                 void (*changed)(const char *file, void *ctx), void *ctx);

/* Stop and free, once the loop has closed its handles. NULL is fine. */
void autoreload_stop(struct autoreload *a);

#endif
