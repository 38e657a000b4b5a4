/* SPDX-License-Identifier: MIT
 *
 * The built-in module `forebay`: what the server offers an application.
 * after_response(callable, *args, **kwargs), client_connected(), deadline(),
 * worker_id(), pool(), and the decorators worker_start and worker_exit.
 */
#ifndef FOREBAY_PYTHON_MODULE_H
#define FOREBAY_PYTHON_MODULE_H

#include "python/pyref.h"

/* Make `import forebay` work; before Py_InitializeFromConfig. 0 or -1. */
int module_register(void);

/* Run the registered hooks in order, in this process; exceptions are logged.
 * GIL held. 0, or -1 when a worker_start hook raised (the worker then does not
 * start). */
int module_run_worker_start(void);
void module_run_worker_exit(void);

#endif
