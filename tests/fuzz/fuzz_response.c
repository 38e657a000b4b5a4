/* SPDX-License-Identifier: MIT
 *
 * protocol/response.c: what passes the checks makes exactly one line of the
 * response head.
 *
 *     input = what is checked, name, value (each a length byte and that many
 *             bytes)
 */
#include "fuzz.h"

#include <string.h>

#include "protocol/response.h"

/* "Name: value" and CR LF, and nothing else that ends a line or a string. */
static void
check_line(const struct buf *out)
{
    size_t i;

    FUZZ_CHECK(out->len >= 4);
    FUZZ_CHECK(memcmp(out->data + out->len - 2, "\r\n", 2) == 0);
    FUZZ_CHECK(memchr(out->data, ':', out->len) != NULL);
    for (i = 0; i < out->len - 2; i++) {
        unsigned char c = (unsigned char)out->data[i];

        FUZZ_CHECK((c >= 0x20 && c != 0x7f) || c == '\t');
    }
}

static void
try_status(struct buf *out, const char *s, size_t len)
{
    const char *why = NULL;
    int code = 0;
    enum response_check result = response_check_status(s, len, &code, &why);

    FUZZ_CHECK((result == RESPONSE_BAD) == (why != NULL));
    if (result != RESPONSE_BAD) {
        FUZZ_CHECK(code >= 200 && code <= 999);
        FUZZ_CHECK(response_put_status(out, s, len) == 0);
        check_line(out);
        /* Always a reason behind "Status: NNN ". */
        FUZZ_CHECK(out->len > 12 + 2);
    }
}

static void
try_header(struct buf *out, const char *name, size_t name_len,
           const char *value, size_t value_len)
{
    const char *why = NULL;
    int64_t length = -1;
    enum response_check result =
        response_check_header(name, name_len, value, value_len, &length, &why);

    FUZZ_CHECK((result == RESPONSE_BAD) == (why != NULL));
    FUZZ_CHECK((result == RESPONSE_LENGTH) == (length >= 0));
    if (result != RESPONSE_BAD) {
        FUZZ_CHECK(response_put_header(out, name, name_len, value, value_len) ==
                   0);
        check_line(out);
        FUZZ_CHECK(out->len == name_len + value_len + 4);
    }
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input in = { data, size };
    unsigned what = fuzz_byte(&in);
    size_t name_len, value_len;
    char *name = fuzz_bytes(&in, &name_len);
    char *value = fuzz_bytes(&in, &value_len);
    struct buf out;

    buf_init(&out, SIZE_MAX);
    if (what % 2 == 0) {
        try_status(&out, value, value_len);
    } else {
        try_header(&out, name, name_len, value, value_len);
    }
    FUZZ_CHECK(response_simple(&out, (int)(200 + what), false) == 0);
    buf_release(&out);
    free(name);
    free(value);
    return 0;
}
