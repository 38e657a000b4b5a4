/* SPDX-License-Identifier: MIT
 *
 * The template of a pool of external FastCGI programs (`command`): forks and
 * executes them with the listening socket as descriptor 0, as spawn-fcgi does.
 * Started by the manager as `forebay program-template`; no Python.
 */
#ifndef FOREBAY_SERVER_PROGRAM_H
#define FOREBAY_SERVER_PROGRAM_H

/* Run it; the exit code, when it cannot start. argv[0] is skipped. */
int program_template_main(int argc, char **argv);

#endif
