/* SPDX-License-Identifier: MIT
 *
 * What the pools are doing, computed from the scoreboards when somebody asks:
 * as JSON, as a table for people, as Prometheus text. Numbers are derived from
 * the slots at that moment, never from counters that could drift apart: idle +
 * busy + starting + stopping is what is listed.
 *
 * Manager only, on its loop.
 */
#ifndef FOREBAY_SERVER_STATUS_H
#define FOREBAY_SERVER_STATUS_H

#include <jansson.h>

#include "protocol/buf.h"
#include "server/pool.h"

/* A new reference; any bytes that peers sent are valid JSON text (each byte one
 * character, U+0000 to U+00FF). NULL: out of memory. */
json_t *status_json(const struct pool *pools, uint64_t started_ms);

/* Append to out. 0, or -1 out of memory. */
int status_table(const struct pool *pools, uint64_t started_ms,
                 struct buf *out);
int status_metrics(const struct pool *pools, uint64_t started_ms,
                   struct buf *out);

#endif
