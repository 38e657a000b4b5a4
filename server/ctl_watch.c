/* SPDX-License-Identifier: MIT
 *
 * See ctl_watch.h. A tool.
 */
#include "server/ctl_watch.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "protocol/buf.h"
#include "server/ctl_ask.h"
#include "server/ctl_wait.h"

/* Can this terminal place the cursor? */
static bool
is_terminal(void)
{
    const char *term = getenv("TERM");

    return isatty(STDOUT_FILENO) && term != NULL && term[0] != '\0' &&
           strcmp(term, "dumb") != 0;
}

/* Keys come at once, and are not shown; Ctrl-C stays a signal. */
static bool
set_keys(struct termios *ret_saved)
{
    struct termios t;

    if (!isatty(STDIN_FILENO) || tcgetattr(STDIN_FILENO, ret_saved) != 0) {
        return false;
    }
    t = *ret_saved;
    t.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
    t.c_cc[VMIN] = 0;
    t.c_cc[VTIME] = 0;
    return tcsetattr(STDIN_FILENO, TCSANOW, &t) == 0;
}

/* As much as there is room for, from the top left corner. */
static void
draw(const char *text, size_t len)
{
    struct winsize size = { 0 };
    unsigned rows = 24, columns = 80, row = 0;

    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > 0) {
        rows = size.ws_row;
        columns = size.ws_col;
    }
    fputs("\033[H", stdout);
    while (len > 0 && row < rows) {
        const char *newline = memchr(text, '\n', len);
        size_t n = newline != NULL ? (size_t)(newline - text) : len;
        size_t shown = n < columns ? n : columns;

        /* No newline behind the last one: it would scroll. */
        printf("%s%.*s\033[K", row > 0 ? "\r\n" : "", (int)shown, text);
        row++;
        n += newline != NULL;
        text += n;
        len -= n;
    }
    fputs("\033[J", stdout);
    fflush(stdout);
}

/* Wait for the next picture. False: it is enough. */
static bool
pause_for(unsigned ms, bool keys)
{
    char key;

    if (ctl_wait_readable(keys ? STDIN_FILENO : -1, ms) > 0) {
        return read(STDIN_FILENO, &key, 1) == 1 && key != 'q' && key != 'Q';
    }
    return !ctl_wait_interrupted();
}

int
ctl_watch(const struct ctl_options *c)
{
    bool terminal = is_terminal(), keys;
    struct termios saved;
    char why[1024];
    int rc = 0;

    ctl_wait_for_signals();
    keys = terminal && set_keys(&saved);
    if (terminal) {
        fputs("\033[?1049h\033[?25l", stdout); /* another screen, no cursor */
    }
    do {
        struct buf answer;

        buf_init(&answer, CTL_ANSWER_MAX);
        if (ctl_ask(c, &answer, why, sizeof(why)) != 0) {
            buf_clear(&answer);
            buf_append_str(&answer, why);
            buf_append_str(&answer, "\n");
        }
        if (terminal) {
            draw(answer.data, answer.len);
        } else {
            fwrite(answer.data, 1, answer.len, stdout);
            fputc('\n', stdout);
            rc = fflush(stdout);
        }
        buf_release(&answer);
    } while (rc == 0 && !ctl_wait_interrupted() &&
             pause_for(c->watch_ms, keys));
    if (terminal) {
        fputs("\033[?25h\033[?1049l", stdout);
        fflush(stdout);
    }
    if (keys) {
        tcsetattr(STDIN_FILENO, TCSANOW, &saved);
    }
    return 0;
}
