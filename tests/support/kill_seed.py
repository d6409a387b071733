"""Where what tests draw of kills and troubles begins."""

from __future__ import annotations

import os
import random

# In CI each time the same, as with Hypothesis: it judges a change. On demand random.
SEED = int(
    os.environ.get("SEAMARK_KILL_SEED", 7 if os.environ.get("CI") else random.randrange(1 << 30))
)
