/* SPDX-License-Identifier: MIT
 *
 * The file with the process number of the manager, for init scripts and
 * operators. Manager only; does not log.
 */
#ifndef FOREBAY_SERVER_PIDFILE_H
#define FOREBAY_SERVER_PIDFILE_H

#include <stddef.h>

/* Could it be written? What can be known without writing: its folder, and that
 * the path is free or a file. 0, or -1 with a sentence in why. */
int pidfile_check(const char *path, char *why, size_t size);

/* Put the number of this process there. Whoever reads the path sees a whole
 * number: the old one or this one. 0, or -1 with a sentence in why. */
int pidfile_write(const char *path, char *why, size_t size);

/* Remove it, but only when it still holds the number of this process: another
 * manager may have taken the path over. */
void pidfile_remove(const char *path);

#endif
