/* SPDX-License-Identifier: MIT
 *
 * What the files of conf/ share among themselves: sizes of the units, rows by
 * name, and the words of an error. Not for others.
 */
#ifndef FOREBAY_CONF_INTERNAL_H
#define FOREBAY_CONF_INTERNAL_H

#include "conf/settings.h"

#define KB UINT64_C(1024)
#define MB (UINT64_C(1024) * KB)
#define GB (UINT64_C(1024) * MB)

/* Fill *err for the command line; returns -1. */
int conf_fail(struct conf_error *err, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* The row of a name ('-' and '_' are the same) or of a letter, or NULL. */
const struct setting *settings_find(const char *name);
const struct setting *settings_find_letter(char letter);

/* The index'th word of "a|b|c", copied to out; NULL when there are fewer. */
const char *settings_choice(const char *choices, unsigned index, char *out,
                            size_t size);

/* Where a row's value is. It is read and written by memcpy, because only the
 * table knows its type. */
void *settings_field(const struct pool_settings *s, const struct setting *row);

/* As settings_set(), of a row. */
int settings_set_row(struct pool_settings *s, const struct setting *row,
                     const char *value, struct conf_error *err);

#endif
