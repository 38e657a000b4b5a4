# -*- coding: latin-1 -*-
raise LookupError("café")
