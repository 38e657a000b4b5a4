/* SPDX-License-Identifier: MIT
 *
 * Is a folder a virtualenv that this build of Python can use? Files only; needs
 * no interpreter. Template and worker, and `forebay check`.
 */
#ifndef FOREBAY_PYTHON_PYVENV_H
#define FOREBAY_PYTHON_PYVENV_H

#include <stddef.h>

/* Check that dir exists, can be entered and read by this user, has a
 * pyvenv.cfg, is of Python major.minor and was made from the python whose
 * executable is base (wsgi checklist R4). *ret_python (of size bytes) is the
 * path of its python. 0, or -1 with one plain sentence in why. */
int pyvenv_check(const char *dir, int major, int minor, const char *base,
                 char *ret_python, size_t python_size, char *why, size_t size);

#endif
