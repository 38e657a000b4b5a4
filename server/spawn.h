/* SPDX-License-Identifier: MIT
 *
 * `forebay spawn`, also when called as spawn-fcgi: opens a socket, takes the
 * rights of a user, and starts a FastCGI program with the socket as descriptor
 * 0 (FastCGI 1.0, section 2.2). Tool; with --supervise it becomes a manager
 * (spawn_pool.h).
 */
#ifndef FOREBAY_SERVER_SPAWN_H
#define FOREBAY_SERVER_SPAWN_H

/* Called by that name, the command line is that of spawn-fcgi(1). */
#define SPAWN_FCGI "spawn-fcgi"

/* name: what it was called, for its messages, "spawn-fcgi" or "forebay spawn";
 * argv[0] is skipped. The exit code, which is spawn-fcgi's. With -n and without
 * --supervise it returns only when the program cannot be run. */
int spawn_main(const char *name, int argc, char **argv);

#endif
