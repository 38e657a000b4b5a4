/* SPDX-License-Identifier: MIT
 *
 * Where the running program is, also where /proc is not mounted (a bare chroot
 * or container). Any process.
 */
#ifndef FOREBAY_SERVER_OWN_PROGRAM_H
#define FOREBAY_SERVER_OWN_PROGRAM_H

#include <stddef.h>

/* Its path into out: "" when it cannot be found out. Without /proc it is the
 * one that the program was started by, so ask before the working folder
 * changes. Returns out. */
char *own_program(char *out, size_t size);

#endif
