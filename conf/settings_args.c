/* SPDX-License-Identifier: MIT
 *
 * The command line and --help, from the table. Manager and tools.
 */
#include "conf/config.h"
#include "conf/internal.h"

#include <string.h>

struct arguments {
    struct pool_settings *s;
    char **argv;
    int argc;
    int next; /* index of the next argument that was not looked at */
    int (*other)(const char *name, const char *value, void *ctx,
                 struct conf_error *err);
    void *ctx;
    struct conf_error *err;
};

static int
fail_unknown_option(struct conf_error *err, const char *option)
{
    const char *near = NULL;
    char dashed[64];

    if (option[0] == '-' && option[1] == '-') {
        near = settings_nearest(option + 2);
    }
    if (near == NULL) {
        return conf_fail(err, "unknown option %s; --help lists them all",
                         option);
    }
    snprintf(dashed, sizeof(dashed), "%s", near);
    for (char *p = dashed; *p != '\0'; p++) {
        *p = *p == '_' ? '-' : *p;
    }
    return conf_fail(err, "unknown option %s; did you mean --%s?", option,
                     dashed);
}

/* An option that belongs to the command and not to the pool. value: what stood
 * behind '=' (or behind the letter), else NULL. */
static int
take_other(struct arguments *a, const char *name, const char *option,
           const char *value)
{
    const char *offered = value;
    int rc = 0;

    if (offered == NULL && a->next < a->argc) {
        offered = a->argv[a->next];
    }
    a->err->text[0] = '\0';
    if (a->other != NULL) {
        rc = a->other(name, offered, a->ctx, a->err);
    }
    if (rc == 0) {
        return fail_unknown_option(a->err, option);
    }
    if (rc == 1 && value != NULL) {
        return conf_fail(a->err, "%s takes no value", option);
    }
    if (rc == 2 && offered == NULL) {
        return conf_fail(a->err, "%s needs a value", option);
    }
    if (rc == 2 && value == NULL) {
        a->next++;
    }
    return rc < 0 ? -1 : 0;
}

/* The value of a pool's setting: what stood behind '=', else the next argument.
 */
static int
take_setting(struct arguments *a, const struct setting *row, const char *option,
             const char *value)
{
    if (value == NULL && row->type == SETTING_BOOL) {
        value = "yes";
    }
    if (value == NULL) {
        if (a->next >= a->argc || strncmp(a->argv[a->next], "--", 2) == 0) {
            return conf_fail(a->err, "%s needs a value%s%s", option,
                             row->value_name != NULL ? ": " : "",
                             row->value_name != NULL ? row->value_name : "");
        }
        value = a->argv[a->next++];
    }
    return settings_give(a->s, row, value, a->err);
}

static int
take_long(struct arguments *a, const char *arg)
{
    const char *value = strchr(arg, '=');
    const struct setting *row;
    char name[128], option[132];
    size_t len = value != NULL ? (size_t)(value - arg) - 2 : strlen(arg) - 2;

    if (len >= sizeof(name)) {
        return conf_fail(a->err, "unknown option %.40s...", arg);
    }
    snprintf(name, sizeof(name), "%.*s", (int)len, arg + 2);
    snprintf(option, sizeof(option), "--%s", name);
    if (value != NULL) {
        value++;
    }
    row = settings_find(name);
    if (row != NULL) {
        return take_setting(a, row, option, value);
    }
    if (strncmp(name, "no-", 3) == 0 || strncmp(name, "no_", 3) == 0) {
        row = settings_find(name + 3);
        if (row != NULL && row->type == SETTING_BOOL) {
            return value == NULL
                       ? settings_give(a->s, row, "no", a->err)
                       : conf_fail(a->err, "%s takes no value", option);
        }
    }
    return take_other(a, name, option, value);
}

static int
take_short(struct arguments *a, const char *arg)
{
    const struct setting *row = settings_find_letter(arg[1]);
    const char *value = arg[2] != '\0' ? arg + 2 : NULL;
    char name[2] = { arg[1], '\0' }, option[3] = { '-', arg[1], '\0' };

    if (row != NULL) {
        return take_setting(a, row, option, value);
    }
    return take_other(a, name, option, value);
}

static int
take_positional(struct arguments *a, const char *arg, bool *have_app)
{
    if (*have_app) {
        return conf_fail(
            a->err,
            "\"%s\" is one argument too many: the application \"%s\" "
            "was given already",
            arg, a->s->app != NULL ? a->s->app : "");
    }
    *have_app = true;
    return settings_set(a->s, "app", arg, a->err);
}

int
settings_parse_args(struct pool_settings *s, int argc, char **argv,
                    int (*other)(const char *name, const char *value, void *ctx,
                                 struct conf_error *err),
                    void *ctx, struct conf_error *err)
{
    struct arguments a = { s, argv, argc, 1, other, ctx, err };
    bool have_app = false, only_positional = false;
    const char *arg;
    int rc = 0;

    while (rc == 0 && a.next < argc) {
        arg = argv[a.next++];
        if (only_positional || arg[0] != '-' || arg[1] == '\0') {
            rc = take_positional(&a, arg, &have_app);
        } else if (strcmp(arg, "--") == 0) {
            only_positional = true;
        } else if (arg[1] == '-') {
            rc = take_long(&a, arg);
        } else {
            rc = take_short(&a, arg);
        }
    }
    return rc;
}

/* In front of which row --help has which heading. */
static const struct {
    const char *first, *heading;
} headings[] = {
    { "app", "Application" },
    { "mode", "Processes and threads" },
    { "scaling", "Scaling and recycling" },
    { "listen", "Addresses" },
    { "user", "Rights" },
    { "mount", "Requests" },
    { "max_params_size", "Limits" },
    { "header_timeout", "Times" },
    { "log", "Logs" },
};

/* Words of text from column indent on, lines of at most 79 characters. */
static void
print_wrapped(FILE *out, const char *text, unsigned indent)
{
    unsigned column = 0;

    while (*text != '\0') {
        size_t n = strcspn(text, " ");

        if (column > 0 && column + 1 + n > 79) {
            fputc('\n', out);
            column = 0;
        }
        if (column == 0) {
            fprintf(out, "%*s", (int)indent, "");
            column = indent;
        } else {
            fputc(' ', out);
            column++;
        }
        fprintf(out, "%.*s", (int)n, text);
        column += (unsigned)n;
        text += n;
        text += strspn(text, " ");
    }
    fputc('\n', out);
}

static void
print_help_text(FILE *out, const struct setting *row)
{
    char text[1024];

    if (row->initial != NULL && row->initial[0] != '\0') {
        snprintf(text, sizeof(text), "%s Default: %s.", row->help,
                 row->initial);
        print_wrapped(out, text, 10);
    } else {
        print_wrapped(out, row->help, 10);
    }
}

/* As an option. */
static void
print_row(FILE *out, const struct setting *row)
{
    if (row->letter != 0) {
        fprintf(out, "  -%c, --", row->letter);
    } else {
        fprintf(out, "      --");
    }
    if (row->type == SETTING_BOOL) {
        fprintf(out, "[no-]");
    }
    for (const char *p = row->name; *p != '\0'; p++) {
        fputc(*p == '_' ? '-' : *p, out);
    }
    if (row->value_name != NULL) {
        fprintf(out, " %s", row->value_name);
    }
    fputc('\n', out);
    print_help_text(out, row);
}

void
config_print_help(FILE *out)
{
    fprintf(out, "\nSettings of [forebay] in a file:\n");
    for (unsigned i = 0; i < manager_settings_count; i++) {
        const struct setting *row = &manager_settings_table[i];

        fprintf(out, "      %s = %s\n", row->name, row->value_name);
        print_help_text(out, row);
    }
}

void
settings_print_help(FILE *out)
{
    for (unsigned i = 0; i < settings_count; i++) {
        for (size_t h = 0; h < sizeof(headings) / sizeof(headings[0]); h++) {
            if (strcmp(headings[h].first, settings_table[i].name) == 0) {
                fprintf(out, "%s%s:\n", i > 0 ? "\n" : "", headings[h].heading);
            }
        }
        print_row(out, &settings_table[i]);
    }
    fprintf(out, "\n");
    print_wrapped(out,
                  "Sizes are bytes or have k, m or g behind them (powers of "
                  "1024); times are seconds or have us, ms, s, m or h.",
                  0);
}
