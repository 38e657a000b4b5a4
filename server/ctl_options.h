/* SPDX-License-Identifier: MIT
 *
 * The command line of `forebay ctl`: which manager is meant, what is said to
 * it, and how long its answer may take. A tool; says on standard error what is
 * wrong.
 */
#ifndef FOREBAY_SERVER_CTL_OPTIONS_H
#define FOREBAY_SERVER_CTL_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "server/control.h"

struct ctl_options {
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

extern const char ctl_usage[];

/* argv[0] is skipped. 0, or the exit code of what was wrong and was said. */
int ctl_options_read(struct ctl_options *c, int argc, char **argv);

/* Say a sentence. Returns code. */
int ctl_complain(int code, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

#endif
