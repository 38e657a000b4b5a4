/* SPDX-License-Identifier: MIT
 *
 * The head of a CGI response: checks, and the bytes. Pure; any process, GIL not
 * needed.
 */
#include "protocol/response.h"

#include <stdio.h>
#include <string.h>

/* RFC 9110, section 5.6.2: token = 1*tchar. */
static const unsigned char token_chars[256] = {
    /* clang-format off */
    ['!'] = 1, ['#'] = 1, ['$'] = 1, ['%'] = 1, ['&'] = 1, ['\''] = 1,
    ['*'] = 1, ['+'] = 1, ['-'] = 1, ['.'] = 1, ['^'] = 1, ['_'] = 1,
    ['`'] = 1, ['|'] = 1, ['~'] = 1, ['0' ... '9'] = 1, ['A' ... 'Z'] = 1,
    ['a' ... 'z'] = 1,
    /* clang-format on */
};

/* RFC 9110, section 7.6.1, and those that PEP 3333 leaves to the server. */
static const struct {
    unsigned char len;
    const char *name; /* lower case */
} hop_names[] = {
    { 2, "te" },
    { 7, "trailer" },
    { 7, "upgrade" },
    { 8, "trailers" },
    { 10, "connection" },
    { 10, "keep-alive" },
    { 16, "proxy-connection" },
    { 17, "transfer-encoding" },
    { 18, "proxy-authenticate" },
    { 19, "proxy-authorization" },
};

static bool
is_control(unsigned char c)
{
    return c < 0x20 || c == 0x7f;
}

/* A control character, HTAB apart, among the bytes. Eight at a time: most
 * values have none, and this runs over every byte of every response head. */
static bool
has_control(const char *s, size_t len)
{
    const uint64_t ones = 0x0101010101010101u, tops = 0x8080808080808080u;
    size_t i = 0;

    while (i < len) {
        uint64_t w, below, del;
        size_t n = len - i < 8 ? len - i : 8, k;

        if (n == 8) {
            memcpy(&w, s + i, 8);
            below = (w - ones * 0x20) & ~w; /* top bit: perhaps < 0x20 */
            w ^= ones * 0x7f;
            del = (w - ones) & ~w; /* top bit: perhaps 0x7f */
            if (((below | del) & tops) == 0) {
                i += 8;
                continue;
            }
        }
        for (k = i; k < i + n; k++) {
            if (is_control((unsigned char)s[k]) && s[k] != '\t') {
                return true;
            }
        }
        i += n;
    }
    return false;
}

/* name in any case equals lower, which has its length. */
static bool
same_name(const char *name, const char *lower, size_t len)
{
    size_t i;

    for (i = 0; i < len; i++) {
        char c = name[i];

        if (c >= 'A' && c <= 'Z') {
            c = (char)(c - 'A' + 'a');
        }
        if (c != lower[i]) {
            return false;
        }
    }
    return true;
}

static bool
is_hop_by_hop(const char *name, size_t len)
{
    size_t i;

    for (i = 0; i < sizeof(hop_names) / sizeof(hop_names[0]); i++) {
        if (hop_names[i].len == len &&
            same_name(name, hop_names[i].name, len)) {
            return true;
        }
    }
    return false;
}

static enum response_check
bad(const char **ret_why, const char *why)
{
    *ret_why = why;
    return RESPONSE_BAD;
}

static bool
is_digit(char c)
{
    return c >= '0' && c <= '9';
}

enum response_check
response_check_status(const char *s, size_t len, int *ret_code,
                      const char **ret_why)
{
    int code;
    size_t i;

    if (len < 3 || !is_digit(s[0]) || !is_digit(s[1]) || !is_digit(s[2])) {
        return bad(ret_why, "a status begins with three digits");
    }
    if (len > 3 && s[3] != ' ') {
        return bad(ret_why, "behind the three digits of a status comes a "
                            "space, then the reason");
    }
    for (i = 4; i < len; i++) {
        if (is_control((unsigned char)s[i])) {
            return bad(ret_why, "the reason has a control character");
        }
    }
    code = (s[0] - '0') * 100 + (s[1] - '0') * 10 + (s[2] - '0');
    if (code < 100) {
        return bad(ret_why, "a status is between 200 and 999");
    }
    if (code < 200) {
        return bad(ret_why, "a 1xx status cannot be the final one");
    }
    *ret_code = code;
    return len > 4 ? RESPONSE_OK : RESPONSE_NO_REASON;
}

static enum response_check
check_length(const char *value, size_t len, int64_t *ret_length,
             const char **ret_why)
{
    int64_t n = 0;
    size_t i;

    if (len == 0) {
        return bad(ret_why, "Content-Length is empty");
    }
    for (i = 0; i < len; i++) {
        int digit = value[i] - '0';

        if (digit < 0 || digit > 9) {
            return bad(ret_why, "Content-Length is not decimal digits only");
        }
        if (n > (INT64_MAX - digit) / 10) {
            return bad(ret_why, "Content-Length does not fit 63 bits");
        }
        n = n * 10 + digit;
    }
    *ret_length = n;
    return RESPONSE_LENGTH;
}

enum response_check
response_check_header(const char *name, size_t name_len, const char *value,
                      size_t value_len, int64_t *ret_length,
                      const char **ret_why)
{
    size_t i;

    if (name_len == 0) {
        return bad(ret_why, "the name of a header is empty");
    }
    for (i = 0; i < name_len; i++) {
        if (!token_chars[(unsigned char)name[i]]) {
            return bad(ret_why, "the name has a character that is not allowed "
                                "in a header name");
        }
    }
    if (has_control(value, value_len)) {
        return bad(ret_why, "the value has a control character");
    }
    if (name_len == 6 && same_name(name, "status", 6)) {
        return bad(ret_why, "a header called Status would replace the status");
    }
    if (name_len == 14 && same_name(name, "content-length", 14)) {
        return check_length(value, value_len, ret_length, ret_why);
    }
    return is_hop_by_hop(name, name_len) ? RESPONSE_HOP : RESPONSE_OK;
}

/* RFC 9110, section 15, and the registry of status codes. */
static const struct {
    short code;
    const char *reason;
} reasons[] = {
    { 100, "Continue" },
    { 101, "Switching Protocols" },
    { 102, "Processing" },
    { 103, "Early Hints" },
    { 200, "OK" },
    { 201, "Created" },
    { 202, "Accepted" },
    { 203, "Non-Authoritative Information" },
    { 204, "No Content" },
    { 205, "Reset Content" },
    { 206, "Partial Content" },
    { 207, "Multi-Status" },
    { 208, "Already Reported" },
    { 226, "IM Used" },
    { 300, "Multiple Choices" },
    { 301, "Moved Permanently" },
    { 302, "Found" },
    { 303, "See Other" },
    { 304, "Not Modified" },
    { 305, "Use Proxy" },
    { 307, "Temporary Redirect" },
    { 308, "Permanent Redirect" },
    { 400, "Bad Request" },
    { 401, "Unauthorized" },
    { 402, "Payment Required" },
    { 403, "Forbidden" },
    { 404, "Not Found" },
    { 405, "Method Not Allowed" },
    { 406, "Not Acceptable" },
    { 407, "Proxy Authentication Required" },
    { 408, "Request Timeout" },
    { 409, "Conflict" },
    { 410, "Gone" },
    { 411, "Length Required" },
    { 412, "Precondition Failed" },
    { 413, "Content Too Large" },
    { 414, "URI Too Long" },
    { 415, "Unsupported Media Type" },
    { 416, "Range Not Satisfiable" },
    { 417, "Expectation Failed" },
    { 418, "I'm a Teapot" },
    { 421, "Misdirected Request" },
    { 422, "Unprocessable Content" },
    { 423, "Locked" },
    { 424, "Failed Dependency" },
    { 425, "Too Early" },
    { 426, "Upgrade Required" },
    { 428, "Precondition Required" },
    { 429, "Too Many Requests" },
    { 431, "Request Header Fields Too Large" },
    { 451, "Unavailable For Legal Reasons" },
    { 500, "Internal Server Error" },
    { 501, "Not Implemented" },
    { 502, "Bad Gateway" },
    { 503, "Service Unavailable" },
    { 504, "Gateway Timeout" },
    { 505, "HTTP Version Not Supported" },
    { 506, "Variant Also Negotiates" },
    { 507, "Insufficient Storage" },
    { 508, "Loop Detected" },
    { 511, "Network Authentication Required" },
};

const char *
response_reason(int code)
{
    size_t i;

    for (i = 0; i < sizeof(reasons) / sizeof(reasons[0]); i++) {
        if (reasons[i].code == code) {
            return reasons[i].reason;
        }
    }
    return "Unknown";
}

int
response_put_status(struct buf *out, const char *s, size_t len)
{
    const char *reason = s + 4;
    size_t reason_len = len > 4 ? len - 4 : 0;
    char *p;

    if (reason_len == 0) {
        reason = response_reason((s[0] - '0') * 100 + (s[1] - '0') * 10 +
                                 (s[2] - '0'));
        reason_len = strlen(reason);
    }
    if (buf_reserve(out, 8 + 4 + reason_len + 2) < 0) {
        return -1;
    }
    p = out->data + out->len;
    memcpy(p, "Status: ", 8);
    memcpy(p + 8, s, 3);
    p[11] = ' ';
    memcpy(p + 12, reason, reason_len);
    memcpy(p + 12 + reason_len, "\r\n", 2);
    out->len += 14 + reason_len;
    return 0;
}

int
response_put_header(struct buf *out, const char *name, size_t name_len,
                    const char *value, size_t value_len)
{
    char *p;

    if (buf_reserve(out, name_len + 2 + value_len + 2) < 0) {
        return -1;
    }
    p = out->data + out->len;
    memcpy(p, name, name_len);
    p += name_len;
    *p++ = ':';
    *p++ = ' ';
    if (value_len > 0) {
        memcpy(p, value, value_len);
        p += value_len;
    }
    *p++ = '\r';
    *p++ = '\n';
    out->len = (size_t)(p - out->data);
    return 0;
}

int
response_put_length(struct buf *out, uint64_t length)
{
    char digits[20];
    size_t n = sizeof(digits);

    do {
        digits[--n] = (char)('0' + length % 10);
        length /= 10;
    } while (length > 0);
    return response_put_header(out, "Content-Length", 14, digits + n,
                               sizeof(digits) - n);
}

int
response_put_end(struct buf *out)
{
    return buf_append(out, "\r\n", 2);
}

int
response_simple(struct buf *out, int code, bool head_only)
{
    char body[64], status[16];
    int n;

    buf_clear(out);
    snprintf(status, sizeof(status), "%03d", code);
    if (response_put_status(out, status, 3) < 0) {
        return -1;
    }
    if (response_is_bodyless(code)) {
        return response_put_end(out);
    }
    n = snprintf(body, sizeof(body), "%d %s\n", code, response_reason(code));
    if (response_put_header(out, "Content-Type", 12, "text/plain", 10) < 0 ||
        response_put_length(out, (uint64_t)n) < 0 ||
        response_put_end(out) < 0) {
        return -1;
    }
    return head_only ? 0 : buf_append(out, body, (size_t)n);
}
