/* SPDX-License-Identifier: MIT
 *
 * Find and import the application: "module:callable", "module",
 * "path/to/file.py[:callable]", "file.wsgi"; attribute names may be dotted,
 * "name()" is a factory called once per worker. Template and worker; GIL held.
 */
#ifndef FOREBAY_PYTHON_APP_H
#define FOREBAY_PYTHON_APP_H

#include <stdbool.h>
#include <stddef.h>

#include "python/pyref.h"

enum { APP_PATH_MAX = 4096 };

/* An APP text taken apart; needs no interpreter. */
struct app_name {
    char module[APP_PATH_MAX]; /* import name; a file's is its stem, and
                                  for files in packages the dotted name */
    char file[APP_PATH_MAX];   /* absolute path, or "" for a module */
    char dir[APP_PATH_MAX];    /* folder that must be on sys.path, or "" */
    char attribute[256];       /* dotted; "" means application, then app */
    bool factory;              /* the attribute is called to get the app */
};

/* Take text apart. 0, or -1 with one sentence in why. Relative paths are
 * resolved against the working directory. */
int app_name_parse(const char *text, struct app_name *ret, char *why,
                   size_t size);

/* It is imported by its name; otherwise its file is loaded under that name,
 * which is made up. */
bool app_name_is_importable(const struct app_name *name);

/* Import the module (under its real name, never twice) and find the attribute.
 * *ret_object is the application, or with factory what makes it. On failure -1:
 * one sentence in why; the traceback, if there is one, has been written to the
 * log once. SystemExit and KeyboardInterrupt are failures as well. */
int app_import(const struct app_name *name, PyObject **ret_object, char *why,
               size_t size);

/* Call the factory (if any) and check that the result is a callable that takes
 * two positional arguments, as far as inspect can tell. As app_import. Called
 * once per worker. */
int app_make(const struct app_name *name, PyObject *object, PyObject **ret_app,
             char *why, size_t size);

#endif
