/* SPDX-License-Identifier: MIT
 *
 * See ctl_options.h. A tool.
 */
#include "server/ctl_options.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "conf/config.h"

#define DEFAULT_CONTROL "/run/forebay/control.sock"

enum {
    SILENCE_MS = 30000, /* --wait */
    WATCH_MS = 2000,
    WATCH_MIN_MS = 100,
    WATCH_MAX_MS = 3600 * 1000,
};

const char ctl_usage[] =
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

int
ctl_complain(int code, const char *fmt, ...)
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

static int
set_control(struct ctl_options *c, const char *path)
{
    if (c->given) {
        return ctl_complain(EX_USAGE, "name the socket once: --control PATH or "
                                      "-c FILE");
    }
    c->given = true;
    if (strlen(path) >= sizeof(c->control)) {
        return ctl_complain(EX_USAGE, "%s: the path is too long", path);
    }
    snprintf(c->control, sizeof(c->control), "%s", path);
    return 0;
}

static int
read_config(struct ctl_options *c, const char *file)
{
    struct conf_error err = { 0 };
    struct config config;
    char text[1024];
    int code;

    if (config_read(file, &config, &err) != 0) {
        return ctl_complain(EX_CONFIG, "%s",
                            conf_error_format(&err, text, sizeof(text)));
    }
    if (config.manager.control != NULL) {
        code = set_control(c, config.manager.control);
    } else {
        code = ctl_complain(EX_CONFIG,
                            "%s names no control socket (control = PATH in "
                            "[forebay])",
                            file);
    }
    config_release(&config);
    return code;
}

/* "2", "0.5" */
static int
set_watch(struct ctl_options *c, const char *text)
{
    char *end;
    double seconds = strtod(text, &end);

    if (*end != '\0' || end == text || !(seconds * 1000 >= WATCH_MIN_MS) ||
        !(seconds * 1000 <= WATCH_MAX_MS)) {
        return ctl_complain(
            EX_USAGE, "--watch takes seconds, from 0.1 to 3600, not \"%s\"",
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
        return ctl_complain(1, "out of memory");
    }
    if (settings_set(&s, "graceful_timeout", text, &err) != 0 ||
        s.graceful_timeout == 0) {
        code = ctl_complain(
            EX_USAGE, "%s takes a time such as 30, 500ms or 5m, not \"%s\"",
            option, text);
    }
    *ret_ms = s.graceful_timeout;
    settings_release(&s);
    return code;
}

static int
add_word(struct ctl_options *c, const char *word)
{
    size_t used = strlen(c->line);

    if (word[0] == '\0' || strpbrk(word, " \t\r\n") != NULL) {
        return ctl_complain(EX_USAGE, "\"%s\" is no word of a command", word);
    }
    if (used + strlen(word) + 2 > sizeof(c->line)) {
        return ctl_complain(EX_USAGE, "the command is too long");
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
read_option(struct ctl_options *c, int argc, char **argv, int *i)
{
    static const char *const names[] = { "--control", "--timeout", "--wait",
                                         "--config", "-c" };
    const char *word = argv[*i], *value;

    for (int n = 0; n < 5; n++) {
        if (is_option(word, names[n])) {
            value = value_of(names[n], argc, argv, i);
            if (value == NULL) {
                return ctl_complain(EX_USAGE, "%s needs a value", names[n]);
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
    return ctl_complain(EX_USAGE,
                        "there is no option %s; see forebay ctl --help", word);
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
check_words(const struct ctl_options *c, const struct verb *v)
{
    int words = 0;

    for (const char *p = c->line; *p != '\0'; p++) {
        words += *p == ' ';
    }
    if (words < v->min_words || words > v->max_words) {
        return ctl_complain(EX_USAGE, "usage: forebay ctl %s%s", v->name,
                            v->words);
    }
    if (strcmp(v->name, "scale") == 0 && !is_scale(strrchr(c->line, ' ') + 1)) {
        return ctl_complain(EX_USAGE,
                            "\"%s\" is no number of workers: N, +N or -N",
                            strrchr(c->line, ' ') + 1);
    }
    return 0;
}

static int
check_command(struct ctl_options *c)
{
    const struct verb *v = find_verb(c->line);
    bool status = strcmp(c->line, "status") == 0;
    size_t used;

    if (c->line[0] == '\0') {
        fputs(ctl_usage, stderr);
        return EX_USAGE;
    }
    if (v == NULL) {
        return ctl_complain(
            EX_USAGE, "there is no command \"%.*s\"; see forebay ctl --help",
            (int)strcspn(c->line, " "), c->line);
    }
    if (check_words(c, v) != 0) {
        return EX_USAGE;
    }
    if ((c->json || c->watch_ms > 0) && !status) {
        return ctl_complain(EX_USAGE, "--json and --watch belong to status");
    }
    if (c->json && c->watch_ms > 0) {
        return ctl_complain(EX_USAGE, "--json and --watch exclude each other");
    }
    if (c->timeout_ms > 0 && strcmp(v->name, "drain") != 0) {
        return ctl_complain(EX_USAGE, "--timeout belongs to drain");
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

int
ctl_options_read(struct ctl_options *c, int argc, char **argv)
{
    const char *from_environment = getenv("FOREBAY_CONTROL");
    bool only_words = false;

    memset(c, 0, sizeof(*c));
    c->silence_ms = SILENCE_MS;
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
