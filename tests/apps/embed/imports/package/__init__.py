# SPDX-License-Identifier: MIT
imported = []
