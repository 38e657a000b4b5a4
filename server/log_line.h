/* SPDX-License-Identifier: MIT
 *
 * A message for the log while it is put together in memory, outside bytes
 * escaped. Every process; writes nothing.
 */
#ifndef FOREBAY_SERVER_LOG_LINE_H
#define FOREBAY_SERVER_LOG_LINE_H

#include <stddef.h>

/* Cut at its limit, never refused. Begins as zeros and a limit. */
struct log_line {
    char *data; /* owned */
    size_t len, cap, limit;
};

/* Bytes as they are. Out of memory they are left out. */
void log_line_add(struct log_line *l, const char *data, size_t len);

/* One line of text without its newline. Readable text stays readable, UTF-8
 * included; what could move a terminal's cursor or forge a line is escaped. */
void log_line_add_text(struct log_line *l, const char *text, size_t len);

#endif
