/* SPDX-License-Identifier: MIT
 *
 * A request as the JSON object that access_format = json asks for. Any process,
 * any thread, never waits.
 */
#ifndef FOREBAY_SERVER_ACCESS_JSON_H
#define FOREBAY_SERVER_ACCESS_JSON_H

#include "server/access_line.h"

/* The whole object, without a newline. */
void access_put_json(struct access_line *l, const struct access_entry *e);

#endif
