/* SPDX-License-Identifier: MIT
 *
 * conf/config_file.c and conf/scan.c: whatever a file holds, it is either
 * refused with a line that it has, or every pool is whole and comes through
 * the text that a template gets. Nothing is included: that would read the
 * machine's files.
 *
 *     input = the text of a configuration file
 */
#include "fuzz.h"

#include <string.h>

#include "conf/config.h"
#include "conf/internal.h"

static unsigned
count_lines(const uint8_t *data, size_t size)
{
    unsigned lines = 1;

    for (size_t i = 0; i < size; i++) {
        lines += data[i] == '\n';
    }
    return lines;
}

static char *
written(const struct pool_settings *s, size_t *ret_len)
{
    char *text = NULL;
    FILE *out = open_memstream(&text, ret_len);

    FUZZ_CHECK(out != NULL);
    FUZZ_CHECK(settings_write(s, out) == 0);
    FUZZ_CHECK(fclose(out) == 0);
    return text;
}

static void
check_pool(struct pool_settings *s)
{
    struct pool_settings copy;
    struct conf_error err;
    struct conf_list words;
    char *text, *again;
    size_t len, again_len;

    FUZZ_CHECK(conf_is_pool_name(s->name));
    FUZZ_CHECK((s->app == NULL) != (s->command == NULL));
    FUZZ_CHECK(s->listen.count > 0);
    FUZZ_CHECK(s->min_workers <= s->workers);
    FUZZ_CHECK(s->workers <= s->max_workers);
    if (s->command != NULL) {
        FUZZ_CHECK(settings_words(s->command, &words, &err) == 0);
        FUZZ_CHECK(words.count > 0);
        conf_list_release(&words);
    }
    text = written(s, &len);
    FUZZ_CHECK(settings_init(&copy) == 0);
    FUZZ_CHECK(settings_read(&copy, text, len, &err) == 0);
    FUZZ_CHECK(settings_finish(&copy, &err) == 0);
    again = written(&copy, &again_len);
    FUZZ_CHECK(again_len == len && memcmp(again, text, len) == 0);
    settings_release(&copy);
    free(text);
    free(again);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *text = size > 0 ? (const char *)data : "";
    struct conf_error err;
    struct config c;

    setenv("FUZZ", "value \" of $FUZZ", 1);
    if (config_read_text("fuzz", text, size, &c, &err) != 0) {
        FUZZ_CHECK(c.pools == 0 && c.pool == NULL);
        FUZZ_CHECK(strcmp(err.file, "fuzz") == 0);
        FUZZ_CHECK(err.line >= 1 && err.line <= count_lines(data, size));
        FUZZ_CHECK(err.text[0] != '\0');
        return 0;
    }
    FUZZ_CHECK(c.pools > 0);
    for (unsigned i = 0; i < c.pools; i++) {
        check_pool(c.pool[i]);
        for (unsigned j = 0; j < i; j++) {
            FUZZ_CHECK(strcmp(c.pool[i]->name, c.pool[j]->name) != 0);
        }
    }
    config_release(&c);
    return 0;
}
