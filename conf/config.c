/* SPDX-License-Identifier: MIT
 *
 * A configuration in memory, and the table of [forebay]. Reading one from a
 * file is config_file.c. Any process.
 */
#include "conf/config.h"
#include "conf/internal.h"

#include <stdlib.h>
#include <string.h>

#define DAY UINT64_C(86400000)

#define ROW(field, type_, initial_, value_name_, help_, ...)                   \
    {                                                                          \
        .name = #field, .type = type_,                                         \
        .offset = offsetof(struct manager_settings, field),                    \
        .initial = initial_, .value_name = value_name_, .help = help_,         \
        __VA_ARGS__                                                            \
    }

/* forebay.conf(5) has the same order (scripts/check-settings). */
const struct setting manager_settings_table[] = {
    ROW(include, SETTING_LIST, NULL, "FILE",
        "Files to read as well, at this place. A path may be a pattern (*, ?, "
        "[...]); a relative one begins at the folder of the file that says "
        "include. May be given several times."),
    ROW(pidfile, SETTING_STRING, NULL, "FILE",
        "File for the process number of the manager. It is written when every "
        "pool has started, and removed at the end."),
    ROW(control, SETTING_STRING, NULL, "FILE",
        "Path of the socket that forebay ctl talks to. Without it there is "
        "none.",
        .check = conf_check_absolute),
    ROW(log, SETTING_STRING, "stderr", "stderr|FILE|syslog|journald",
        "Where the log goes: the standard error stream, a file, syslog or the "
        "systemd journal."),
    ROW(log_level, SETTING_STRING, "info", "error|warn|info|debug",
        "The least important lines that are written to the log. --log-level on "
        "the command line is stronger.",
        .choices = "error|warn|info|debug", .check = conf_check_choice),
    ROW(status_listen, SETTING_STRING, NULL, "ADDRESS",
        "Address on which the manager itself answers questions about status, "
        "ping and metrics, over FastCGI, SCGI and HTTP. Without it there is "
        "none."),
    ROW(stop_delay, SETTING_TIME, "0", "TIME",
        "How long to go on accepting requests after the signal to stop, for "
        "load balancers that notice late.",
        .min = 0, .max = DAY),
};

enum {
    MANAGER_COUNT =
        sizeof(manager_settings_table) / sizeof(manager_settings_table[0])
};
const unsigned manager_settings_count = MANAGER_COUNT;

const struct conf_table conf_manager_table = { manager_settings_table,
                                               MANAGER_COUNT };

void
config_init(struct config *c)
{
    memset(c, 0, sizeof(*c));
}

void
config_release(struct config *c)
{
    if (c == NULL) {
        return;
    }
    for (unsigned i = 0; c->pool != NULL && i < c->pools; i++) {
        if (c->pool[i] != NULL) {
            settings_release(c->pool[i]);
            free(c->pool[i]);
        }
    }
    free(c->pool);
    conf_table_release(&conf_manager_table, &c->manager);
    config_init(c);
}

int
config_of_pool(struct pool_settings *s, struct config *ret)
{
    struct conf_error ignored;

    config_init(ret);
    ret->pool = calloc(1, sizeof(struct pool_settings *));
    if (ret->pool == NULL ||
        conf_table_init(&conf_manager_table, &ret->manager, &ignored) != 0) {
        config_release(ret);
        return -1;
    }
    ret->pool[0] = s;
    ret->pools = 1;
    return 0;
}
