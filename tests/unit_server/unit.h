/* SPDX-License-Identifier: MIT
 *
 * What the unit tests of server/ and conf/ share: cmocka's headers in their
 * order, and a temporary folder of one's own.
 */
#ifndef FOREBAY_TESTS_UNIT_H
#define FOREBAY_TESTS_UNIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

/* A new folder in *state: for cmocka's setup. */
static inline int
unit_make_folder(void **state)
{
    const char *base = getenv("TMPDIR");
    char *path;

    if (asprintf(&path, "%s/forebay-unit-XXXXXX",
                 base != NULL ? base : "/tmp") < 0 ||
        mkdtemp(path) == NULL) {
        return -1;
    }
    *state = path;
    return 0;
}

/* rm -r of it: for cmocka's teardown. */
static inline int
unit_remove_folder(void **state)
{
    char *path = *state, *command;
    int rc;

    if (asprintf(&command, "rm -rf -- '%s'", path) < 0) {
        return -1;
    }
    rc = system(command);
    free(command);
    free(path);
    return rc == 0 ? 0 : -1;
}

/* A path below the folder; the caller frees it. */
static inline char *
unit_path(void **state, const char *name)
{
    char *path;

    assert_true(asprintf(&path, "%s/%s", (char *)*state, name) > 0);
    return path;
}

#define assert_contains(text, part)                                            \
    do {                                                                       \
        if (strstr((text), (part)) == NULL) {                                  \
            fail_msg("\"%s\" does not contain \"%s\"", (text), (part));        \
        }                                                                      \
    } while (0)

#endif
