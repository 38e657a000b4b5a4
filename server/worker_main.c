/* SPDX-License-Identifier: MIT
 *
 * The program forebay-worker-3.x: a template and, by fork, its workers. Started
 * by the manager only; its arguments are descriptor numbers.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#include "python/interp.h"
#include "server/log.h"
#include "server/template.h"
#include "server/worker.h"

static int
number(const char *text)
{
    char *end;
    long n = strtol(text, &end, 10);

    return *end == '\0' && n >= 0 && n < 1 << 20 ? (int)n : -1;
}

static int
read_listeners(char *text, struct template_start *start)
{
    char *rest = NULL;

    for (char *item = strtok_r(text, ",", &rest); item != NULL;
         item = strtok_r(NULL, ",", &rest)) {
        if (start->listen_count == EXECUTOR_MAX_LISTENERS ||
            (start->listen_fd[start->listen_count++] = number(item)) < 0) {
            return -1;
        }
    }
    return 0;
}

static int
read_args(int argc, char **argv, struct template_start *start)
{
    for (int i = 1; i < argc; i++) {
        char *value = strchr(argv[i], '=');
        size_t len = value != NULL ? (size_t)(value - argv[i]) : 0;

        if (strcmp(argv[i], "--clean") == 0) {
            start->clean = true;
        } else if (value == NULL) {
            return strspn(argv[i], "-") == strlen(argv[i]) ? 0 : -1;
        } else if (strncmp(argv[i], "--channel", len) == 0) {
            start->channel = number(value + 1);
        } else if (strncmp(argv[i], "--scoreboard", len) == 0) {
            start->scoreboard = number(value + 1);
        } else if (strncmp(argv[i], "--settings", len) == 0) {
            start->settings = number(value + 1);
        } else if (strncmp(argv[i], "--slots", len) == 0) {
            start->slots = (unsigned)number(value + 1);
        } else if (strncmp(argv[i], "--queue-in", len) == 0) {
            start->queue_in = number(value + 1);
        } else if (strncmp(argv[i], "--queue-out", len) == 0) {
            start->queue_out = number(value + 1);
        } else if (strncmp(argv[i], "--log-level", len) == 0) {
            log_set_level((enum log_level)number(value + 1));
        } else if (strncmp(argv[i], "--listen", len) == 0) {
            char *copy = strdup(value + 1);
            int rc = copy != NULL ? read_listeners(copy, start) : -1;

            free(copy);
            if (rc != 0) {
                return -1;
            }
        } else {
            return -1;
        }
    }
    return start->channel >= 0 && start->scoreboard >= 0 &&
                   start->settings >= 0 && start->slots > 0
               ? 0
               : -1;
}

int
main(int argc, char **argv)
{
    struct template_start start = {
        .channel = -1,
        .scoreboard = -1,
        .settings = -1,
        .queue_in = -1,
        .queue_out = -1,
        .argv = argv,
    };
    char **copy;

    if (argc == 2 && strcmp(argv[1], "--version") == 0) {
        printf("forebay-worker %s, Python %s\n", FOREBAY_VERSION,
               interp_version());
        return 0;
    }
    if (argc == 3 && strcmp(argv[1], "--check") == 0 &&
        strncmp(argv[2], "--settings=", 11) == 0) {
        return template_check(number(argv[2] + 11));
    }
    /* ps shows a title written over argv; what is needed again is copied. */
    copy = calloc((size_t)argc + 2, sizeof(*copy));
    for (int i = 0; copy != NULL && i < argc; i++) {
        copy[i] = strdup(argv[i]);
    }
    start.argv = copy;
    if (copy == NULL || read_args(argc, argv, &start) != 0) {
        fprintf(stderr, "%s is started by forebay; see forebay(8)\n", argv[0]);
        return EX_USAGE;
    }
    process_title_init(argc, argv);
    return template_main(&start);
}
