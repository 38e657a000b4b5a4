/* SPDX-License-Identifier: MIT
 *
 * What libFuzzer, or main.c, calls; and a reader that takes an input apart.
 */
#ifndef FOREBAY_TESTS_FUZZ_H
#define FOREBAY_TESTS_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A broken promise: the fuzzer keeps the input. */
#define FUZZ_CHECK(what)                                                       \
    do {                                                                       \
        if (!(what)) {                                                         \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #what);         \
            abort();                                                           \
        }                                                                      \
    } while (0)

struct fuzz_input {
    const uint8_t *data;
    size_t left;
};

/* The next byte, 0 when there is none. */
static inline unsigned
fuzz_byte(struct fuzz_input *in)
{
    if (in->left == 0) {
        return 0;
    }
    in->left--;
    return *in->data++;
}

/* Bytes whose number is the next byte, in memory of exactly that size, freed by
 * the caller. */
static inline char *
fuzz_bytes(struct fuzz_input *in, size_t *ret_len)
{
    size_t len = fuzz_byte(in), i;
    char *bytes;

    len = len < in->left ? len : in->left;
    bytes = malloc(len > 0 ? len : 1);
    FUZZ_CHECK(bytes != NULL);
    for (i = 0; i < len; i++) {
        bytes[i] = (char)in->data[i];
    }
    in->data += len;
    in->left -= len;
    *ret_len = len;
    return bytes;
}

#endif
