/* SPDX-License-Identifier: MIT
 *
 * Errors as one sentence for a person. Internal to python/.
 */
#ifndef FOREBAY_PYTHON_WHY_H
#define FOREBAY_PYTHON_WHY_H

#include <stdarg.h>
#include <stdio.h>

/* Write the sentence, cut to size. Returns -1, for "return why_say(...)". */
static inline int __attribute__((format(printf, 3, 4)))
why_say(char *why, size_t size, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(why, size, fmt, ap);
    va_end(ap);
    return -1;
}

#endif
