# SPDX-License-Identifier: MIT
class Thing:
    value = 5
