/* SPDX-License-Identifier: MIT
 *
 * The title of a template or worker in ps.
 */
#ifndef FOREBAY_SERVER_PROCESS_TITLE_H
#define FOREBAY_SERVER_PROCESS_TITLE_H

/* The process title shown by ps; main() calls process_title_init() first. */
void process_title_init(int argc, char **argv);
void process_title_set(const char *fmt, ...)
    __attribute__((format(printf, 1, 2)));

#endif
