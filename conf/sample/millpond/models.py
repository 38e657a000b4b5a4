# SPDX-License-Identifier: MIT
"""The guest book."""

from django.db import models


class Entry(models.Model):
    name = models.CharField(max_length=60)
    text = models.CharField(max_length=500)
    created = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["-created", "-id"]

    def __str__(self):
        return "%s: %s" % (self.name, self.text[:40])
