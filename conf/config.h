/* SPDX-License-Identifier: MIT
 *
 * The configuration file: one [forebay] section for the manager and any number
 * of [pool NAME] sections, each with the settings of settings.h. Any process;
 * never logs.
 *
 *     # a comment is a line of its own
 *     ; so is this
 *     [forebay]
 *     pidfile = /run/forebay.pid
 *     include = pools/shop.conf
 *
 *     [pool shop]
 *     app = shop.wsgi
 *     listen = /run/forebay/shop.sock
 *     env = DJANGO_SETTINGS_MODULE=shop.settings
 *         "GREETING=good morning"
 *
 * ${NAME} and ${NAME:-default} are replaced from the environment; $$ is a
 * dollar. A setting that is given twice is an error (but for lists, which
 * grow); so is an unknown one, with the nearest name. forebay.conf(5) has all
 * of it.
 */
#ifndef FOREBAY_CONF_CONFIG_H
#define FOREBAY_CONF_CONFIG_H

#include "conf/settings.h"

/* Of [forebay]; strings are owned, NULL is "not set". */
struct manager_settings {
    struct conf_list include; /* as written; their contents are in the config */
    char *pidfile;
    char *control;       /* socket of `forebay ctl`; a path */
    char *log;           /* "stderr" (default), a file, "syslog", "journald" */
    char *log_level;     /* error, warn, info (default), debug */
    char *status_listen; /* ADDRESS: status, ping and metrics over FastCGI,
                            SCGI and HTTP; NULL: none */
    uint64_t stop_delay; /* ms to go on accepting after TERM */
};

struct config {
    struct manager_settings manager;
    struct pool_settings **pool; /* owned, pools of them */
    unsigned pools;
};

void config_init(struct config *c);
void config_release(struct config *c);

/* Read a file and what it includes. 0, or -1 with file, line and sentence; ret
 * is then empty. Checks what one pool alone cannot know: no pool at all, two of
 * one name, two on one address. */
int config_read(const char *path, struct config *ret, struct conf_error *err);

/* A configuration of one pool, from the command line, with the defaults of
 * [forebay]: takes s over. 0, or -1 out of memory. */
int config_of_pool(struct pool_settings *s, struct config *ret);

/* The [forebay] section's table: offsets are into struct manager_settings. */
extern const struct setting manager_settings_table[];
extern const unsigned manager_settings_count;

/* It as a part of --help, wrapped at 80 columns. */
void config_print_help(FILE *out);

#endif
