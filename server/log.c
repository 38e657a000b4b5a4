/* SPDX-License-Identifier: MIT
 *
 * Log lines: build one whole message in memory, write it once. Every process.
 * Keeps no buffer between calls. The only lock is held while a line is written
 * to the manager's pipe, and a fork waits for it, so that a child finds it
 * free.
 */
#include "server/log.h"

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
#include <time.h>
#include <unistd.h>

/* How long a line waits for a full pipe before it is given up: a log that
 * nobody reads must not stop the service for ever. */
enum { WRITE_PATIENCE_MS = 2000 };

/* Most messages fit; longer ones are formatted a second time. */
enum { SHORT_MESSAGE = 1024 };

/* Text of one piece of a line. */
enum { PIECE_MAX = 32 * 1024 };

static _Atomic int current_level = LOG_LEVEL_INFO;
static _Atomic bool level_was_set;
static _Atomic int manager_fd = -1;
static ino_t manager_ino; /* of it; 0: there is none */
static dev_t manager_dev;

/* Where finished lines go in the manager; NULL is descriptor 2. */
static struct log_output *output;
static bool copied; /* to descriptor 2 as well */

/* Held while lines go into the pipe to the manager. Up to PIPE_BUF bytes the
 * kernel keeps a write whole; longer ones it may take in pieces when the pipe
 * is full (pipe(7)), and then another thread would get between them. */
static pthread_mutex_t pipe_lock = PTHREAD_MUTEX_INITIALIZER;

/* A message being put together; cut at its limit, never refused. */
struct line {
    char *data; /* owned */
    size_t len, cap, limit;
};

void
log_set_level(enum log_level level)
{
    atomic_store_explicit(&level_was_set, true, memory_order_relaxed);
    atomic_store_explicit(&current_level, (int)level, memory_order_relaxed);
}

void
log_suggest_level(enum log_level level)
{
    if (!atomic_load_explicit(&level_was_set, memory_order_relaxed)) {
        atomic_store_explicit(&current_level, (int)level, memory_order_relaxed);
    }
}

int
log_level_named(const char *name, enum log_level *ret)
{
    static const char *const names[] = { "error", "warn", "info", "debug" };

    for (int i = 0; i < 4; i++) {
        if (strcmp(name, names[i]) == 0) {
            *ret = (enum log_level)i;
            return 0;
        }
    }
    return -1;
}

enum log_level
log_get_level(void)
{
    return (enum log_level)atomic_load_explicit(&current_level,
                                                memory_order_relaxed);
}

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

void
log_set_output(struct log_output *out)
{
    output = out;
}

void
log_copy_to_stderr(bool on)
{
    copied = on;
}

struct log_output *
log_get_output(void)
{
    return output;
}

static char
level_letter(enum log_level level)
{
    switch (level) {
    case LOG_LEVEL_ERROR:
        return 'E';
    case LOG_LEVEL_WARN:
        return 'W';
    case LOG_LEVEL_DEBUG:
        return 'D';
    case LOG_LEVEL_INFO:
        break;
    }
    return 'I';
}

static enum log_level
letter_level(char letter)
{
    switch (letter) {
    case 'E':
    case 'S': /* asked for by name (slow_request) */
        return LOG_LEVEL_ERROR;
    case 'W':
        return LOG_LEVEL_WARN;
    case 'D':
        return LOG_LEVEL_DEBUG;
    default:
        return LOG_LEVEL_INFO;
    }
}

static void
line_add(struct line *l, const char *data, size_t len)
{
    size_t cap;
    char *grown;

    if (len > l->limit - l->len) {
        len = l->limit - l->len;
    }
    if (l->len + len > l->cap) {
        cap = (l->len + len) * 2;
        grown = realloc(l->data, cap);
        if (grown == NULL) {
            return;
        }
        l->data = grown;
        l->cap = cap;
    }
    if (len > 0) {
        memcpy(l->data + l->len, data, len);
        l->len += len;
    }
}

static void
line_add_hex(struct line *l, unsigned char byte)
{
    static const char hex[] = "0123456789abcdef";
    char text[4] = { '\\', 'x', hex[byte >> 4], hex[byte & 15] };

    /* An escape that would be cut in half is left out. */
    if (l->limit - l->len >= sizeof(text)) {
        line_add(l, text, sizeof(text));
    }
}

/* Length of the printable character of UTF-8 at p (RFC 3629, section 4), 0 when
 * the bytes are none: malformed, overlong, a surrogate, or a C1 control, which
 * some terminals obey. */
static size_t
utf8_printable(const unsigned char *p, size_t len)
{
    size_t n;
    unsigned long code;
    static const unsigned long least[] = { 0, 0, 0xa0, 0x800, 0x10000 };

    if (p[0] >= 0xc2 && p[0] <= 0xdf) {
        n = 2;
        code = p[0] & 0x1f;
    } else if ((p[0] & 0xf0) == 0xe0) {
        n = 3;
        code = p[0] & 0x0f;
    } else if (p[0] >= 0xf0 && p[0] <= 0xf4) {
        n = 4;
        code = p[0] & 0x07;
    } else {
        return 0;
    }
    if (len < n) {
        return 0;
    }
    for (size_t i = 1; i < n; i++) {
        if ((p[i] & 0xc0) != 0x80) {
            return 0;
        }
        code = code << 6 | (p[i] & 0x3f);
    }
    if (code < least[n] || code > 0x10ffff ||
        (code >= 0xd800 && code <= 0xdfff)) {
        return 0;
    }
    return n;
}

/* One line of text without its newline. Readable text stays readable, UTF-8
 * included; what could move a terminal's cursor or forge a line is escaped. */
static void
line_add_text(struct line *l, const char *text, size_t len)
{
    const unsigned char *p = (const unsigned char *)text;
    size_t i = 0, start, n;

    while (i < len) {
        start = i;
        while (i < len && ((p[i] >= 0x20 && p[i] < 0x7f) || p[i] == '\t')) {
            i++;
        }
        line_add(l, text + start, i - start);
        if (i == len) {
            break;
        }
        n = p[i] >= 0x80 ? utf8_printable(p + i, len - i) : 0;
        if (n > 0) {
            if (l->limit - l->len >= n) {
                line_add(l, text + i, n);
            }
            i += n;
        } else {
            line_add_hex(l, p[i]);
            i++;
        }
    }
}

static bool
is_level(char letter)
{
    return letter != '\0' && strchr("EWIDAS", letter) != NULL;
}

/* Time, level and who, as every line of the log begins. */
static void
line_add_prefix(struct line *l, const struct log_output *out, char letter,
                const char *who)
{
    static const char letters[] = "EWIDAS";
    static const char *const word[] = { "ERROR", "WARN", "INFO",
                                        "DEBUG", "app",  "SLOW" };
    static const char *const colour[] = { "\033[31m", "\033[33m", "",
                                          "",         "",         "\033[33m" };
    size_t level = (size_t)(strchr(letters, letter) - letters);
    struct timespec now;
    struct tm tm;
    char stamp[64], text[256];
    bool coloured = out->coloured && colour[level][0] != '\0';

    if (out->bare) {
        line_add(l, who, strlen(who));
        line_add(l, ": ", 2);
        return;
    }
    clock_gettime(CLOCK_REALTIME, &now);
    if (localtime_r(&now.tv_sec, &tm) == NULL ||
        strftime(stamp, sizeof(stamp), "%Y-%m-%d %H:%M:%S", &tm) == 0) {
        stamp[0] = '\0';
    }
    snprintf(text, sizeof(text), "%s.%03ld %s%-5s%s %s: ", stamp,
             now.tv_nsec / 1000000, coloured ? colour[level] : "", word[level],
             coloured ? "\033[0m" : "", who);
    line_add(l, text, strlen(text));
}

/* All of it, in one write where the descriptor takes it. */
static void
write_whole(int fd, const char *data, size_t len)
{
    struct pollfd wait = { .fd = fd, .events = POLLOUT };
    ssize_t n;

    while (len > 0) {
        n = write(fd, data, len);
        if (n >= 0) {
            data += n;
            len -= (size_t)n;
        } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
            if (poll(&wait, 1, WRITE_PATIENCE_MS) == 0) {
                return;
            }
        } else if (errno != EINTR) {
            return;
        }
    }
}

/* -- the pipe to the manager -------------------------------------------------
 * All of it under pipe_lock.
 */

/* Whoever reads has not read for a while: it is not waited for again. */
static bool stuck;
static unsigned long long lost; /* bytes, not yet told */

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

        if (!has_room(fd, stuck ? 0 : WRITE_PATIENCE_MS)) {
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
line_add_piece_head(struct line *l, char letter, unsigned stream)
{
    char head[LOG_MARK_LEN + 1 + LOG_ID_LEN + 1];

    snprintf(head, sizeof(head), LOG_MARK "%c%0*llx", letter, LOG_ID_LEN,
             (unsigned long long)gettid() << 4 | (stream & 15));
    line_add(l, head, sizeof(head) - 1);
}

static void
line_add_piece(struct line *l, unsigned stream, const char *text, size_t len,
               bool last)
{
    for (;;) {
        size_t n = len < PIECE_MAX ? len : PIECE_MAX;

        line_add_piece_head(l, last && n == len ? 'Q' : 'P', stream);
        line_add(l, text, n);
        line_add(l, "\n", 1);
        text += n;
        len -= n;
        if (len == 0) {
            break;
        }
    }
}

/* The rest of the line that is begun, whole lines, the beginning of one. */
static bool
line_add_pieces(struct line *l, unsigned stream, bool open, const char *text,
                size_t len)
{
    const char *end = memchr(text, '\n', len);
    size_t n = end != NULL ? (size_t)(end - text) : 0;

    if (open && end != NULL) {
        line_add_piece(l, stream, text, n, true);
        open = false;
        text += n + 1;
        len -= n + 1;
    }
    end = memrchr(text, '\n', len);
    n = end != NULL ? (size_t)(end - text) + 1 : 0;
    line_add(l, text, n);
    if (len > n) {
        line_add_piece(l, stream, text + n, len - n, false);
        open = true;
    }
    return open;
}

int
log_write_text(int fd, unsigned stream, bool *open, const char *text,
               size_t len, bool wait)
{
    struct line l = { .limit = SIZE_MAX / 2 };
    bool opens;
    int rc;

    if (len == 0) {
        return 0;
    }
    if ((!*open && text[len - 1] == '\n') || !leads_to_manager(fd)) {
        return write_pipe(fd, text, len, wait);
    }
    opens = line_add_pieces(&l, stream, *open, text, len);
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
    struct line l = { .limit = LOG_MESSAGE_MAX };

    if (fd >= 0) {
        line_add_piece(&l, stream, "", 0, true);
        write_pipe(fd, l.data, l.len, true);
        free(l.data);
    }
}

/* For the manager: mark, level, the lines joined by LOG_NEWLINE. */
static void
send_marked(int fd, char letter, const char *text, size_t len)
{
    struct line l = { .limit = LOG_MESSAGE_MAX - 1 };
    char newline = LOG_NEWLINE;
    const char *end;

    line_add(&l, LOG_MARK, LOG_MARK_LEN);
    line_add(&l, &letter, 1);
    while ((end = memchr(text, '\n', len)) != NULL) {
        line_add_text(&l, text, (size_t)(end - text));
        line_add(&l, &newline, 1);
        len -= (size_t)(end - text) + 1;
        text = end + 1;
    }
    line_add_text(&l, text, len);
    l.limit++;
    line_add(&l, "\n", 1);
    write_pipe(fd, l.data, l.len, true);
    free(l.data);
}

/* Where messages go that have no output of their own. */
static struct log_output *
standard_output(struct log_output *standard)
{
    *standard = (struct log_output){ 0 };
    standard->coloured =
        getenv("NO_COLOR") == NULL && isatty(STDERR_FILENO) == 1;
    return standard;
}

/* For people: each line of the message with the prefix. newline: what stands
 * between them. */
static void
send_prefixed(struct log_output *out, char letter, const char *who,
              const char *text, size_t len, char newline)
{
    struct log_output standard;
    struct line l = { .limit = SIZE_MAX / 2 };
    const char *end;
    size_t n;

    if (out == NULL) {
        out = output != NULL ? output : standard_output(&standard);
    }
    for (;;) {
        end = memchr(text, newline, len);
        n = end != NULL ? (size_t)(end - text) : len;
        line_add_prefix(&l, out, letter, who);
        line_add_text(&l, text, n);
        line_add(&l, "\n", 1);
        if (n == len) {
            break;
        }
        text += n + 1;
        len -= n + 1;
    }
    if (l.len > 0 && l.data[l.len - 1] != '\n') { /* out of memory */
        l.data[l.len - 1] = '\n';
    }
    if (out->write != NULL) {
        out->write(out, letter, l.data, l.len);
    }
    if (out->write == NULL || copied) {
        write_whole(STDERR_FILENO, l.data, l.len);
    }
    free(l.data);
}

void
log_relay(struct log_output *out, char level, const char *who, const char *text,
          size_t len)
{
    if (!is_level(level)) {
        level = 'I';
    }
    if (level == 'A' || letter_level(level) <= log_get_level()) {
        send_prefixed(out, level, who, text, len,
                      level == 'A' ? '\n' : LOG_NEWLINE);
    }
}

static void
send_message(char letter, const char *text, size_t len)
{
    int fd, saved = errno;
    char who[64];

    if (letter_level(letter) <= log_get_level()) {
        while (len > 0 && text[len - 1] == '\n') {
            len--;
        }
        fd = atomic_load_explicit(&manager_fd, memory_order_relaxed);
        if (fd >= 0) {
            send_marked(fd, letter, text, len);
        } else {
            snprintf(who, sizeof(who), "forebay[%ld]", (long)getpid());
            send_prefixed(NULL, letter, who, text, len, '\n');
        }
    }
    errno = saved;
}

/* A formatted message is one line whatever its arguments hold: a newline that
 * came from outside must not begin a line of its own. */
static void
send_one_line(enum log_level level, char *text)
{
    struct line l = { .limit = LOG_MESSAGE_MAX };
    char *end;

    if (strchr(text, '\n') == NULL) {
        send_message(level_letter(level), text, strlen(text));
        return;
    }
    while ((end = strchr(text, '\n')) != NULL) {
        line_add(&l, text, (size_t)(end - text));
        line_add(&l, "\\n", 2);
        text = end + 1;
    }
    line_add(&l, text, strlen(text));
    if (l.data != NULL) {
        send_message(level_letter(level), l.data, l.len);
    }
    free(l.data);
}

static void __attribute__((format(printf, 3, 0)))
send_format(enum log_level level, int error, const char *fmt, va_list args)
{
    char small[SHORT_MESSAGE], *text = small, *large = NULL;
    char reason[128] = "", reason_text[96];
    va_list again;
    size_t need;
    int n;

    if (level > log_get_level()) {
        return;
    }
    if (error != 0) {
        snprintf(reason, sizeof(reason), ": %s",
                 strerror_r(error, reason_text, sizeof(reason_text)));
    }
    va_copy(again, args);
    n = vsnprintf(small, sizeof(small) - sizeof(reason), fmt, args);
    if (n >= (int)(sizeof(small) - sizeof(reason))) {
        need = (size_t)n + sizeof(reason);
        large = malloc(need);
        if (large != NULL) {
            vsnprintf(large, need, fmt, again);
            text = large;
        }
    }
    va_end(again);
    if (n >= 0) {
        strcat(text, reason);
        send_one_line(level, text);
    }
    free(large);
}

void
log_error(const char *fmt, ...)
{
    int saved = errno;
    va_list args;

    va_start(args, fmt);
    send_format(LOG_LEVEL_ERROR, 0, fmt, args);
    va_end(args);
    errno = saved;
}

void
log_warnx(const char *fmt, ...)
{
    int saved = errno;
    va_list args;

    va_start(args, fmt);
    send_format(LOG_LEVEL_WARN, 0, fmt, args);
    va_end(args);
    errno = saved;
}

void
log_warn(const char *fmt, ...)
{
    int saved = errno;
    va_list args;

    va_start(args, fmt);
    send_format(LOG_LEVEL_WARN, saved, fmt, args);
    va_end(args);
    errno = saved;
}

void
log_info(const char *fmt, ...)
{
    int saved = errno;
    va_list args;

    va_start(args, fmt);
    send_format(LOG_LEVEL_INFO, 0, fmt, args);
    va_end(args);
    errno = saved;
}

void
log_debug(const char *fmt, ...)
{
    int saved = errno;
    va_list args;

    va_start(args, fmt);
    send_format(LOG_LEVEL_DEBUG, 0, fmt, args);
    va_end(args);
    errno = saved;
}

void
log_text(char level, const char *text, size_t len)
{
    send_message(is_level(level) && level != 'A' ? level : 'I', text, len);
}

char *
log_escape(char *out, size_t size, const char *data, size_t len)
{
    static const char hex[] = "0123456789abcdef";
    size_t used = 0;

    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)data[i];
        size_t need = c == '\\' ? 2 : c >= 0x20 && c <= 0x7e ? 1 : 4;

        if (used + need >= size) {
            break;
        }
        if (need == 4) {
            out[used++] = '\\';
            out[used++] = 'x';
            out[used++] = hex[c >> 4];
            out[used++] = hex[c & 15];
        } else {
            if (need == 2) {
                out[used++] = '\\';
            }
            out[used++] = (char)c;
        }
    }
    out[used] = '\0';
    return out;
}
