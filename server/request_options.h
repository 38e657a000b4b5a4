/* SPDX-License-Identifier: MIT
 *
 * The command line of `forebay request`. Files of bodies are opened as they are
 * named; nothing is sent. The tool only; says on standard error what is wrong.
 */
#ifndef FOREBAY_SERVER_REQUEST_OPTIONS_H
#define FOREBAY_SERVER_REQUEST_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "server/request_form.h"
#include "server/request_message.h"

/* Strings belong to argv. */
struct request_options {
    struct message *message; /* gets the bodies; borrowed */

    const char *connect;
    const char *method; /* NULL: follows from the body */
    const char *url;
    const char *script_name;
    const char *path_info;
    const char *output; /* NULL: standard output */
    char **header;      /* header_count; the lists are owned */
    unsigned header_count;
    char **param;
    unsigned param_count;
    char **no_param;
    unsigned no_param_count;
    bool include, head, silent, verbose, fail, upload, data, filter_data;
    struct form form;
    bool scgi, keep_conn;
    int role; /* FastCGI: FCGI_RESPONDER ... */
    unsigned repeat;
    uint64_t timeout_ms; /* 0: none */
};

void request_options_init(struct request_options *o, struct message *m);
void request_options_release(struct request_options *o);

/* argv[0] is skipped. 0, the exit code of what was wrong and was said, or -1:
 * --help was printed. */
int request_options_read(struct request_options *o, int argc, char **argv);

/* Say a sentence, unless --silent. Returns code. */
int request_complain(const struct request_options *o, int code, const char *fmt,
                     ...) __attribute__((format(printf, 3, 4)));

#endif
