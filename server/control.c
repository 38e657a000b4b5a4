/* SPDX-License-Identifier: MIT
 *
 * See control.h.
 */
#include "server/control.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "server/clients.h"
#include "server/log.h"

enum {
    MAX_CLIENTS = 64,
    MAX_WAITING = 32,
    MAX_ANSWER = 16 * 1024 * 1024,
    QUESTION_MS = 5000,
    ANSWER_MS = 10000,
    BACKLOG = 64,
    MAX_WORDS = 3,
};

/* The words of a line. */
struct command {
    const char *word[MAX_WORDS];
    int words;
};

static const struct control_handlers *
handlers(const struct client *c)
{
    return c->ctx;
}

/* -- answers ----------------------------------------------------------------
 */

static void
answer_ok(struct client *c)
{
    if (buf_append_str(&c->out, "ok\n") != 0) {
        client_drop(c);
        return;
    }
    client_answer(c);
}

static void __attribute__((format(printf, 2, 3)))
answer_error(struct client *c, const char *fmt, ...)
{
    char text[1024];
    va_list args;

    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    for (char *p = text; *p != '\0'; p++) {
        if (*p == '\n') {
            *p = ' '; /* a sentence is one line */
        }
    }
    buf_clear(&c->out);
    if (buf_append_str(&c->out, "error: ") != 0 ||
        buf_append_str(&c->out, text) != 0 ||
        buf_append_str(&c->out, "\n") != 0) {
        client_drop(c);
        return;
    }
    client_answer(c);
}

/* What the client waits for has come about, or not. */
static void
on_done(const char *why, void *who)
{
    struct client *c = who;

    if (!client_is_closed(c)) {
        if (why == NULL) {
            answer_ok(c);
        } else {
            answer_error(c, "%s", why);
        }
    }
    client_release(c);
}

/* -- commands ---------------------------------------------------------------
 */

static int
hold(struct client *c)
{
    if (client_hold(c) != 0) {
        answer_error(c, "%d commands wait for their end already", MAX_WAITING);
        return -1;
    }
    return 0;
}

static void
do_ping(struct client *c, const struct command *cmd)
{
    (void)cmd;
    if (buf_append_str(&c->out, "ok\npong\n") != 0) {
        client_drop(c);
        return;
    }
    client_answer(c);
}

static void
answer_status(struct client *c, enum status_format format)
{
    const struct control_handlers *h = handlers(c);

    if (buf_append_str(&c->out, "ok\n") != 0 ||
        h->status(h->ctx, format, &c->out) != 0) {
        answer_error(c, "out of memory for the status");
        return;
    }
    client_answer(c);
}

static void
do_status(struct client *c, const struct command *cmd)
{
    if (cmd->words == 1) {
        answer_status(c, STATUS_TABLE);
    } else if (strcmp(cmd->word[1], "json") == 0) {
        answer_status(c, STATUS_JSON);
    } else {
        answer_error(c, "status is followed by nothing or by json");
    }
}

static void
do_metrics(struct client *c, const struct command *cmd)
{
    (void)cmd;
    answer_status(c, STATUS_METRICS);
}

static void
do_reload(struct client *c, const struct command *cmd)
{
    const struct control_handlers *h = handlers(c);

    if (hold(c) == 0) {
        h->reload(h->ctx, cmd->words > 1 ? cmd->word[1] : NULL, on_done, c);
    }
}

/* Held for ever: the connection ends with the manager. */
static void
do_stop(struct client *c, const struct command *cmd)
{
    const struct control_handlers *h = handlers(c);

    (void)cmd;
    if (hold(c) == 0) {
        answer_ok(c);
        h->stop(h->ctx);
    }
}

/* "timeout=5000". False: it is something else. */
static bool
read_timeout(const char *word, uint64_t *ret_ms)
{
    static const char name[] = "timeout=";
    const char *text = word + sizeof(name) - 1;
    char *end;

    if (strncmp(word, name, sizeof(name) - 1) != 0 ||
        !isdigit((unsigned char)*text)) {
        return false;
    }
    errno = 0;
    *ret_ms = strtoull(text, &end, 10);
    return errno == 0 && *end == '\0';
}

static void
do_drain(struct client *c, const struct command *cmd)
{
    const struct control_handlers *h = handlers(c);
    uint64_t timeout_ms = 0;
    int words = cmd->words;

    if (words > 1 && read_timeout(cmd->word[words - 1], &timeout_ms)) {
        words--;
    }
    if (words > 2) {
        answer_error(c, "usage: drain [POOL] [timeout=MS]");
    } else if (hold(c) == 0) {
        if (words == 1) {
            answer_ok(c); /* as stop */
        }
        h->drain(h->ctx, words > 1 ? cmd->word[1] : NULL, timeout_ms, on_done,
                 c);
    }
}

static void
do_log_reopen(struct client *c, const struct command *cmd)
{
    const struct control_handlers *h = handlers(c);

    (void)cmd;
    if (h->log_reopen == NULL) {
        answer_error(c, "the log is no file, there is nothing to reopen");
    } else if (hold(c) == 0) {
        h->log_reopen(h->ctx, on_done, c);
    }
}

/* "3", "+1", "-2". False: no number of workers. */
static bool
read_number(const char *text, char *ret_sign, unsigned *ret)
{
    unsigned long n;
    char *end;

    *ret_sign = *text == '+' || *text == '-' ? *text++ : '=';
    if (!isdigit((unsigned char)*text)) {
        return false;
    }
    n = strtoul(text, &end, 10);
    *ret = (unsigned)n;
    return *end == '\0' && n <= CONTROL_SCALE_MAX;
}

static void
do_scale(struct client *c, const struct command *cmd)
{
    const struct control_handlers *h = handlers(c);
    char sign, why[512];
    unsigned n;

    if (!read_number(cmd->word[2], &sign, &n)) {
        answer_error(c, "\"%s\" is no number of workers: N, +N or -N, up to %d",
                     cmd->word[2], CONTROL_SCALE_MAX);
    } else if (h->scale == NULL) {
        answer_error(c, "the number of workers cannot be changed while they "
                        "run; change the setting and reload");
    } else if (h->scale(h->ctx, cmd->word[1], sign, n, why, sizeof(why)) != 0) {
        answer_error(c, "%s", why);
    } else {
        answer_ok(c);
    }
}

static const struct verb {
    const char *name;
    void (*run)(struct client *c, const struct command *cmd);
    int min_words, max_words; /* the name included */
    const char *arguments;
    bool changes; /* something, so that the log tells who did it */
} verbs[] = {
    { "ping", do_ping, 1, 1, "", false },
    { "status", do_status, 1, 2, " [json]", false },
    { "metrics", do_metrics, 1, 1, "", false },
    { "reload", do_reload, 1, 2, " [POOL]", true },
    { "stop", do_stop, 1, 1, "", true },
    { "drain", do_drain, 1, 3, " [POOL] [timeout=MS]", true },
    { "log-reopen", do_log_reopen, 1, 1, "", true },
    { "scale", do_scale, 3, 3, " POOL N|+N|-N", true },
};

enum { VERBS = sizeof(verbs) / sizeof(*verbs) };

/* -- the line ---------------------------------------------------------------
 */

static void
tell_who(const struct client *c, const char *line)
{
    struct ucred who = { 0 };
    socklen_t len = sizeof(who);
    char text[256];

    log_escape(text, sizeof(text), line, strlen(line));
    if (getsockopt(c->fd, SOL_SOCKET, SO_PEERCRED, &who, &len) == 0) {
        log_info("control: %s (process %d of user %u)", text, who.pid, who.uid);
    } else {
        log_info("control: %s", text);
    }
}

/* Words are taken apart in place. More than there is room for: one more than
 * that is counted. */
static struct command
split(char *line)
{
    struct command cmd = { .words = 0 };
    char *rest = NULL;

    for (char *word = strtok_r(line, " \t\r", &rest); word != NULL;
         word = strtok_r(NULL, " \t\r", &rest)) {
        if (cmd.words == MAX_WORDS) {
            cmd.words++;
            break;
        }
        cmd.word[cmd.words++] = word;
    }
    return cmd;
}

static void
unknown(struct client *c, const char *word)
{
    char names[256] = "", text[128];
    size_t used = 0;

    for (int i = 0; i < VERBS; i++) {
        used += (size_t)snprintf(names + used, sizeof(names) - used, "%s%s",
                                 i > 0 ? ", " : "", verbs[i].name);
    }
    answer_error(c, "there is no command \"%s\"; there are %s",
                 log_escape(text, sizeof(text), word, strlen(word)), names);
}

static void
obey(struct client *c, char *line)
{
    char whole[CONTROL_LINE_MAX + 1];
    struct command cmd;

    snprintf(whole, sizeof(whole), "%s", line);
    cmd = split(line);
    for (int i = 0; cmd.words > 0 && i < VERBS; i++) {
        const struct verb *v = &verbs[i];

        if (strcmp(cmd.word[0], v->name) != 0) {
            continue;
        }
        if (cmd.words < v->min_words || cmd.words > v->max_words) {
            answer_error(c, "usage: %s%s", v->name, v->arguments);
            return;
        }
        if (v->changes) {
            tell_who(c, whole);
        }
        v->run(c, &cmd);
        return;
    }
    unknown(c, cmd.words > 0 ? cmd.word[0] : "");
}

/* A line may come in pieces, and without a newline at its end. */
static void
input(struct client *c, const char *data, size_t len)
{
    const char *newline = len > 0 ? memchr(data, '\n', len) : NULL;
    size_t n = newline != NULL ? (size_t)(newline - data) : len;
    char line[CONTROL_LINE_MAX + 1];

    if (buf_append(&c->in, data, n) != 0) {
        answer_error(c, "a command has %d bytes at most", CONTROL_LINE_MAX);
        return;
    }
    if (newline == NULL && (len > 0 || c->in.len == 0)) {
        return;
    }
    if (c->in.len > 0) {
        memcpy(line, c->in.data, c->in.len);
    }
    line[c->in.len] = '\0';
    if (strlen(line) != c->in.len) {
        answer_error(c, "a command has no NUL bytes");
        return;
    }
    obey(c, line);
}

const struct listener_options control_rights = {
    .backlog = BACKLOG,
    .mode = 0600,
    .owner = (unsigned)-1,
    .group = (unsigned)-1,
};

struct clients *
control_open(uv_loop_t *loop, struct listener *l, unsigned count,
             const struct control_handlers *h)
{
    static const struct clients_options options = {
        .max = MAX_CLIENTS,
        .max_held = MAX_WAITING,
        .max_question = CONTROL_LINE_MAX,
        .max_answer = MAX_ANSWER,
        .question_ms = QUESTION_MS,
        .answer_ms = ANSWER_MS,
        .input = input,
    };

    /* It only reads; ctx is not const for those who write theirs. */
    return clients_open(loop, l, count, &options, (void *)h);
}
