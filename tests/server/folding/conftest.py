"""What a server stands on, on both engines."""

from __future__ import annotations

import pytest


@pytest.fixture
def place(account_url, tmp_path):
    """Databases, objects and intake of a server; no fold worker runs yet."""
    pytest.importorskip("fastapi")
    from folding import Place

    made = Place(tmp_path / "server", account_url)
    yield made
    made.close()
