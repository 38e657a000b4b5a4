/* SPDX-License-Identifier: MIT
 *
 * A file that the front end is to send itself: X-Accel-Redirect (nginx),
 * X-Sendfile (lighttpd, Apache's mod_xsendfile), X-LIGHTTPD-send-file. No
 * Python in it. Worker process, with or without the GIL.
 */
#ifndef FOREBAY_PYTHON_OFFLOAD_H
#define FOREBAY_PYTHON_OFFLOAD_H

#include <stdbool.h>
#include <stdint.h>

#include "protocol/buf.h"
#include "python/wsgi.h"

/* Change the head of a response, which has no end yet, so that the front end
 * sends the file behind fd in its place: its Content-Length goes, since the
 * front end makes one. len: bytes of the file that the response is to have.
 * False: the file is not below a path of sendfile_map, is not sent whole, or
 * has no name; nothing has changed then. */
bool offload_file(const struct wsgi_config *config, struct buf *head, int fd,
                  uint64_t len);

#endif
