# SPDX-License-Identifier: MIT
"""What the integration tests share: processes, wire clients, front ends."""
