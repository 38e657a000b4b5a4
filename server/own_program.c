/* SPDX-License-Identifier: MIT
 *
 * See own_program.h.
 */
#include "server/own_program.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

char *
own_program(char *out, size_t size)
{
    ssize_t n = readlink("/proc/self/exe", out, size - 1);
    /* What execve(2) was given (getauxval(3)). */
    const char *started = (const char *)getauxval(AT_EXECFN);
    char whole[PATH_MAX];

    out[n > 0 ? n : 0] = '\0';
    if (n <= 0 && started != NULL && realpath(started, whole) != NULL &&
        strlen(whole) < size) {
        memcpy(out, whole, strlen(whole) + 1);
    }
    return out;
}
