/* SPDX-License-Identifier: MIT
 *
 * engine = libfcgi: the classic blocking FCGX_Accept_r loop, one per thread,
 * for side-by-side comparison and as the oracle of differential tests. The same
 * WSGI layer stands above it.
 *
 * Its limits are libfcgi's: FastCGI only; a kept connection belongs to its
 * thread until the peer closes it; a silent peer is waited for without a
 * deadline (on TCP; 2 s on unix sockets); a large answer and a large body that
 * the application does not read wait for each other, where the front end reads
 * nothing before it has written everything; no multiplexing; bytes of a next
 * request that came with the last one are lost; no sendfile; no ping_path and
 * status_path; connections that it still reads are inherited by programs that
 * the application starts meanwhile.
 *
 * Worker process, any executor thread; GIL not held.
 */
#ifndef FOREBAY_SERVER_ENGINE_LIBFCGI_H
#define FOREBAY_SERVER_ENGINE_LIBFCGI_H

#include "server/executor.h"

/* Once per process, before its signals are set: libfcgi takes some over. */
void engine_libfcgi_init(void);

/* Serve until the worker is stopping. */
void engine_libfcgi_run(struct executor *x);

#endif
