/* SPDX-License-Identifier: MIT
 *
 * One thing that lines are written to, and how: descriptor 2, a file, a FIFO or
 * device, syslog, journald. Knows no queue; log_sink.c decides what is written
 * when, and on which thread.
 *
 * Manager only. Calls for one target never overlap.
 */
#ifndef FOREBAY_SERVER_LOG_TARGET_H
#define FOREBAY_SERVER_LOG_TARGET_H

#include <stdbool.h>
#include <stddef.h>

enum log_target_kind {
    TARGET_STREAM, /* poll() tells whether there is room */
    TARGET_FILE,
    TARGET_SYSLOG,
    TARGET_JOURNAL,
};

struct log_target {
    enum log_target_kind kind;
    int fd;       /* -1: none (yet) */
    bool is_path; /* can be opened anew */
};

/* Open "stderr", "syslog", "journald" or a path. 0, or -1 with a sentence in
 * why. A syslog that is not there yet is no error; it is looked for again at
 * each write. */
int log_target_open(struct log_target *t, const char *name, char *why,
                    size_t size);

/* Open the path again and close the old file. On failure (-1, why) the old one
 * stays. */
int log_target_reopen(struct log_target *t, const char *name, char *why,
                      size_t size);

void log_target_close(struct log_target *t);

/* log_target_write() may take its time: not to be called on the loop. */
static inline bool
log_target_is_slow(const struct log_target *t)
{
    return t->kind == TARGET_FILE || t->kind == TARGET_JOURNAL;
}

/* It adds the time by itself, and wants a digit in front of each line: the
 * severity of syslog(3). */
static inline bool
log_target_is_bare(const struct log_target *t)
{
    return t->kind == TARGET_SYSLOG || t->kind == TARGET_JOURNAL;
}

/* Write whole lines. 0, or -errno (-EAGAIN: no room now), and in *ret_taken how
 * many bytes were taken; that may end within a line where the target is a
 * stream of bytes, and the next call goes on there. */
int log_target_write(struct log_target *t, const char *data, size_t len,
                     size_t *ret_taken);

#endif
