/* SPDX-License-Identifier: MIT
 *
 * What the files of conf/ share among themselves: sizes of the units, tables
 * and their rows by name, and the words of an error. Not for others.
 */
#ifndef FOREBAY_CONF_INTERNAL_H
#define FOREBAY_CONF_INTERNAL_H

#include "conf/settings.h"

#define KB UINT64_C(1024)
#define MB (UINT64_C(1024) * KB)
#define GB (UINT64_C(1024) * MB)

struct config;

enum { CONF_POOL_NAME_MAX = 40 };

/* The rows that describe one kind of struct. */
struct conf_table {
    const struct setting *row; /* count of them */
    unsigned count;
};

extern const struct conf_table conf_pool_table;    /* struct pool_settings */
extern const struct conf_table conf_manager_table; /* struct manager_settings */

/* Fill *err for the command line; returns -1. */
int conf_fail(struct conf_error *err, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* The same, about a setting (its name in the table, a constant). */
int conf_fail_about(struct conf_error *err, const char *setting,
                    const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* There is no such setting; perhaps another one was meant. Returns -1. */
int conf_fail_unknown(const struct conf_table *t, const char *name,
                      struct conf_error *err);

/* The row of a name ('-' and '_' are the same), or NULL. */
const struct setting *conf_table_find(const struct conf_table *t,
                                      const char *name);

/* The name in the table that is nearest to a wrong one, or NULL. */
const char *conf_table_nearest(const struct conf_table *t, const char *name);

/* How many letters must be changed, added, left out or swapped to make b of a;
 * UINT_MAX when one of them is long. */
unsigned conf_edit_distance(const char *a, const char *b);

/* Defaults into a struct of zeros; 0, or -1 out of memory: release is due in
 * either case, and leaves dangling pointers. */
int conf_table_init(const struct conf_table *t, void *base,
                    struct conf_error *err);
void conf_table_release(const struct conf_table *t, void *base);

/* 1 to 40 of [A-Za-z0-9_.-]? */
bool conf_is_pool_name(const char *name);

/* The row of a pool's setting by letter, or NULL. */
const struct setting *settings_find_letter(char letter);

/* The index'th word of "a|b|c", copied to out; NULL when there are fewer. */
const char *settings_choice(const char *choices, unsigned index, char *out,
                            size_t size);

/* Where a row's value is, in the struct of the row's table. It is read and
 * written by memcpy, because only the table knows its type. */
void *settings_field(const void *base, const struct setting *row);

/* Set a row of the struct at base. first: a list's items so far are a default
 * that the value replaces. 0, or -1 with *err. */
int settings_set_row(void *base, const struct setting *row, bool first,
                     const char *value, struct conf_error *err);

/* As settings_set(), of a row. */
int settings_give(struct pool_settings *s, const struct setting *row,
                  const char *value, struct conf_error *err);

/* A copy of value at the end. 0, or -1 out of memory. */
int conf_list_append(struct conf_list *list, const char *value);

/* For setting.check: NAME=VALUE; a path of a URL;
 * /path=/target; a path of a file that begins
 * with a slash; one of row->choices; a size or "unlimited"; words. */
int conf_check_env(const struct setting *row, const char *value,
                   struct conf_error *err);
int conf_check_url_path(const struct setting *row, const char *value,
                        struct conf_error *err);
int conf_check_network(const struct setting *row, const char *value,
                       struct conf_error *err);
int conf_check_map(const struct setting *row, const char *value,
                   struct conf_error *err);
int conf_check_absolute(const struct setting *row, const char *value,
                        struct conf_error *err);
int conf_check_choice(const struct setting *row, const char *value,
                      struct conf_error *err);
int conf_check_core(const struct setting *row, const char *value,
                    struct conf_error *err);
int conf_check_words(const struct setting *row, const char *value,
                     struct conf_error *err);

/* -- amount.c: numbers with units -------------------------------------------
 */

/* The whole text, in what a setting of this type stores: bytes, milliseconds,
 * microseconds, or a plain number. Returns 1, 0 (no such number), -1 (too
 * large). */
int conf_amount_parse(const char *text, enum setting_type type, uint64_t *ret);

/* A number as people write it: the largest unit that divides it. Returns out.
 */
char *conf_amount_format(uint64_t n, enum setting_type type, char *out,
                         size_t size);

/* What such a text must be, for "... is not %s". */
const char *conf_amount_advice(enum setting_type type);

/* -- scan.c: values in a text ----------------------------------------------
 */

enum {
    CONF_LINE_MAX = 64 * 1024, /* bytes of a line, and of a value */
};

/* How a value is written. */
enum conf_scan {
    CONF_SCAN_VALUE, /* the whole rest of the line, or "..." */
    CONF_SCAN_ITEM,  /* up to the next blank, or "..." */
    CONF_SCAN_WORD,  /* the same without ${variables} and comments */
};

/* Read the value that begins at *at (not a blank) into *ret, which the caller
 * frees, and move *at behind it and the blanks that follow. 0, or -1 with *err
 * (of the command line: file and line are the caller's business). */
int conf_scan_value(const char **at, enum conf_scan how, char **ret,
                    struct conf_error *err);

/* -- config_file.c ----------------------------------------------------------
 */

/* As config_read(), of a text in memory that is called name in errors and
 * includes nothing. For tests. */
int config_read_text(const char *name, const char *text, size_t len,
                     struct config *ret, struct conf_error *err);

#endif
