/* SPDX-License-Identifier: MIT
 *
 * What has been read of a configuration so far: its sections, where each thing
 * stood, and what no single pool can know. The grammar is config_lines.c, files
 * are config_file.c. Any process. Never logs: an error has file, line and a
 * sentence. Not for others.
 */
#ifndef FOREBAY_CONF_READER_H
#define FOREBAY_CONF_READER_H

#include <sys/types.h>

#include "conf/config.h"
#include "conf/internal.h"

/* A line of a file; line 0 is none. */
struct place {
    const char *file; /* of reader.name */
    unsigned line;
};

/* [forebay] or one [pool NAME]. */
struct section {
    const struct conf_table *table;
    void *base;                 /* the struct that is filled */
    struct pool_settings *pool; /* the same, or NULL for [forebay] */
    struct place heading;
    struct place *given; /* of each row of the table; owned */
    struct section *next;
};

/* An address that is listened on. */
struct listened {
    char *address; /* in one spelling; owned */
    struct place place;
    const struct section *section;
};

/* A file that is being read; the file that includes it is from. */
struct source {
    struct source *from;
    struct place here;
    dev_t dev;
    ino_t ino;
    unsigned depth;
    struct section *section; /* NULL before the first heading */
    /* The list that a line with a blank in front would go on with, where it
     * began, and whether it has an item yet. */
    const struct setting *list;
    struct place list_place;
    bool list_filled;
};

struct reader {
    struct config *c;
    struct conf_error *err;
    bool may_include;
    struct source *source;
    struct section forebay;
    struct section *pools; /* the last one first */
    char **name;           /* of files; names of them */
    unsigned names;
    struct listened *listened; /* addresses of them */
    unsigned addresses;
};

/* The defaults of [forebay] into r->c, which is empty. 0, or -1 with *r->err:
 * reader_release() is due in either case. */
int reader_start(struct reader *r);
/* What only a whole pool can tell, in the order of the file. 0 or -1. */
int reader_finish(struct reader *r);
/* All but the configuration. */
void reader_release(struct reader *r);

/* An error in the line that is being read. Returns -1. */
int reader_fail(struct reader *r, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* The error that *r->err has is about this place. Returns -1. A path that is
 * too long keeps its end. */
int reader_locate(struct reader *r, const struct place *place);

/* The name of a file for errors, kept as long as the reader. NULL out of
 * memory. */
const char *reader_keep_name(struct reader *r, const char *name);

/* The line that is being read begins the section of a pool. 0 or -1. */
int reader_start_pool(struct reader *r, const char *name);

/* The line that is being read says to listen there. Two on one address would
 * take each other's connections, or the second would not start: -1. */
int reader_note_address(struct reader *r, const struct section *s,
                        const char *address);

/* -- config_lines.c ---------------------------------------------------------
 */

/* Read a whole file, with a NUL behind it; it is changed. 0 or -1. */
int config_parse(struct reader *r, char *text, size_t len);

/* -- config_file.c ----------------------------------------------------------
 */

/* The line that is being read includes a file or pattern: read them. 0 or -1.
 */
int config_include(struct reader *r, const char *item);

#endif
