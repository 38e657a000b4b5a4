/* SPDX-License-Identifier: MIT
 *
 * See request_form.h. The tool only.
 */
#include "server/request_form.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Copy a form's name for a quoted string: what would end it is percent-encoded,
 * as browsers do (WHATWG HTML, multipart/form-data encoding). */
static void
put_quoted(FILE *out, const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (text[i] == '"' || text[i] == '\r' || text[i] == '\n') {
            fprintf(out, "%%%02X", (unsigned char)text[i]);
        } else {
            fputc(text[i], out);
        }
    }
}

/* The value of ";key=" in the options behind a file's name, or NULL. */
static const char *
form_option(const char *options, const char *key, size_t *ret_len)
{
    size_t key_len = strlen(key);

    while (options != NULL && *options == ';') {
        options++;
        if (strncmp(options, key, key_len) == 0 && options[key_len] == '=') {
            options += key_len + 1;
            *ret_len = strcspn(options, ";");
            return options;
        }
        options = strchr(options, ';');
    }
    return NULL;
}

/* The head of one part (RFC 7578, section 4). file: NULL, or name;options. */
static char *
form_head(const struct form *f, const char *name, size_t name_len,
          const char *file, size_t *ret_len)
{
    const char *filename, *type, *options, *slash;
    size_t filename_len, type_len = 0;
    char *text = NULL;
    FILE *out = open_memstream(&text, ret_len);

    if (out == NULL) {
        return NULL;
    }
    fprintf(out, "--%s\r\nContent-Disposition: form-data; name=\"",
            f->boundary);
    put_quoted(out, name, name_len);
    fputc('"', out);
    if (file != NULL) {
        options = strchr(file, ';');
        filename = form_option(options, "filename", &filename_len);
        if (filename == NULL) {
            filename_len = strcspn(file, ";");
            slash = memrchr(file, '/', filename_len);
            filename = slash != NULL ? slash + 1 : file;
            filename_len -= (size_t)(filename - file);
        }
        fprintf(out, "; filename=\"");
        put_quoted(out, filename, filename_len);
        type = form_option(options, "type", &type_len);
        fprintf(out, "\"\r\nContent-Type: %.*s",
                type != NULL ? (int)type_len : 24,
                type != NULL ? type : "application/octet-stream");
    }
    fprintf(out, "\r\n\r\n");
    if (fclose(out) != 0) {
        free(text);
        return NULL;
    }
    return text;
}

enum exchange_code
form_add(struct form *f, struct body *body, const char *text, char *why,
         size_t size)
{
    const char *equals = strchr(text, '='), *value;
    char path[4096];
    char *head;
    size_t len;
    bool is_file;
    int rc;

    if (equals == NULL || equals == text) {
        snprintf(why, size, "--form %s: write NAME=VALUE or NAME=@FILE", text);
        return EXCHANGE_USAGE;
    }
    snprintf(why, size, "out of memory");
    value = equals + 1;
    is_file = value[0] == '@';
    if (!f->used) {
        snprintf(f->boundary, sizeof(f->boundary), "forebay-%08lx%016" PRIx64,
                 (unsigned long)getpid(), exchange_now_ms());
        f->used = true;
    }
    head = form_head(f, text, (size_t)(equals - text),
                     is_file ? value + 1 : NULL, &len);
    if (head == NULL) {
        return EXCHANGE_INPUT;
    }
    rc = body_add_bytes(body, head, len);
    free(head);
    if (rc == 0 && is_file) {
        snprintf(path, sizeof(path), "%.*s", (int)strcspn(value + 1, ";"),
                 value + 1);
        rc = body_add_file(body, path, why, size);
    } else if (rc == 0) {
        rc = body_add_bytes(body, value, strlen(value));
    }
    if (rc == 0) {
        rc = body_add_bytes(body, "\r\n", 2);
    }
    return rc == 0 ? EXCHANGE_OK : EXCHANGE_INPUT;
}

int
form_end(const struct form *f, struct body *body)
{
    char end[64];
    int n = snprintf(end, sizeof(end), "--%s--\r\n", f->boundary);

    return body_add_bytes(body, end, (size_t)n);
}
