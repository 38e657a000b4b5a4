/* SPDX-License-Identifier: MIT
 *
 * wsgi.file_wrapper (PEP 3333, "Optional Platform-Specific File Handling").
 * Internal to python/. GIL held.
 */
#ifndef FOREBAY_PYTHON_FILE_WRAPPER_H
#define FOREBAY_PYTHON_FILE_WRAPPER_H

#include <stdint.h>
#include <sys/types.h>

#include "python/pyref.h"

struct state;

PyTypeObject *file_wrapper_new_type(void);

enum file_wrapper_kind {
    FILE_WRAPPER_ERROR = -1, /* an exception is set */
    FILE_WRAPPER_ITERATE,    /* anything that has read() */
    FILE_WRAPPER_DESCRIPTOR, /* a regular file: *ret_fd from *ret_offset, so
                                many bytes as *ret_len */
    FILE_WRAPPER_BYTES,      /* in memory: *ret_bytes is all that is left */
};

/* How the file of a wrapper can be sent. */
enum file_wrapper_kind file_wrapper_examine(const struct state *s,
                                            PyObject *wrapper, int *ret_fd,
                                            off_t *ret_offset,
                                            uint64_t *ret_len,
                                            PyObject **ret_bytes);

#endif
