/* SPDX-License-Identifier: MIT
 *
 * The pipe on which a template or worker sends its log to the manager: what
 * stands on it (log_relay.h reads it), and how messages and the application's
 * text get there whole, whoever else writes. Safe from any thread; GIL not
 * needed.
 */
#ifndef FOREBAY_SERVER_LOG_PIPE_H
#define FOREBAY_SERVER_LOG_PIPE_H

#include <stdbool.h>
#include <stddef.h>

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

/* How long a line waits for a full pipe before it is given up: a log that
 * nobody reads must not stop the service for ever. */
enum { LOG_PATIENCE_MS = 2000 };

/* From now on messages go to fd (a duplicate of the pipe) with the marker. */
void log_to_manager(int fd);

/* Send a message, which is escaped; newlines in it are sent as LOG_NEWLINE.
 * False: there is no such pipe. For log.c. */
bool log_pipe_send(char letter, const char *text, size_t len);

/* Text of the application to fd at once, whether a line
 * ends with it or not. Where fd leads to the manager lines are never mixed with
 * those of another thread, nor with messages, however long they are: *open (of
 * this thread and stream, a small number) says whether a line is begun. What is
 * not read for a while is given up and counted, and the manager told; with wait
 * false nothing is written then, and -EAGAIN returned. 0 or -errno. */
int log_write_text(int fd, unsigned stream, bool *open, const char *text,
                   size_t len, bool wait);

/* The line that this thread has begun there ends. */
void log_end_line(unsigned stream);

#endif
