/* SPDX-License-Identifier: MIT
 *
 * See log_pipe.h. Template and worker. The only lock is held while a line is
 * written to the pipe, and a fork waits for it, so that a child finds it free.
 */
#include "server/log_pipe.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "server/log_line.h"

/* Text of one piece of a line. */
enum { PIECE_MAX = 32 * 1024 };

static _Atomic int manager_fd = -1;
static ino_t manager_ino; /* of it; 0: there is none */
static dev_t manager_dev;

/* Held while lines go into the pipe to the manager. Up to PIPE_BUF bytes the
 * kernel keeps a write whole; longer ones it may take in pieces when the pipe
 * is full (pipe(7)), and then another thread would get between them. */
static pthread_mutex_t pipe_lock = PTHREAD_MUTEX_INITIALIZER;

/* Both under pipe_lock. Whoever reads has not read for a while: it is not
 * waited for again. */
static bool stuck;
static unsigned long long lost; /* bytes, not yet told */

static void
lock_pipe(void)
{
    pthread_mutex_lock(&pipe_lock);
}

static void
unlock_pipe(void)
{
    pthread_mutex_unlock(&pipe_lock);
}

void
log_to_manager(int fd)
{
    static atomic_flag registered = ATOMIC_FLAG_INIT;
    struct stat st;

    if (!atomic_flag_test_and_set(&registered)) {
        pthread_atfork(lock_pipe, unlock_pipe, unlock_pipe);
    }
    manager_ino = 0;
    if (fd >= 0 && fstat(fd, &st) == 0) {
        manager_ino = st.st_ino;
        manager_dev = st.st_dev;
    }
    atomic_store_explicit(&manager_fd, fd, memory_order_relaxed);
}

/* Room for PIPE_BUF bytes (pipe(7)). */
static bool
has_room(int fd, int timeout_ms)
{
    struct pollfd wait = { .fd = fd, .events = POLLOUT };

    return poll(&wait, 1, timeout_ms) != 0;
}

/* A manager that was stopped, or has no time, must not stop the service. */
static int
write_patiently(int fd, const char *data, size_t len)
{
    while (len > 0) {
        ssize_t n;

        if (!has_room(fd, stuck ? 0 : LOG_PATIENCE_MS)) {
            stuck = true;
            lost += len;
            return -EAGAIN;
        }
        n = write(fd, data, len < PIPE_BUF ? len : PIPE_BUF);
        if (n >= 0) {
            stuck = false;
            data += n;
            len -= (size_t)n;
        } else if (errno != EINTR && errno != EAGAIN) {
            return -errno;
        }
    }
    return 0;
}

/* How much is missing, once there is room again. */
static void
tell_lost(int fd)
{
    char text[128];
    int n = snprintf(text, sizeof(text),
                     LOG_MARK "W%llu bytes for the log were lost: the manager "
                              "did not read them\n",
                     lost);

    if (has_room(fd, 0) && write(fd, text, (size_t)n) == n) {
        lost = 0;
    }
}

/* 0 or -errno. wait false: only what can be written at once, all of it. */
static int
write_pipe(int fd, const char *data, size_t len, bool wait)
{
    int manager = atomic_load_explicit(&manager_fd, memory_order_relaxed);
    int rc;

    if (wait) {
        lock_pipe();
    } else if (len > PIPE_BUF || pthread_mutex_trylock(&pipe_lock) != 0) {
        return -EAGAIN;
    }
    if (!wait && (lost > 0 || !has_room(fd, 0))) {
        rc = -EAGAIN;
    } else {
        if (lost > 0 && manager >= 0) {
            tell_lost(manager);
        }
        rc = write_patiently(fd, data, len);
    }
    unlock_pipe();
    return rc;
}

/* The application may have put a file in its place (dup2()): that gets the text
 * and nothing else. */
static bool
leads_to_manager(int fd)
{
    struct stat st;

    return manager_ino != 0 && fstat(fd, &st) == 0 &&
           st.st_ino == manager_ino && st.st_dev == manager_dev;
}

/* The mark, the letter and the number of this thread and stream. */
static void
add_piece_head(struct log_line *l, char letter, unsigned stream)
{
    char head[LOG_MARK_LEN + 1 + LOG_ID_LEN + 1];

    snprintf(head, sizeof(head), LOG_MARK "%c%0*llx", letter, LOG_ID_LEN,
             (unsigned long long)gettid() << 4 | (stream & 15));
    log_line_add(l, head, sizeof(head) - 1);
}

static void
add_piece(struct log_line *l, unsigned stream, const char *text, size_t len,
          bool last)
{
    for (;;) {
        size_t n = len < PIECE_MAX ? len : PIECE_MAX;

        add_piece_head(l, last && n == len ? 'Q' : 'P', stream);
        log_line_add(l, text, n);
        log_line_add(l, "\n", 1);
        text += n;
        len -= n;
        if (len == 0) {
            break;
        }
    }
}

/* The rest of the line that is begun, whole lines, the beginning of one. */
static bool
add_pieces(struct log_line *l, unsigned stream, bool open, const char *text,
           size_t len)
{
    const char *end = memchr(text, '\n', len);
    size_t n = end != NULL ? (size_t)(end - text) : 0;

    if (open && end != NULL) {
        add_piece(l, stream, text, n, true);
        open = false;
        text += n + 1;
        len -= n + 1;
    }
    end = memrchr(text, '\n', len);
    n = end != NULL ? (size_t)(end - text) + 1 : 0;
    log_line_add(l, text, n);
    if (len > n) {
        add_piece(l, stream, text + n, len - n, false);
        open = true;
    }
    return open;
}

int
log_write_text(int fd, unsigned stream, bool *open, const char *text,
               size_t len, bool wait)
{
    struct log_line l = { .limit = SIZE_MAX / 2 };
    bool opens;
    int rc;

    if (len == 0) {
        return 0;
    }
    if ((!*open && text[len - 1] == '\n') || !leads_to_manager(fd)) {
        return write_pipe(fd, text, len, wait);
    }
    opens = add_pieces(&l, stream, *open, text, len);
    rc = write_pipe(fd, l.data, l.len, wait);
    if (wait || rc == 0) {
        *open = opens;
    }
    free(l.data);
    return rc;
}

void
log_end_line(unsigned stream)
{
    int fd = atomic_load_explicit(&manager_fd, memory_order_relaxed);
    struct log_line l = { .limit = LOG_MESSAGE_MAX };

    if (fd >= 0) {
        add_piece(&l, stream, "", 0, true);
        write_pipe(fd, l.data, l.len, true);
        free(l.data);
    }
}

bool
log_pipe_send(char letter, const char *text, size_t len)
{
    int fd = atomic_load_explicit(&manager_fd, memory_order_relaxed);
    struct log_line l = { .limit = LOG_MESSAGE_MAX - 1 };
    char newline = LOG_NEWLINE;
    const char *end;

    if (fd < 0) {
        return false;
    }
    log_line_add(&l, LOG_MARK, LOG_MARK_LEN);
    log_line_add(&l, &letter, 1);
    while ((end = memchr(text, '\n', len)) != NULL) {
        log_line_add_text(&l, text, (size_t)(end - text));
        log_line_add(&l, &newline, 1);
        len -= (size_t)(end - text) + 1;
        text = end + 1;
    }
    log_line_add_text(&l, text, len);
    l.limit++;
    log_line_add(&l, "\n", 1);
    write_pipe(fd, l.data, l.len, true);
    free(l.data);
    return true;
}
