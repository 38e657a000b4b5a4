/* SPDX-License-Identifier: MIT
 *
 * Log lines. Every process; safe from any thread; GIL not needed.
 *
 * In the manager (and the tools) lines go to a struct log_output, at first
 * descriptor 2, with time, level, pool and pid in front. In a template or
 * worker descriptor 2 is a pipe to the manager, which is the only writer of the
 * log: log_to_manager() (log_pipe.h) makes every message one write with a
 * marker in front, and the manager puts the prefix on it (log_relay.h). Outside
 * bytes are escaped on the way out.
 */
#ifndef FOREBAY_SERVER_LOG_H
#define FOREBAY_SERVER_LOG_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

enum log_level {
    LOG_LEVEL_ERROR,
    LOG_LEVEL_WARN,
    LOG_LEVEL_INFO,
    LOG_LEVEL_DEBUG
};

/* Lines above this level are not written; the default is LOG_LEVEL_INFO. */
void log_set_level(enum log_level level);
enum log_level log_get_level(void);

/* The level that a configuration asks for: it counts as long as log_set_level()
 * was never called. */
void log_suggest_level(enum log_level level);

/* The level of a name (error, warn, info, debug). 0, or -1: there is none. */
int log_level_named(const char *name, enum log_level *ret);

void log_error(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void log_warnx(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void log_info(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void log_debug(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* With ": " and strerror(errno) behind it. */
void log_warn(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* Any bytes, newlines allowed; level as in errors_set_log(), or 'S': a report
 * about a slow request, which has a log of its own where the pool names one. */
void log_text(char level, const char *text, size_t len);

/* -- in the manager ---------------------------------------------------------
 */

/* Where finished lines go. write() gets one message, its lines each with a
 * newline behind it, and its level letter; it must not block. */
struct log_output {
    void (*write)(struct log_output *out, char level, const char *lines,
                  size_t len);
    bool bare;     /* it adds time and level itself */
    bool coloured; /* for eyes */
};

/* Messages of the manager itself go there. NULL: to descriptor 2. */
void log_set_output(struct log_output *out);
struct log_output *log_get_output(void);

/* From now on (or no longer) what goes to an output is written to descriptor 2
 * as well: for somebody who looks on while a manager starts. */
void log_copy_to_stderr(bool on);

/* The output of a template or worker, one message or line, with time, level and
 * who ("main[123]") in front, to out (NULL as above). level is a letter, or 'A'
 * for what the application wrote itself. */
void log_relay(struct log_output *out, char level, const char *who,
               const char *text, size_t len);

/* Escape len bytes into out (size > 0, always terminated): control characters
 * and bytes above 0x7e as \xNN, backslash doubled. Returns out. */
char *log_escape(char *out, size_t size, const char *data, size_t len);

#endif
