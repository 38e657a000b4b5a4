/* SPDX-License-Identifier: MIT
 *
 * server/request_form.c: the parts of multipart/form-data, and what cannot be
 * one.
 */
#include "tests/unit_server/unit.h"

#include "server/request_form.h"

static char why[512];

/* What the body says, with "BOUNDARY" for the one that was chosen. */
static char *
read_form(struct form *f, struct body *b)
{
    static char text[4096], *at;
    size_t len = 0, width;
    ssize_t n;

    assert_true(f->used);
    width = strlen(f->boundary);
    assert_true(width >= 8 && width <= 70); /* RFC 2046, section 5.1.1 */
    assert_int_equal(form_end(f, b), 0);
    while ((n = body_read(b, text + len, sizeof(text) - 1 - len)) > 0) {
        len += (size_t)n;
    }
    text[len] = '\0';
    while ((at = strstr(text, f->boundary)) != NULL) {
        memcpy(at, "BOUNDARY", 8);
        memmove(at + 8, at + width, strlen(at + width) + 1);
    }
    return text;
}

static void
test_values(void **state)
{
    struct form f = { 0 };
    struct body b = { 0 };

    (void)state;
    assert_int_equal(form_add(&f, &b, "a=1=2", why, sizeof(why)), EXCHANGE_OK);
    assert_int_equal(form_add(&f, &b, "q\"\r\n=", why, sizeof(why)),
                     EXCHANGE_OK);
    assert_string_equal(
        read_form(&f, &b),
        "--BOUNDARY\r\n"
        "Content-Disposition: form-data; name=\"a\"\r\n\r\n1=2\r\n"
        "--BOUNDARY\r\n"
        "Content-Disposition: form-data; name=\"q%22%0D%0A\"\r\n\r\n\r\n"
        "--BOUNDARY--\r\n");
    body_release(&b);
}

static void
test_files(void **state)
{
    char *path = unit_path(state, "a.txt"), *text;
    struct form f = { 0 };
    struct body b = { 0 };
    FILE *file = fopen(path, "we");

    assert_non_null(file);
    fputs("content", file);
    fclose(file);
    assert_true(asprintf(&text, "f=@%s", path) > 0);
    assert_int_equal(form_add(&f, &b, text, why, sizeof(why)), EXCHANGE_OK);
    free(text);
    assert_true(asprintf(&text, "g=@%s;type=text/plain;filename=n\".x", path) >
                0);
    assert_int_equal(form_add(&f, &b, text, why, sizeof(why)), EXCHANGE_OK);
    free(text);
    assert_string_equal(
        read_form(&f, &b),
        "--BOUNDARY\r\n"
        "Content-Disposition: form-data; name=\"f\"; filename=\"a.txt\"\r\n"
        "Content-Type: application/octet-stream\r\n\r\ncontent\r\n"
        "--BOUNDARY\r\n"
        "Content-Disposition: form-data; name=\"g\"; filename=\"n%22.x\"\r\n"
        "Content-Type: text/plain\r\n\r\ncontent\r\n"
        "--BOUNDARY--\r\n");
    body_release(&b);
    free(path);
}

static void
test_bad(void **state)
{
    struct form f = { 0 };
    struct body b = { 0 };

    (void)state;
    assert_int_equal(form_add(&f, &b, "a", why, sizeof(why)), EXCHANGE_USAGE);
    assert_contains(why, "--form a: write NAME=VALUE");
    assert_int_equal(form_add(&f, &b, "=a", why, sizeof(why)), EXCHANGE_USAGE);
    assert_int_equal(
        form_add(&f, &b, "a=@/no/such/file;type=x", why, sizeof(why)),
        EXCHANGE_INPUT);
    assert_contains(why, "/no/such/file: ");
    body_release(&b);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values),
        cmocka_unit_test_setup_teardown(test_files, unit_make_folder,
                                        unit_remove_folder),
        cmocka_unit_test(test_bad),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
