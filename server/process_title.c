/* SPDX-License-Identifier: MIT
 *
 * The title of a template or worker in ps: written over its argument vector,
 * which the manager made long enough.
 */
#include "server/process_title.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static char *title;
static size_t title_size;

void
process_title_init(int argc, char **argv)
{
    title = argv[0];
    title_size =
        (size_t)(argv[argc - 1] - argv[0]) + strlen(argv[argc - 1]) + 1;
}

void
process_title_set(const char *fmt, ...)
{
    char text[256];
    va_list args;

    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    memset(title, 0, title_size);
    snprintf(title, title_size, "%s", text);
}
