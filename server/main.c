/* SPDX-License-Identifier: MIT
 *
 * The program forebay: commands and their options. The manager lives in
 * manager.c, `forebay request` in request_client.c, `forebay spawn` in spawn.c.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <uv.h>

#include "conf/config.h"
#include "server/check.h"
#include "server/ctl.h"
#include "server/inherited.h"
#include "server/listener.h"
#include "server/log.h"
#include "server/manager.h"
#include "server/program.h"
#include "server/request_client.h"
#include "server/spawn.h"
#include "server/upgrade.h"
#include "server/venv.h"

enum { SERVE, RUN, CHECK };

/* What `forebay serve` without arguments reads. */
#define CONFIG_FILE "/etc/forebay/forebay.conf"

static const char usage[] =
    "forebay: a FastCGI and SCGI application server for Python (WSGI)\n"
    "\n"
    "  forebay serve [options] APP     run an application\n"
    "  forebay serve [-c FILE]         run the pools of a configuration\n"
    "  forebay run FILE                serve one file on the socket that is\n"
    "                                  descriptor 0 (lighttpd, mod_fcgid,\n"
    "                                  spawn-fcgi; also for #! lines)\n"
    "  forebay check [options] APP     tell what would keep it from starting\n"
    "  forebay check [-c FILE]         the same of a configuration\n"
    "  forebay ctl COMMAND             status, reload, stop ... of the one "
    "that\n"
    "                                  runs\n"
    "  forebay request [options] URL   ask a FastCGI or SCGI server\n"
    "  forebay spawn [options] -- PROGRAM\n"
    "                                  start another FastCGI program; takes "
    "the\n"
    "                                  options of spawn-fcgi\n"
    "  forebay COMMAND --help          the options of a command\n"
    "  forebay --version\n"
    "\n"
    "APP      module:callable | module | path/to/file.py[:callable];\n"
    "         name() is a factory; the callable is `application` or `app`\n"
    "ADDRESS  unix:/path | /path | host:port | :port | [v6]:port | fd:N |\n"
    "         systemd[:name]\n";

/* Options of the command line that are no settings of a pool. */
struct command {
    int what;
    bool help;
    bool inherited;     /* the listening socket is descriptor 0 */
    const char *config; /* a file; NULL: the settings are in the command line */
    const char *control; /* as in struct manager_settings; NULL: none */
    const char *status_listen;
};

static int
log_level(const char *value, struct conf_error *err)
{
    enum log_level level;

    if (value != NULL && log_level_named(value, &level) == 0) {
        log_set_level(level);
        return 2;
    }
    snprintf(err->text, sizeof(err->text),
             "--log-level is error, warn, info or debug");
    return -1;
}

static int
other_option(const char *name, const char *value, void *ctx,
             struct conf_error *err)
{
    struct command *c = ctx;

    if (strcmp(name, "help") == 0 || strcmp(name, "h") == 0) {
        c->help = true;
        return 1;
    }
    if (strcmp(name, "log-level") == 0 || strcmp(name, "log_level") == 0) {
        return log_level(value, err);
    }
    if (c->what != CHECK && strcmp(name, "control") == 0) {
        c->control = value;
        return 2;
    }
    if (c->what != CHECK && (strcmp(name, "status-listen") == 0 ||
                             strcmp(name, "status_listen") == 0)) {
        c->status_listen = value;
        return 2;
    }
    if (c->what != RUN &&
        (strcmp(name, "config") == 0 || strcmp(name, "c") == 0)) {
        c->config = value;
        return 2;
    }
    return 0;
}

static void
print_help(int what)
{
    if (what == RUN) {
        printf("usage: forebay run [options] FILE\n\n"
               "Serve one Python file on the listening socket that is "
               "descriptor 0, with one\nworker unless told otherwise. Ends "
               "when its parent asks (TERM, USR1) or goes.\n\n");
    } else {
        printf("usage: forebay %s [options] APP\n"
               "       forebay %s [-c FILE]\n\n"
               "  -c, --config FILE          take all settings from a file "
               "(forebay.conf(5));\n"
               "                             without any argument " CONFIG_FILE
               "\n",
               what == SERVE ? "serve" : "check",
               what == SERVE ? "serve" : "check");
    }
    if (what != CHECK) {
        printf("  --control PATH             socket of forebay ctl (default: "
               "none)\n"
               "  --status-listen ADDRESS    status, metrics and ping over "
               "FastCGI, SCGI, HTTP\n"
               "                             (default: none)\n");
    }
    printf("  --log-level LEVEL          error, warn, info or debug "
           "(default info)\n");
    settings_print_help(stdout);
    if (what != RUN) {
        config_print_help(stdout);
    }
}

static int
bad_usage(const struct conf_error *err)
{
    char text[1024];

    fprintf(stderr, "forebay: %s\n",
            conf_error_format(err, text, sizeof(text)));
    return MANAGER_EXIT_USAGE;
}

/* What a file says cannot be changed from the command line: at a reload it
 * would be forgotten, or the file would be. 0, or the exit code. */
static int
refuse_settings(const struct command *c, const struct pool_settings *s)
{
    char option[80];
    const char *name = c->control != NULL         ? "control"
                       : c->status_listen != NULL ? "status_listen"
                                                  : settings_first_given(s);

    if (name == NULL) {
        return 0;
    }
    if (strcmp(name, "app") == 0) {
        snprintf(option, sizeof(option), "%.70s", s->app);
    } else {
        snprintf(option, sizeof(option), "--%s", name);
        for (char *p = option; *p != '\0'; p++) {
            *p = *p == '_' ? '-' : *p;
        }
    }
    fprintf(stderr,
            "forebay: %s and -c cannot be given together: all settings are in\n"
            "%s\n",
            option, c->config);
    return MANAGER_EXIT_USAGE;
}

/* The settings of the command line, complete, or c->config. 0, or the exit
 * code. */
static int
read_command_line(int what, int argc, char **argv, struct command *c,
                  struct pool_settings *s)
{
    struct conf_error err = { 0 };

    if (what == RUN) {
        settings_set(s, "workers", "1", &err);
    }
    if (settings_parse_args(s, argc, argv, other_option, c, &err) != 0) {
        return bad_usage(&err);
    }
    if (c->help) {
        return 0;
    }
    if (c->config != NULL) {
        return refuse_settings(c, s);
    }
    if (what != RUN && settings_first_given(s) == NULL &&
        !listener_is_listening(STDIN_FILENO) &&
        access(CONFIG_FILE, F_OK) == 0) {
        c->config = CONFIG_FILE;
        return 0;
    }
    c->inherited = what != CHECK && s->listen.count == 0 &&
                   listener_is_listening(STDIN_FILENO);
    if (what == RUN && !c->inherited && s->listen.count == 0) {
        fprintf(stderr,
                "forebay: descriptor 0 is no listening socket; start this "
                "from lighttpd (bin-path),\nmod_fcgid or spawn-fcgi, or name "
                "an address with --listen\n");
        return MANAGER_EXIT_USAGE;
    }
    if (c->inherited || (what == CHECK && s->listen.count == 0)) {
        settings_set(s, "listen", "fd:0", &err); /* what it amounts to */
    }
    return settings_finish(s, &err) == 0 ? 0 : bad_usage(&err);
}

/* A copy of what the command line says, if it says anything. 0 or -1. */
static int
take(const char *value, char **ret)
{
    if (value == NULL) {
        return 0;
    }
    *ret = strdup(value);
    return *ret != NULL ? 0 : -1;
}

static int
serve(struct pool_settings *s, const struct command *c)
{
    struct config config;
    int code = MANAGER_EXIT_FAILED;

    upgrade_receive();
    inherited_close(c->inherited);
    if (config_of_pool(s, &config) != 0) {
        fprintf(stderr, "forebay: out of memory\n");
        return MANAGER_EXIT_FAILED;
    }
    if (take(c->control, &config.manager.control) != 0 ||
        take(c->status_listen, &config.manager.status_listen) != 0) {
        fprintf(stderr, "forebay: out of memory\n");
    } else {
        code = manager_run(&config, NULL, c->inherited);
    }
    config_release(&config);
    return code;
}

/* path from the root, for a manager that reads it again later. Owned by the
 * caller; NULL with errno. Links are followed when it is read, not now: what
 * they point to may be exchanged. */
static char *
absolute(const char *path)
{
    char *folder, *whole = NULL;

    if (path[0] == '/') {
        return strdup(path);
    }
    folder = getcwd(NULL, 0);
    if (folder != NULL && asprintf(&whole, "%s/%s", folder, path) < 0) {
        whole = NULL;
    }
    free(folder);
    return whole;
}

/* Serve or check the pools of a file. */
static int
config_command(const struct command *c)
{
    char *path = absolute(c->config);
    struct conf_error err = { 0 };
    struct config config;
    int code;

    if (path == NULL) {
        fprintf(stderr, "forebay: %s: %s\n", c->config, strerror(errno));
        return MANAGER_EXIT_CONFIG;
    }
    if (config_read(path, &config, &err) != 0) {
        bad_usage(&err);
        free(path);
        return MANAGER_EXIT_CONFIG;
    }
    if (c->what == CHECK) {
        code = check_config(&config);
    } else {
        upgrade_receive();
        inherited_close(false);
        code = manager_run(&config, path, false);
    }
    config_release(&config);
    free(path);
    return code;
}

static int
pool_command(int what, int argc, char **argv)
{
    struct command c = { .what = what };
    struct pool_settings *s = malloc(sizeof(*s));
    int code;

    if (s == NULL || settings_init(s) != 0) {
        fprintf(stderr, "forebay: out of memory\n");
        free(s);
        return MANAGER_EXIT_FAILED;
    }
    code = read_command_line(what, argc, argv, &c, s);
    if (code == 0 && !c.help && c.config == NULL && what != CHECK) {
        return serve(s, &c);
    }
    if (c.help) {
        print_help(what);
    } else if (code == 0) {
        code = c.config != NULL ? config_command(&c) : check_run(s);
    }
    settings_release(s);
    free(s);
    return code;
}

static int
print_version(void)
{
    struct venv_worker worker[VENV_MAX_WORKERS];
    unsigned n = venv_list_workers(worker, VENV_MAX_WORKERS);

    printf("forebay %s\nlibuv %s\nlibfcgi %s\njansson %s\n", FOREBAY_VERSION,
           uv_version_string(), FOREBAY_LIBFCGI_VERSION,
           FOREBAY_JANSSON_VERSION);
    fflush(stdout);
    for (unsigned i = 0; i < n; i++) {
        char command[VENV_PATH_MAX + 16];

        snprintf(command, sizeof(command), "'%s' --version", worker[i].path);
        if (system(command) != 0) {
            printf("%s cannot be run\n", worker[i].path);
        }
    }
    return MANAGER_EXIT_OK;
}

int
main(int argc, char **argv)
{
    const char *command = argc > 1 ? argv[1] : "";
    const char *slash = argc > 0 ? strrchr(argv[0], '/') : NULL;
    sigset_t none;

    upgrade_remember(argv);
    inherited_open_standard();
    /* What it starts is to find the signals as they are. */
    if (argc > 0 &&
        strcmp(slash != NULL ? slash + 1 : argv[0], SPAWN_FCGI) == 0) {
        return spawn_main(SPAWN_FCGI, argc, argv);
    }
    if (strcmp(command, "spawn") == 0) {
        return spawn_main("forebay spawn", argc - 1, argv + 1);
    }
    /* What the parent blocked stays blocked through exec; not here. */
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    if (strcmp(command, "serve") == 0) {
        return pool_command(SERVE, argc - 1, argv + 1);
    }
    if (strcmp(command, "run") == 0) {
        return pool_command(RUN, argc - 1, argv + 1);
    }
    if (strcmp(command, "check") == 0) {
        return pool_command(CHECK, argc - 1, argv + 1);
    }
    if (strcmp(command, "program-template") == 0) { /* by the manager */
        return program_template_main(argc - 1, argv + 1);
    }
    if (strcmp(command, "ctl") == 0) {
        return ctl_main(argc - 1, argv + 1);
    }
    if (strcmp(command, "request") == 0) {
        return request_client_main(argc - 1, argv + 1);
    }
    if (strcmp(command, "--version") == 0 || strcmp(command, "-V") == 0) {
        return print_version();
    }
    if (strcmp(command, "--help") == 0 || strcmp(command, "-h") == 0 ||
        strcmp(command, "help") == 0) {
        fputs(usage, stdout);
        return MANAGER_EXIT_OK;
    }
    if (command[0] != '\0') {
        fprintf(stderr, "forebay: there is no command \"%s\"\n\n", command);
    }
    fputs(usage, stderr);
    return MANAGER_EXIT_USAGE;
}
