/* SPDX-License-Identifier: MIT
 *
 * Numbers that manager and worker must agree on.
 */
#ifndef FOREBAY_SERVER_EXECUTOR_LIMITS_H
#define FOREBAY_SERVER_EXECUTOR_LIMITS_H

enum { EXECUTOR_MAX_LISTENERS = 64 };

#endif
