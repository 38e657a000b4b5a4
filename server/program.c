/* SPDX-License-Identifier: MIT
 *
 * See program.h.
 */
#include "server/program.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#include "server/channel.h"
#include "server/log.h"
#include "server/log_pipe.h"
#include "server/nursery.h"
#include "server/process_title.h"
#include "server/template_args.h"

struct program_template {
    struct template_start start;
    struct pool_settings settings;
    struct conf_list words; /* of the command */
    struct nursery nursery;
};

static pid_t
fork_program(void *ctx)
{
    (void)ctx;
    return fork();
}

/* The first listener becomes descriptor 0 (FastCGI 1.0, section 2.2); what the
 * program writes on 1 and 2 goes to the log. Everything else closes at exec. */
static void
become_program(void *ctx, int slot, int channel, int log_fd)
{
    struct program_template *t = ctx;
    char why[CHANNEL_TEXT_MAX];

    setpgid(0, 0); /* out of the terminal's group, as spawn-fcgi does */
    dup2(t->start.listen_fd[0], 0);
    dup2(log_fd, 1);
    dup2(log_fd, 2);
    signal(SIGPIPE, SIG_DFL);
    execvp(t->words.item[0], t->words.item);
    snprintf(why, sizeof(why), "%.200s: %s", t->words.item[0], strerror(errno));
    channel_say(channel, CHANNEL_WORKER_FAILED, slot, getpid(), 0, why);
    _exit(127);
}

/* SIGUSR1: libfcgi and PHP finish the request they have; for programs that do
 * not know it, it is an end like any other signal. */
static const struct nursery_ops program_ops = {
    .fork = fork_program,
    .become = become_program,
    .stop_signal = SIGUSR1,
    .ready_at_close = true,
};

static int
prepare(struct program_template *t, char *why, size_t size)
{
    struct conf_error error;
    int fd = t->start.listen_fd[0];

    if (template_args_settings(&t->start, &t->settings, why, size) != 0) {
        return -1;
    }
    if (settings_words(t->settings.command, &t->words, &error) != 0) {
        snprintf(why, size, "command: %.400s", error.text);
        return -1;
    }
    t->nursery = (struct nursery){
        .ops = &program_ops,
        .ctx = t,
        .channel = t->start.channel,
        .slots = t->start.slots,
        .graceful_ms = t->settings.graceful_timeout,
        .kill_group = t->settings.kill_group,
    };
    if (nursery_init(&t->nursery) != 0) {
        snprintf(why, size, "out of memory");
        return -1;
    }
    /* Programs accept on a socket that blocks. */
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK);
    return template_args_confine(&t->settings, why, size);
}

static void
do_nothing(int signo)
{
    (void)signo;
}

int
program_template_main(int argc, char **argv)
{
    static const int quiet[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT };
    struct program_template t = { 0 };
    char why[CHANNEL_TEXT_MAX];
    int log_fd = fcntl(2, F_DUPFD_CLOEXEC, 10);

    if (template_args_read(argc, argv, &t.start) != 0) {
        fprintf(stderr, "this command is forebay's own; see forebay(8)\n");
        return EX_USAGE;
    }
    process_title_init(argc, argv);
    /* Orders come over the channel: Ctrl-C in a terminal reaches the whole
     * group. Handlers, not SIG_IGN, so that exec gives programs the default. */
    for (size_t i = 0; i < sizeof(quiet) / sizeof(*quiet); i++) {
        signal(quiet[i], do_nothing);
    }
    signal(SIGPIPE, SIG_IGN); /* the log, when the manager is gone */
    template_args_set_flag(&t.start, FD_CLOEXEC);
    if (log_fd >= 0) {
        log_to_manager(log_fd);
    }
    if (prepare(&t, why, sizeof(why)) != 0) {
        channel_say(t.start.channel, CHANNEL_FAILED, -1, getpid(), 0, why);
        return EX_CONFIG;
    }
    process_title_set("forebay: programs [%s]", t.settings.name);
    channel_say(t.start.channel, CHANNEL_READY, -1, getpid(), 0, NULL);
    nursery_run(&t.nursery);
    return 0;
}
