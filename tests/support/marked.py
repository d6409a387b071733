"""Texts in whose writing secrets stand in «», as they are given and as they are kept."""

from __future__ import annotations

import re


def marked(*texts):
    return [(re.sub("[«»]", "", text), re.sub("«.*?»", "***", text)) for text in texts]
