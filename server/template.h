/* SPDX-License-Identifier: MIT
 *
 * The template of a Python pool: started afresh by the manager with only the
 * descriptors that it is given, it drops privileges, imports the application
 * once (preload) and forks workers when told to (nursery.h). One thread; no
 * Python runs here once it is ready.
 */
#ifndef FOREBAY_SERVER_TEMPLATE_H
#define FOREBAY_SERVER_TEMPLATE_H

#include "server/template_args.h"

/* Run the template; the exit code, when it cannot start. */
int template_main(const struct template_start *start);

/* `forebay check`: only import and make the application of these settings, as
 * the pool's user; say on descriptor 2 what is wrong. The exit code. */
int template_check(int settings);

#endif
