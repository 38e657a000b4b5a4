/* SPDX-License-Identifier: MIT
 *
 * Lines of the access log: a format in the letters of Apache's LogFormat, taken
 * apart once, and a request put into it. Any process, any thread, never waits,
 * never logs.
 *
 *     %h  REMOTE_ADDR            %s  status, - if none was sent (also %>s)
 *     %l  - (for old readers)    %b  bytes of the body, - for 0;  %B  0 for 0
 *     %u  REMOTE_USER            %D  microseconds     %T  seconds it took
 *     %t  [time of the request]  %p  process          %w  number of the worker
 *     %r  request line           %P  pool
 *     %m  method                 %X  "client-closed" or -
 *     %U  path   %q  ?query      %{Name}i  request header
 *     %H  protocol               %{NAME}e  parameter of the front end
 *     %%  a percent sign
 *
 * "json" makes each line an object with a fixed set of members; "common" and
 * "combined" are the formats that web servers call so.
 *
 * What comes from outside is escaped: quotation marks, the backslash, and what
 * is not printable ASCII become \xNN, so that a line can be taken apart again.
 * JSON is valid whatever the bytes are: those that are not UTF-8 become the
 * characters of the same number (latin-1).
 */
#ifndef FOREBAY_SERVER_ACCESS_FORMAT_H
#define FOREBAY_SERVER_ACCESS_FORMAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "protocol/request.h"

/* Lines are never longer: what one write() puts into a pipe in one piece
 * (PIPE_BUF, pipe(7)). */
enum { ACCESS_LINE_MAX = 4096 };

/* One request that is over. */
struct access_entry {
    const struct request *request;
    struct timespec begun; /* time of day */
    uint64_t took_ns;
    int status; /* 0: none */
    uint64_t body_bytes;
    bool client_closed; /* before it had the whole answer */
    const char *pool;
    int worker;
    long pid;
};

struct access_format;

/* Take a format apart. NULL with a sentence in why. Whoever asked owns it. */
struct access_format *access_format_new(const char *text, char *why,
                                        size_t size);
void access_format_free(struct access_format *f);

/* Only look whether it is one. 0, or -1 with a sentence in why. */
int access_format_check(const char *text, char *why, size_t size);

/* One line with its newline into out; returns its length. What does not fit is
 * left out. */
size_t access_format_line(const struct access_format *f,
                          const struct access_entry *e,
                          char out[ACCESS_LINE_MAX]);

#endif
