/* SPDX-License-Identifier: MIT
 *
 * What systemd wants to be told (Type=notify, sd_notify(3)): a datagram to the
 * socket that NOTIFY_SOCKET names. Without that variable nothing happens.
 * Manager only.
 */
#ifndef FOREBAY_SERVER_NOTIFY_H
#define FOREBAY_SERVER_NOTIFY_H

#include <stdint.h>

/* "READY=1", "RELOADING=1\nMONOTONIC_USEC=...", "STOPPING=1", "STATUS=..." */
void notify(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* Also call this once, when "READY=1" is told: it was started by somebody who
 * waits for that. */
void notify_when_ready(void (*fn)(void));

/* "RELOADING=1" with the time stamp that Type=notify-reload needs. */
void notify_reloading(void);

/* How often "WATCHDOG=1" is due, in ms; 0: never. */
uint64_t notify_watchdog_ms(void);

#endif
