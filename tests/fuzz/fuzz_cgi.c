/* SPDX-License-Identifier: MIT
 *
 * protocol/cgi.c: whatever the variables hold, the answer is one that PEP 3333
 * allows, and lies below the mount.
 *
 *     input = mount and rule, SCRIPT_NAME, PATH_INFO, DOCUMENT_URI,
 * REQUEST_URI, each a length byte and that many bytes; a name to classify
 */
#include "fuzz.h"

#include <string.h>

#include "protocol/cgi.h"

static void
check_result(const char *mount, const struct cgi_text *script_name,
             const struct cgi_text *path_info)
{
    FUZZ_CHECK(script_name->data == mount);
    FUZZ_CHECK(script_name->len == strlen(mount));
    FUZZ_CHECK(path_info->data != NULL);
    if (path_info->len > 0) {
        FUZZ_CHECK(path_info->data[0] == '/');
        FUZZ_CHECK(memchr(path_info->data, 0, path_info->len) == NULL);
    }
}

/* From REQUEST_URI alone no segment of dots is left. */
static void
check_no_dots(const struct cgi_text *path)
{
    size_t i;

    for (i = 0; i + 1 < path->len; i++) {
        size_t end = i + 1;

        if (path->data[i] != '/') {
            continue;
        }
        while (end < path->len && path->data[end] != '/') {
            end++;
        }
        FUZZ_CHECK(!(end == i + 2 && path->data[i + 1] == '.'));
        FUZZ_CHECK(!(end == i + 3 && path->data[i + 1] == '.' &&
                     path->data[i + 2] == '.'));
    }
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const mounts[] = { "", "/app", "/a/b", "/a" };
    struct fuzz_input in = { data, size };
    unsigned options = fuzz_byte(&in);
    const char *mount = mounts[options % 4];
    bool from_uri = (options & 4) != 0;
    struct cgi_path_input paths;
    struct cgi_text *const texts[] = { &paths.script_name, &paths.path_info,
                                       &paths.document_uri,
                                       &paths.request_uri };
    char *bytes[5];
    struct cgi_text script_name, path_info;
    struct buf scratch;
    size_t len, i;

    for (i = 0; i < 4; i++) {
        bytes[i] = fuzz_bytes(&in, &len);
        texts[i]->data = bytes[i];
        texts[i]->len = len;
    }
    bytes[4] = fuzz_bytes(&in, &len);
    FUZZ_CHECK(cgi_classify(bytes[4], len) <= CGI_SERVER_PROTOCOL);
    cgi_is_https(paths.script_name, paths.path_info);

    buf_init(&scratch, SIZE_MAX);
    if (cgi_split_path(&paths, mount, strlen(mount), from_uri, &scratch,
                       &script_name, &path_info) == CGI_PATH_OK) {
        check_result(mount, &script_name, &path_info);
        if (from_uri && paths.request_uri.len > 0) {
            check_no_dots(&path_info);
        }
    }
    buf_release(&scratch);
    for (i = 0; i < 5; i++) {
        free(bytes[i]);
    }
    return 0;
}
