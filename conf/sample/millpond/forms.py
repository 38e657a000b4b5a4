# SPDX-License-Identifier: MIT
from django import forms

from .models import Entry


class EntryForm(forms.ModelForm):
    class Meta:
        model = Entry
        fields = ["name", "text"]
        widgets = {
            "name": forms.TextInput(attrs={"autocomplete": "name",
                                           "placeholder": "Your name"}),
            "text": forms.Textarea(attrs={"rows": 3,
                                          "placeholder": "What you saw"}),
        }
        labels = {"text": "Message"}


class UploadForm(forms.Form):
    file = forms.FileField(label="File")
