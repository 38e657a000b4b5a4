/* SPDX-License-Identifier: MIT
 *
 * See ctl.h. Reads top to bottom: options, a question and its answer, the live
 * status, the command.
 */
#include "server/ctl.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sysexits.h>
#include <termios.h>
#include <unistd.h>

#include "conf/config.h"
#include "protocol/buf.h"
#include "server/address.h"
#include "server/clock.h"
#include "server/control.h"

static const char usage[] =
    "usage: forebay ctl [--control PATH | -c FILE] COMMAND\n"
    "\n"
    "Talk to the forebay that runs.\n"
    "\n"
    "  status [--json]        what pools and workers do now\n"
    "  status --watch [SECONDS]  the same, again and again; q ends it\n"
    "  metrics                the same for Prometheus\n"
    "  ping                   is it there?\n"
    "  reload [POOL]          new configuration and code; ends when the new\n"
    "                         workers serve, or fails and says why\n"
    "  scale POOL N|+N|-N     so many workers, more, fewer\n"
    "  drain [POOL] [--timeout TIME]  take nothing new, finish what runs;\n"
    "                         without a deadline, unless there is a time\n"
    "  stop                   stop, as SIGTERM does; ends when it has ended\n"
    "  log-reopen             open the log files anew\n"
    "\n"
    "      --control PATH     the manager's control socket; else that of the\n"
    "                         environment's FOREBAY_CONTROL, else\n"
    "                         /run/forebay/control.sock\n"
    "  -c, --config FILE      the socket that this configuration names\n"
    "      --wait TIME        how long the manager may be silent before it is\n"
    "                         taken for dead; default 30s\n"
    "  -h, --help             this text\n"
    "\n"
    "TIME is a number of seconds, or one with ms, s, m or h. Exit codes: 0 "
    "done;\n"
    "1 not done, with a sentence on standard error; 64 usage; 78 FILE is "
    "wrong.\n";

#define DEFAULT_CONTROL "/run/forebay/control.sock"

enum {
    SILENCE_MS = 30000, /* --wait */
    DIAL_MS = 20,       /* between two attempts at a queue that is full */
    ANSWER_MAX = 256 * 1024 * 1024,
    WATCH_MS = 2000,
    WATCH_MIN_MS = 100,
    WATCH_MAX_MS = 3600 * 1000,
};

struct ctl {
    char control[256];
    char line[CONTROL_LINE_MAX]; /* what is said to the manager */
    bool given;                  /* the socket was named */
    bool help;
    bool json;
    bool patient; /* the answer may take its time, as long as the manager is
                     alive */
    uint64_t silence_ms;
    uint64_t timeout_ms; /* of drain; 0: none was given */
    unsigned watch_ms;
};

static int __attribute__((format(printf, 2, 3)))
complain(int code, const char *fmt, ...)
{
    va_list args;

    fflush(stdout);
    fprintf(stderr, "forebay ctl: ");
    va_start(args, fmt);
    vfprintf(stderr, fmt, args);
    va_end(args);
    fputc('\n', stderr);
    return code;
}

/* -- options ----------------------------------------------------------------
 */

static int
set_control(struct ctl *c, const char *path)
{
    if (c->given) {
        return complain(EX_USAGE, "name the socket once: --control PATH or "
                                  "-c FILE");
    }
    c->given = true;
    if (strlen(path) >= sizeof(c->control)) {
        return complain(EX_USAGE, "%s: the path is too long", path);
    }
    snprintf(c->control, sizeof(c->control), "%s", path);
    return 0;
}

static int
read_config(struct ctl *c, const char *file)
{
    struct conf_error err = { 0 };
    struct config config;
    char text[1024];
    int code;

    if (config_read(file, &config, &err) != 0) {
        return complain(EX_CONFIG, "%s",
                        conf_error_format(&err, text, sizeof(text)));
    }
    if (config.manager.control != NULL) {
        code = set_control(c, config.manager.control);
    } else {
        code = complain(EX_CONFIG,
                        "%s names no control socket (control = PATH in "
                        "[forebay])",
                        file);
    }
    config_release(&config);
    return code;
}

/* "2", "0.5" */
static int
set_watch(struct ctl *c, const char *text)
{
    char *end;
    double seconds = strtod(text, &end);

    if (*end != '\0' || end == text || !(seconds * 1000 >= WATCH_MIN_MS) ||
        !(seconds * 1000 <= WATCH_MAX_MS)) {
        return complain(EX_USAGE,
                        "--watch takes seconds, from 0.1 to 3600, not \"%s\"",
                        text);
    }
    c->watch_ms = (unsigned)(seconds * 1000);
    return 0;
}

/* A time as in the configuration, and not 0. */
static int
set_time(const char *option, const char *text, uint64_t *ret_ms)
{
    struct pool_settings s;
    struct conf_error err;
    int code = 0;

    if (settings_init(&s) != 0) {
        return complain(1, "out of memory");
    }
    if (settings_set(&s, "graceful_timeout", text, &err) != 0 ||
        s.graceful_timeout == 0) {
        code = complain(EX_USAGE,
                        "%s takes a time such as 30, 500ms or 5m, not \"%s\"",
                        option, text);
    }
    *ret_ms = s.graceful_timeout;
    settings_release(&s);
    return code;
}

static int
add_word(struct ctl *c, const char *word)
{
    size_t used = strlen(c->line);

    if (word[0] == '\0' || strpbrk(word, " \t\r\n") != NULL) {
        return complain(EX_USAGE, "\"%s\" is no word of a command", word);
    }
    if (used + strlen(word) + 2 > sizeof(c->line)) {
        return complain(EX_USAGE, "the command is too long");
    }
    snprintf(c->line + used, sizeof(c->line) - used, "%s%s",
             used > 0 ? " " : "", word);
    return 0;
}

/* The value of the option at argv[*i]: behind '=' or the next word. NULL: there
 * is none. */
static const char *
value_of(const char *name, int argc, char **argv, int *i)
{
    size_t len = strlen(name);

    if (argv[*i][len] == '=') {
        return argv[*i] + len + 1;
    }
    return *i + 1 < argc ? argv[++*i] : NULL;
}

static bool
is_option(const char *word, const char *name)
{
    size_t len = strlen(name);

    return strncmp(word, name, len) == 0 &&
           (word[len] == '\0' || (word[len] == '=' && word[1] == '-'));
}

static int
read_option(struct ctl *c, int argc, char **argv, int *i)
{
    static const char *const names[] = { "--control", "--timeout", "--wait",
                                         "--config", "-c" };
    const char *word = argv[*i], *value;

    for (int n = 0; n < 5; n++) {
        if (is_option(word, names[n])) {
            value = value_of(names[n], argc, argv, i);
            if (value == NULL) {
                return complain(EX_USAGE, "%s needs a value", names[n]);
            }
            return n == 0   ? set_control(c, value)
                   : n == 1 ? set_time(names[n], value, &c->timeout_ms)
                   : n == 2 ? set_time(names[n], value, &c->silence_ms)
                            : read_config(c, value);
        }
    }
    if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0) {
        c->help = true;
        return 0;
    }
    if (strcmp(word, "--json") == 0) {
        c->json = true;
        return 0;
    }
    if (is_option(word, "--watch")) {
        c->watch_ms = WATCH_MS;
        if (word[7] == '=') {
            return set_watch(c, word + 8);
        }
        if (*i + 1 < argc && isdigit((unsigned char)argv[*i + 1][0])) {
            return set_watch(c, argv[++*i]);
        }
        return 0;
    }
    return complain(EX_USAGE, "there is no option %s; see forebay ctl --help",
                    word);
}

/* -N of scale is no option. */
static bool
is_number(const char *word)
{
    return word[0] == '-' && isdigit((unsigned char)word[1]);
}

/* What can be wrong with a command is said here, so that a slip has the exit
 * code of one; the manager checks again. */
static const struct verb {
    const char *name;
    int min_words, max_words; /* behind the name */
    const char *words;
    bool patient;
} verbs[] = {
    { "status", 0, 0, "", false },
    { "metrics", 0, 0, "", false },
    { "ping", 0, 0, "", false },
    { "log-reopen", 0, 0, "", true },
    { "reload", 0, 1, " [POOL]", true },
    { "stop", 0, 0, "", true },
    { "drain", 0, 1, " [POOL] [--timeout TIME]", true },
    { "scale", 2, 2, " POOL N|+N|-N", false },
};

static const struct verb *
find_verb(const char *line)
{
    size_t len = strcspn(line, " ");

    for (size_t i = 0; i < sizeof(verbs) / sizeof(*verbs); i++) {
        if (strlen(verbs[i].name) == len &&
            memcmp(verbs[i].name, line, len) == 0) {
            return &verbs[i];
        }
    }
    return NULL;
}

/* What scale takes: "3", "+1", "-2". */
static bool
is_scale(const char *word)
{
    word += *word == '+' || *word == '-';
    return *word != '\0' && word[strspn(word, "0123456789")] == '\0';
}

static int
check_words(const struct ctl *c, const struct verb *v)
{
    int words = 0;

    for (const char *p = c->line; *p != '\0'; p++) {
        words += *p == ' ';
    }
    if (words < v->min_words || words > v->max_words) {
        return complain(EX_USAGE, "usage: forebay ctl %s%s", v->name, v->words);
    }
    if (strcmp(v->name, "scale") == 0 && !is_scale(strrchr(c->line, ' ') + 1)) {
        return complain(EX_USAGE, "\"%s\" is no number of workers: N, +N or -N",
                        strrchr(c->line, ' ') + 1);
    }
    return 0;
}

static int
check_command(struct ctl *c)
{
    const struct verb *v = find_verb(c->line);
    bool status = strcmp(c->line, "status") == 0;
    size_t used;

    if (c->line[0] == '\0') {
        fputs(usage, stderr);
        return EX_USAGE;
    }
    if (v == NULL) {
        return complain(EX_USAGE,
                        "there is no command \"%.*s\"; see forebay ctl --help",
                        (int)strcspn(c->line, " "), c->line);
    }
    if (check_words(c, v) != 0) {
        return EX_USAGE;
    }
    if ((c->json || c->watch_ms > 0) && !status) {
        return complain(EX_USAGE, "--json and --watch belong to status");
    }
    if (c->json && c->watch_ms > 0) {
        return complain(EX_USAGE, "--json and --watch exclude each other");
    }
    if (c->timeout_ms > 0 && strcmp(v->name, "drain") != 0) {
        return complain(EX_USAGE, "--timeout belongs to drain");
    }
    if (c->json) {
        snprintf(c->line, sizeof(c->line), "status json");
    }
    used = strlen(c->line);
    if (c->timeout_ms > 0) {
        snprintf(c->line + used, sizeof(c->line) - used, " timeout=%" PRIu64,
                 c->timeout_ms);
    }
    c->patient = v->patient;
    return 0;
}

/* 0, or the exit code. */
static int
read_command_line(struct ctl *c, int argc, char **argv)
{
    const char *from_environment = getenv("FOREBAY_CONTROL");
    bool only_words = false;

    for (int i = 1; i < argc && !c->help; i++) {
        int code;

        if (!only_words && strcmp(argv[i], "--") == 0) {
            only_words = true;
            continue;
        }
        code = argv[i][0] == '-' && !only_words && !is_number(argv[i])
                   ? read_option(c, argc, argv, &i)
                   : add_word(c, argv[i]);
        if (code != 0) {
            return code;
        }
    }
    if (c->help) {
        return 0;
    }
    if (!c->given) {
        bool set = from_environment != NULL && from_environment[0] != '\0';

        if (set_control(c, set ? from_environment : DEFAULT_CONTROL) != 0) {
            return EX_USAGE;
        }
    }
    return check_command(c);
}

/* -- a question and its answer ----------------------------------------------
 */

static volatile sig_atomic_t interrupted;

/* Signals that end the live status come while waiting, and only then. NULL:
 * they end the program as usual. */
static sigset_t *wait_mask;

static int
wait_readable(int fd, int64_t timeout_ms)
{
    struct pollfd p = { .fd = fd, .events = POLLIN };
    struct timespec t = { timeout_ms / 1000, timeout_ms % 1000 * NS_PER_MS };

    return ppoll(&p, 1, timeout_ms >= 0 ? &t : NULL, wait_mask);
}

static int __attribute__((format(printf, 3, 4)))
fail(char *why, size_t size, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    vsnprintf(why, size, fmt, args);
    va_end(args);
    return -1;
}

/* Its queue may be full: of a manager that is stopped, or has much to do. */
static int
connect_within(int fd, const struct address *a, uint64_t ms)
{
    uint64_t end = clock_now_ns() + ms * NS_PER_MS;

    while (connect(fd, (const struct sockaddr *)&a->un, sizeof(a->un)) != 0) {
        if (errno != EAGAIN && errno != EINTR) {
            return -errno;
        }
        if (interrupted || clock_now_ns() >= end) {
            return -ETIMEDOUT;
        }
        wait_readable(-1, DIAL_MS);
    }
    return 0;
}

static int
fail_silent(const struct ctl *c, char *why, size_t size)
{
    return fail(
        why, size,
        "the manager at %s does not answer within %.4g s: it is stopped "
        "or hangs, or this is no forebay (--wait waits longer)",
        c->control, (double)c->silence_ms / 1000);
}

/* A connection to the manager, or -errno with a sentence. */
static int
dial(const struct ctl *c, char *why, size_t size)
{
    struct address a;
    int fd, rc;

    if (address_parse(c->control, &a, why, size) != 0) {
        return -EINVAL;
    }
    if (a.kind != ADDRESS_UNIX) {
        fail(why, size, "%s is no path of a unix socket", c->control);
        return -EINVAL;
    }
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) {
        rc = -errno;
        fail(why, size, "socket: %s", strerror(-rc));
        return rc;
    }
    rc = connect_within(fd, &a, c->silence_ms);
    if (rc == 0) {
        return fd;
    }
    close(fd);
    if (rc == -ETIMEDOUT) {
        fail_silent(c, why, size);
        return rc;
    }
    fail(why, size, "no forebay is reached at %s: %s%s", c->control,
         strerror(-rc),
         rc == -ENOENT && !c->given
             ? " (is its control socket elsewhere? --control PATH)"
         : rc == -EACCES ? " (only the user that it runs as may)"
                         : "");
    return rc;
}

static int
say(int fd, const char *line)
{
    char text[CONTROL_LINE_MAX + 1];
    size_t len, sent = 0;

    snprintf(text, sizeof(text), "%s\n", line);
    len = strlen(text);
    while (sent < len) {
        ssize_t n = send(fd, text + sent, len - sent, MSG_NOSIGNAL);

        if (n < 0 && errno != EINTR) {
            return -errno;
        }
        sent += n > 0 ? (size_t)n : 0;
    }
    return 0;
}

static bool is_alive(const struct ctl *c);

/* Everything up to the end of the connection. 0 or -errno. What takes its time
 * goes on as long as the manager answers others. */
static int
hear(const struct ctl *c, int fd, struct buf *in)
{
    uint64_t end = clock_now_ns() + c->silence_ms * NS_PER_MS;

    while (!interrupted) {
        uint64_t now = clock_now_ns();
        int64_t wait = now < end ? (int64_t)((end - now) / NS_PER_MS) + 1 : 0;
        ssize_t n;

        if (wait_readable(fd, wait) == 0) {
            if (!c->patient || !is_alive(c)) {
                return -ETIMEDOUT;
            }
            end = clock_now_ns() + c->silence_ms * NS_PER_MS;
        }
        if (buf_reserve(in, 16384) != 0) {
            return -ENOMEM;
        }
        n = recv(fd, in->data + in->len, 16384, MSG_DONTWAIT);
        if (n == 0) {
            return 0;
        }
        if (n > 0) {
            in->len += (size_t)n;
        } else if (errno != EAGAIN && errno != EINTR) {
            return -errno;
        }
    }
    return -EINTR;
}

/* Does it answer a ping? When it ends just now, the connection that waits says
 * so. */
static bool
is_alive(const struct ctl *c)
{
    struct ctl ping = *c;
    struct buf answer;
    char why[512];
    int fd, rc;

    ping.patient = false;
    buf_init(&answer, 4096);
    fd = rc = dial(&ping, why, sizeof(why));
    if (fd >= 0) {
        rc = say(fd, "ping") == 0 ? hear(&ping, fd, &answer) : 0;
        close(fd);
    }
    buf_release(&answer);
    return rc != -ETIMEDOUT;
}

/* Ask, and leave in answer what came behind "ok". 0, or -1 with a sentence. */
static int
ask(const struct ctl *c, struct buf *answer, char *why, size_t size)
{
    const char *newline;
    int fd = dial(c, why, size);
    int rc;

    if (fd < 0) {
        return -1;
    }
    rc = say(fd, c->line);
    if (rc == 0 || rc == -EPIPE) { /* then it has said why */
        rc = hear(c, fd, answer);
    }
    close(fd);
    if (rc == -ETIMEDOUT) {
        return fail_silent(c, why, size);
    }
    if (rc != 0) {
        return fail(why, size, "the manager at %s broke off: %s", c->control,
                    strerror(-rc));
    }
    newline = answer->len > 0 ? memchr(answer->data, '\n', answer->len) : NULL;
    if (newline == NULL) {
        return fail(why, size,
                    "the manager at %s ended the connection without an answer",
                    c->control);
    }
    if (newline - answer->data == 2 && memcmp(answer->data, "ok", 2) == 0) {
        answer->len -= 3;
        memmove(answer->data, newline + 1, answer->len);
        return 0;
    }
    rc = strncmp(answer->data, "error: ", 7) == 0 ? 7 : 0;
    return fail(why, size, "%.*s", (int)(newline - answer->data) - rc,
                answer->data + rc);
}

/* -- the live status --------------------------------------------------------
 */

static void
on_interrupt(int signo)
{
    (void)signo;
    interrupted = 1;
}

static void
on_resize(int signo)
{
    (void)signo; /* waiting ends, and the picture is drawn again */
}

static void
catch_signals(void)
{
    static const int signals[] = { SIGINT, SIGTERM, SIGHUP, SIGWINCH };
    static sigset_t usual;
    sigset_t held;

    sigemptyset(&held);
    for (int i = 0; i < 4; i++) {
        struct sigaction action = { .sa_handler = signals[i] == SIGWINCH
                                                      ? on_resize
                                                      : on_interrupt };

        sigaddset(&held, signals[i]);
        sigaction(signals[i], &action, NULL);
    }
    sigprocmask(SIG_BLOCK, &held, &usual);
    wait_mask = &usual;
}

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

    if (wait_readable(keys ? STDIN_FILENO : -1, ms) > 0) {
        return read(STDIN_FILENO, &key, 1) == 1 && key != 'q' && key != 'Q';
    }
    return !interrupted;
}

/* A manager that cannot be reached just now (a restart) is asked again. */
static int
watch(const struct ctl *c)
{
    bool terminal = is_terminal(), keys;
    struct termios saved;
    char why[1024];
    int rc = 0;

    catch_signals();
    keys = terminal && set_keys(&saved);
    if (terminal) {
        fputs("\033[?1049h\033[?25l", stdout); /* another screen, no cursor */
    }
    do {
        struct buf answer;

        buf_init(&answer, ANSWER_MAX);
        if (ask(c, &answer, why, sizeof(why)) != 0) {
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
    } while (rc == 0 && !interrupted && pause_for(c->watch_ms, keys));
    if (terminal) {
        fputs("\033[?25h\033[?1049l", stdout);
        fflush(stdout);
    }
    if (keys) {
        tcsetattr(STDIN_FILENO, TCSANOW, &saved);
    }
    return 0;
}

/* -- the command ------------------------------------------------------------
 */

static int
ask_once(const struct ctl *c)
{
    struct buf answer;
    char why[1024];
    int code = 0;

    buf_init(&answer, ANSWER_MAX);
    if (ask(c, &answer, why, sizeof(why)) != 0) {
        code = complain(1, "%s", why);
    } else if (fwrite(answer.data, 1, answer.len, stdout) != answer.len ||
               fflush(stdout) != 0) {
        code = complain(1, "cannot write the answer: %s", strerror(errno));
    }
    buf_release(&answer);
    return code;
}

int
ctl_main(int argc, char **argv)
{
    struct ctl c = { .silence_ms = SILENCE_MS };
    int code = read_command_line(&c, argc, argv);

    if (code != 0) {
        return code;
    }
    if (c.help) {
        fputs(usage, stdout);
        return 0;
    }
    return c.watch_ms > 0 ? watch(&c) : ask_once(&c);
}
