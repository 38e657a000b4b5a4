/* SPDX-License-Identifier: MIT
 *
 * All settings of a pool as text, from the manager to a template. Any process.
 */
#include "conf/internal.h"

#include <stdlib.h>
#include <string.h>

/* name=value, one a line; a backslash and what is not printable as \xNN, so
 * that any bytes come through. */
static void
write_value(FILE *out, const char *name, const char *value)
{
    fprintf(out, "%s=", name);
    for (const unsigned char *p = (const unsigned char *)value; *p != '\0';
         p++) {
        if (*p < 0x20 || *p > 0x7e || *p == '\\') {
            fprintf(out, "\\x%02x", *p);
        } else {
            fputc(*p, out);
        }
    }
    fputc('\n', out);
}

static void
write_number(FILE *out, const struct setting *row, const void *in)
{
    static const char *const unit[] = {
        [SETTING_TIME] = "ms",
        [SETTING_TIME_US] = "us",
    };
    unsigned small;
    uint64_t n;

    if (row->type == SETTING_UINT) {
        memcpy(&small, in, sizeof(small));
        n = small;
    } else {
        memcpy(&n, in, sizeof(n));
    }
    fprintf(out, "%s=%llu%s\n", row->name, (unsigned long long)n,
            row->type == SETTING_TIME || row->type == SETTING_TIME_US
                ? unit[row->type]
                : "");
}

static void
write_row(FILE *out, const struct pool_settings *s, const struct setting *row)
{
    const struct conf_list *list;
    const void *in = settings_field(s, row);
    char name[64], *text;
    unsigned choice;
    long octal;
    bool b;

    switch (row->type) {
    case SETTING_STRING:
        memcpy(&text, in, sizeof(text));
        if (text != NULL) {
            write_value(out, row->name, text);
        }
        break;
    case SETTING_LIST:
        list = in;
        for (unsigned i = 0; i < list->count; i++) {
            write_value(out, row->name, list->item[i]);
        }
        break;
    case SETTING_BOOL:
        memcpy(&b, in, sizeof(b));
        fprintf(out, "%s=%s\n", row->name, b ? "yes" : "no");
        break;
    case SETTING_OCTAL:
        memcpy(&octal, in, sizeof(octal));
        if (octal >= 0) {
            fprintf(out, "%s=%04lo\n", row->name, octal);
        }
        break;
    case SETTING_CHOICE:
        memcpy(&choice, in, sizeof(choice));
        fprintf(out, "%s=%s\n", row->name,
                settings_choice(row->choices, choice, name, sizeof(name)));
        break;
    case SETTING_UINT:
    case SETTING_SIZE:
    case SETTING_TIME:
    case SETTING_TIME_US:
        write_number(out, row, in);
        break;
    }
}

int
settings_write(const struct pool_settings *s, FILE *out)
{
    for (unsigned i = 0; i < settings_count; i++) {
        write_row(out, s, &settings_table[i]);
    }
    return ferror(out) ? -1 : 0;
}

static int
hex_value(char c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Undo write_value() in place. 0, or -1: an escape is damaged. */
static int
unescape(char *text)
{
    char *out = text;

    for (const char *p = text; *p != '\0'; p++) {
        if (*p == '\\') {
            if (p[1] != 'x' || hex_value(p[2]) < 0 || hex_value(p[3]) < 0) {
                return -1;
            }
            *out++ = (char)(hex_value(p[2]) * 16 + hex_value(p[3]));
            p += 3;
        } else {
            *out++ = *p;
        }
    }
    *out = '\0';
    return 0;
}

static int
read_line(struct pool_settings *s, char *line, unsigned number,
          struct conf_error *err)
{
    char *value = strchr(line, '=');
    int rc;

    if (value == NULL) {
        rc = conf_fail(err, "\"%s\" is not name=value", line);
    } else {
        *value++ = '\0';
        rc = unescape(value) == 0
                 ? settings_set(s, line, value, err)
                 : conf_fail(err, "%s: the value is damaged", line);
    }
    if (rc != 0) {
        snprintf(err->file, sizeof(err->file), "settings of the manager");
        err->line = number;
    }
    return rc;
}

int
settings_read(struct pool_settings *s, const char *text, size_t len,
              struct conf_error *err)
{
    char *copy, *line, *end;
    unsigned number = 0;
    int rc = 0;

    settings_release(s);
    copy = malloc(len + 1);
    if (copy == NULL || settings_init(s) != 0) {
        free(copy);
        return conf_fail(err, "out of memory");
    }
    if (len > 0) {
        memcpy(copy, text, len);
    }
    copy[len] = '\0';
    if (strlen(copy) != len) {
        rc = conf_fail(err, "there is a NUL byte in the settings");
    }
    for (line = copy; rc == 0 && *line != '\0'; line = end) {
        end = strchr(line, '\n');
        if (end != NULL) {
            *end++ = '\0';
        } else {
            end = line + strlen(line);
        }
        number++;
        if (*line != '\0') {
            rc = read_line(s, line, number, err);
        }
    }
    free(copy);
    return rc;
}

int
settings_copy(struct pool_settings *dst, const struct pool_settings *src)
{
    struct conf_error ignored;
    char *text = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&text, &len);
    int rc = -1;

    if (out != NULL) {
        rc = settings_write(src, out);
        rc = fclose(out) == 0 ? rc : -1;
    }
    if (rc == 0) {
        rc = settings_init(dst);
    }
    if (rc == 0) {
        rc = settings_read(dst, text, len, &ignored);
        if (rc != 0) {
            settings_release(dst);
        }
    }
    free(text);
    return rc;
}
