/* SPDX-License-Identifier: MIT
 *
 * See request_path.h.
 */
#include "server/request_path.h"

static struct cgi_text
param(const struct request *r, const char *name)
{
    struct cgi_text t;

    t.data = request_param(r, name, &t.len);
    return t;
}

bool
request_path(const struct request *r, struct buf *scratch, struct cgi_text *ret)
{
    struct cgi_path_input in = {
        .script_name = param(r, "SCRIPT_NAME"),
        .path_info = param(r, "PATH_INFO"),
        .document_uri = param(r, "DOCUMENT_URI"),
        .request_uri = param(r, "REQUEST_URI"),
    };
    struct cgi_text script_name;

    return cgi_split_path(&in, "", 0, false, scratch, &script_name, ret) ==
           CGI_PATH_OK;
}
