/* SPDX-License-Identifier: MIT
 *
 * `forebay request`: a curl for FastCGI and SCGI.
 */
#ifndef FOREBAY_SERVER_REQUEST_CLIENT_H
#define FOREBAY_SERVER_REQUEST_CLIENT_H

/* argv[0] is "request". Returns the exit code: 0, or one of enum exchange_code
 * with a sentence on standard error. */
int request_client_main(int argc, char **argv);

#endif
