/* SPDX-License-Identifier: MIT
 *
 * Which parameters `forebay request` sends: those of a front end, of the URL
 * and of the body, and what the command line adds, changes and leaves out. The
 * tool only; reads a body whose length is needed, sends nothing.
 */
#ifndef FOREBAY_SERVER_REQUEST_COMPOSE_H
#define FOREBAY_SERVER_REQUEST_COMPOSE_H

#include <stddef.h>

#include "server/request_options.h"

/* Make o->message whole. host: as message_url() gives it. 0, or the exit code
 * of what was wrong and was said. */
int request_compose(const struct request_options *o, char *host,
                    size_t host_size);

/* REQUEST_METHOD: as named, or as the body makes it. */
const char *request_method(const struct request_options *o);

#endif
