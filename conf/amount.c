/* SPDX-License-Identifier: MIT
 *
 * Sizes, times and plain numbers with their units, as people write them and as
 * they are stored. Any process. Never logs.
 */
#include "conf/internal.h"

#include <string.h>
#include <strings.h>

static bool
is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Units of a number: how many of the smallest that is stored each one is. */
struct unit {
    const char *name;
    uint64_t factor;
};

static const struct unit size_units[] = {
    { "", 1 }, { "k", KB }, { "m", MB }, { "g", GB }, { NULL, 0 },
};
static const struct unit time_units[] = {
    { "", 1000 },   { "ms", 1 },      { "s", 1000 },
    { "m", 60000 }, { "h", 3600000 }, { NULL, 0 },
};
static const struct unit time_us_units[] = {
    { "", 1000000 }, { "us", 1 }, { "ms", 1000 }, { "s", 1000000 }, { NULL, 0 },
};
static const struct unit plain_units[] = { { "", 1 }, { NULL, 0 } };

static const struct unit *
units_of(enum setting_type type)
{
    switch (type) {
    case SETTING_SIZE:
        return size_units;
    case SETTING_TIME:
        return time_units;
    case SETTING_TIME_US:
        return time_us_units;
    default:
        return plain_units;
    }
}

/* DIGITS [. DIGITS] [UNIT]. The result must be a whole number of what is
 * stored: rounding could make "no limit" of a small one. */
int
conf_amount_parse(const char *text, enum setting_type type, uint64_t *ret)
{
    const struct unit *unit = units_of(type);
    uint64_t whole = 0, part = 0, scale = 1;
    const char *p = text;

    if (!is_digit(*p)) {
        return 0;
    }
    for (; is_digit(*p); p++) {
        if (__builtin_mul_overflow(whole, UINT64_C(10), &whole) ||
            __builtin_add_overflow(whole, (uint64_t)(*p - '0'), &whole)) {
            return -1;
        }
    }
    if (*p == '.' && unit[1].name != NULL) {
        p++;
        if (!is_digit(*p)) {
            return 0;
        }
        for (; is_digit(*p); p++) {
            if (scale == 1000000) {
                return 0;
            }
            part = part * 10 + (uint64_t)(*p - '0');
            scale *= 10;
        }
    }
    while (unit->name != NULL && strcasecmp(unit->name, p) != 0) {
        unit++;
    }
    if (unit->name == NULL || part * unit->factor % scale != 0) {
        return 0;
    }
    if (__builtin_mul_overflow(whole, unit->factor, &whole) ||
        __builtin_add_overflow(whole, part * unit->factor / scale, &whole)) {
        return -1;
    }
    *ret = whole;
    return 1;
}

char *
conf_amount_format(uint64_t n, enum setting_type type, char *out, size_t size)
{
    const struct unit *unit = units_of(type), *best = NULL;

    for (const struct unit *u = unit + 1; unit[1].name != NULL && u->name;
         u++) {
        if (n != 0 && n % u->factor == 0 &&
            (best == NULL || u->factor > best->factor)) {
            best = u;
        }
    }
    snprintf(out, size, "%llu%s",
             (unsigned long long)(best != NULL ? n / best->factor : n),
             best != NULL ? best->name : "");
    return out;
}

const char *
conf_amount_advice(enum setting_type type)
{
    switch (type) {
    case SETTING_SIZE:
        return "a size; write bytes, or a number with k, m or g, such as 64k";
    case SETTING_TIME:
        return "a time; write seconds, or a number with ms, s, m or h, such "
               "as 30s";
    case SETTING_TIME_US:
        return "a time; write seconds, or a number with us, ms or s, such as "
               "5ms";
    default:
        return "a whole number";
    }
}
