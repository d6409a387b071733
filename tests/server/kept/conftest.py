"""A place that keeps journals, on each engine."""

from __future__ import annotations

import pytest

pytest.importorskip("fastapi")

from keeping import Place


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.thorough)])
def place(request, tmp_path):
    if request.param == "postgresql":
        url = request.getfixturevalue("postgresql_url")
    else:
        url = f"sqlite:///{tmp_path / 'databases'}"
    made = Place(url, tmp_path / "objects")
    yield made
    made.close()
