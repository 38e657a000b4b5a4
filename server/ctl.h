/* SPDX-License-Identifier: MIT
 *
 * `forebay ctl`: says a command to a running manager over its control socket
 * (control.h) and shows the answer. The tool only.
 */
#ifndef FOREBAY_SERVER_CTL_H
#define FOREBAY_SERVER_CTL_H

/* argv[0] is "ctl". The exit code: 0; 1 with a sentence on standard error; 64
 * for a wrong command line. */
int ctl_main(int argc, char **argv);

#endif
