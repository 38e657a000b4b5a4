/* SPDX-License-Identifier: MIT
 *
 * Log lines: build one whole message in memory, write it once. Every process.
 * Keeps no buffer between calls.
 */
#include "server/log.h"

#include <errno.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "server/log_line.h"
#include "server/log_pipe.h"

/* Most messages fit; longer ones are formatted a second time. */
enum { SHORT_MESSAGE = 1024 };

static _Atomic int current_level = LOG_LEVEL_INFO;
static _Atomic bool level_was_set;

/* Where finished lines go in the manager; NULL is descriptor 2. */
static struct log_output *output;
static bool copied; /* to descriptor 2 as well */

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

static bool
is_level(char letter)
{
    return letter != '\0' && strchr("EWIDAS", letter) != NULL;
}

/* Time, level and who, as every line of the log begins. */
static void
add_prefix(struct log_line *l, const struct log_output *out, char letter,
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
        log_line_add(l, who, strlen(who));
        log_line_add(l, ": ", 2);
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
    log_line_add(l, text, strlen(text));
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
            if (poll(&wait, 1, LOG_PATIENCE_MS) == 0) {
                return;
            }
        } else if (errno != EINTR) {
            return;
        }
    }
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
    struct log_line l = { .limit = SIZE_MAX / 2 };
    const char *end;
    size_t n;

    if (out == NULL) {
        out = output != NULL ? output : standard_output(&standard);
    }
    for (;;) {
        end = memchr(text, newline, len);
        n = end != NULL ? (size_t)(end - text) : len;
        add_prefix(&l, out, letter, who);
        log_line_add_text(&l, text, n);
        log_line_add(&l, "\n", 1);
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
    int saved = errno;
    char who[64];

    if (letter_level(letter) <= log_get_level()) {
        while (len > 0 && text[len - 1] == '\n') {
            len--;
        }
        if (!log_pipe_send(letter, text, len)) {
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
    struct log_line l = { .limit = LOG_MESSAGE_MAX };
    char *end;

    if (strchr(text, '\n') == NULL) {
        send_message(level_letter(level), text, strlen(text));
        return;
    }
    while ((end = strchr(text, '\n')) != NULL) {
        log_line_add(&l, text, (size_t)(end - text));
        log_line_add(&l, "\\n", 2);
        text = end + 1;
    }
    log_line_add(&l, text, strlen(text));
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
