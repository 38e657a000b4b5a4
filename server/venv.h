/* SPDX-License-Identifier: MIT
 *
 * Which Python a pool wants, and the worker program for it: read from files,
 * no Python runs. Manager and `forebay check`; the template checks again with
 * its own interpreter, after it has dropped its rights.
 */
#ifndef FOREBAY_SERVER_VENV_H
#define FOREBAY_SERVER_VENV_H

#include <stddef.h>

enum { VENV_PATH_MAX = 4096, VENV_MAX_WORKERS = 16 };

/* "3.11"; major 0 is "any". */
struct python_version {
    unsigned major, minor;
};

struct venv {
    char folder[VENV_PATH_MAX]; /* as given, without slashes at the end */
    char home[VENV_PATH_MAX];   /* folder of the Python it was made from; "" if
                                   pyvenv.cfg does not say */
    struct python_version version;
};

/* A worker program that is installed. */
struct venv_worker {
    struct python_version version;
    char path[VENV_PATH_MAX];
};

/* Read folder/pyvenv.cfg. 0, or -1 with a sentence: no such folder, not
 * readable (by which user), no virtual environment, no version in it, the
 * Python it was made from is gone. */
int venv_read(const char *folder, struct venv *ret, char *why, size_t size);

/* The setting `python`: "3.11", or an executable, whose version its name (or
 * what it links to), its pyvenv.cfg or its library folder tells. 0 or -1. */
int venv_python_version(const char *python, struct python_version *ret,
                        char *why, size_t size);

/* What a pool wants: python, else the virtualenv's (both may be NULL), else
 * any. They must agree when both are given. 0 or -1. */
int venv_wanted(const char *python, const char *virtualenv,
                struct python_version *ret, char *why, size_t size);

/* The installed worker programs, newest version first: those beside the running
 * executable, then those of the compiled-in folder whose version is not among
 * them. Returns how many, at most max. */
unsigned venv_list_workers(struct venv_worker *ret, unsigned max);

/* The worker program for a version: for any the one that the build named as its
 * default, else the newest. 0 with its path, or -1 with one sentence that says
 * which version is wanted and which are installed. */
int venv_find_worker(const struct python_version *wanted, char *ret_path,
                     size_t path_size, char *why, size_t size);

#endif
