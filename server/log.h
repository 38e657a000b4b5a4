/* SPDX-License-Identifier: MIT
 *
 * Log lines. Every process; safe from any thread; GIL not needed.
 *
 * In the manager (and the tools) lines go to a struct log_output, at first
 * descriptor 2, with time, level, pool and pid in front. In a template or
 * worker descriptor 2 is a pipe to the manager, which is the only writer of the
 * log: log_to_manager() makes every message one write with a marker in front,
 * and the manager puts the prefix on it (log_relay.h). Outside bytes are
 * escaped on the way out.
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

/* A message of a template or worker begins with these bytes and its level
 * letter (E W I D, or S), is one write of at most LOG_MESSAGE_MAX bytes, and
 * ends with a newline; newlines inside are sent as LOG_NEWLINE. With the letter
 * P it is a piece of a line of the application, with Q the last one: behind it
 * stand LOG_ID_LEN hexadecimal digits, the same for all pieces of one thread.
 * Everything else on the pipe are whole lines of the application, and text that
 * came past Python, which may stand in front of a mark. */
#define LOG_MARK "\x1e\x1f\x1e"
enum {
    LOG_MARK_LEN = sizeof(LOG_MARK) - 1,
    LOG_NEWLINE = 0x1f,
    LOG_MESSAGE_MAX = 65000,
    LOG_ID_LEN = 16,
};

/* Lines above this level are not written; the default is LOG_LEVEL_INFO. */
void log_set_level(enum log_level level);
enum log_level log_get_level(void);

/* The level that a configuration asks for: it counts as long as log_set_level()
 * was never called. */
void log_suggest_level(enum log_level level);

/* The level of a name (error, warn, info, debug). 0, or -1: there is none. */
int log_level_named(const char *name, enum log_level *ret);

/* From now on messages go to fd (a duplicate of the pipe) with the marker. */
void log_to_manager(int fd);

void log_error(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void log_warnx(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void log_info(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void log_debug(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* With ": " and strerror(errno) behind it. */
void log_warn(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* Any bytes, newlines allowed; level as in errors_set_log(), or 'S': a report
 * about a slow request, which has a log of its own where the pool names one. */
void log_text(char level, const char *text, size_t len);

/* Template and worker: text of the application to fd at once, whether a line
 * ends with it or not. Where fd leads to the manager lines are never mixed with
 * those of another thread, nor with messages, however long they are: *open (of
 * this thread and stream, a small number) says whether a line is begun. What is
 * not read for a while is given up and counted, and the manager told; with wait
 * false nothing is written then, and -EAGAIN returned. 0 or -errno. */
int log_write_text(int fd, unsigned stream, bool *open, const char *text,
                   size_t len, bool wait);

/* The line that this thread has begun there ends. */
void log_end_line(unsigned stream);

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
