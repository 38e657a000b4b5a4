/* SPDX-License-Identifier: MIT
 *
 * The path of a request as the server itself needs it: for pages of its own
 * (pool_page.h) and for what it decides by the path (reserve.h).
 *
 * Worker process, any executor thread; GIL not needed.
 */
#ifndef FOREBAY_SERVER_REQUEST_PATH_H
#define FOREBAY_SERVER_REQUEST_PATH_H

#include <stdbool.h>

#include "protocol/buf.h"
#include "protocol/cgi.h"
#include "protocol/request.h"

/* The path that the application would see, decoded, mount and all. It points
 * into the request or into scratch (initialised by the caller, cleared first).
 * False: the request has none that could be served. */
bool request_path(const struct request *r, struct buf *scratch,
                  struct cgi_text *ret);

#endif
