"""The pictures of the documents: ``nox -s page -- --pictures`` makes them anew."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from page_looking import expect, opening, plotted

import seamark

PICTURES = Path(__file__).parents[3] / "docs" / "pictures"
LARGEST = 150_000
SHOWN = "?project=vision/digits&sort=val/loss:min&selected={quick-otter},{calm-heron},{bold-ibis}"
MADE = {
    "page-table": ("light", f"{SHOWN},{{warm-crow}}&logy=1", "train/loss"),
    "page-dark": ("dark", f"{SHOWN},{{warm-crow}}&logy=1&smooth=50", "train/loss"),
    "page-groups": (
        "light",
        "?project=vision/digits&group=parameters/width&q=parameters/width > 0",
        "val/loss",
    ),
    "page-run": ("light", "?project=vision/digits&run={warm-crow}&tab=charts", "train/loss"),
    "page-ranks": ("light", "?project=vision/digits&run={twins}&tab=ranks", None),
    "page-compare": ("light", f"{SHOWN}&screen=compare", "train/loss"),
}
"""The colours and the address of each picture, and a chart that has to be drawn."""


def test_pictures_are_small():
    for name in MADE:
        path = PICTURES / f"{name}.png"
        assert path.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n", name
        assert path.stat().st_size <= LARGEST, name


def test_make_pictures(request, recorded, serve, new_profile):
    """Only when asked for: how a browser draws letters is not the same everywhere."""
    if not request.config.getoption("--pictures"):
        pytest.skip("--pictures makes them")
    from PIL import Image

    root = recorded("pictures")
    page = serve(root)
    given = {"root": root, "mode": "read-only"}
    ids = {
        name: seamark.init_run("vision/digits", custom_run_id=name, **given).id
        for name in ("quick-otter", "calm-heron", "bold-ibis", "warm-crow", "twins")
    }
    for name, (scheme, asked, path) in MADE.items():
        tab = new_profile(color_scheme=scheme, device_scale_factor=1.5).new_page()
        tab.goto(opening(page, asked.format(**ids)))
        if path:
            plotted(tab, path)
        else:
            expect(tab.get_by_role("main").get_by_role("table").first).to_be_visible()
        expect(tab.locator("main [aria-busy=true], main .loading")).to_have_count(0)
        tab.evaluate(
            "() => { for (const one of document.querySelectorAll('*')) one.scrollTop = 0; }"
        )
        tab.wait_for_timeout(500)
        image = Image.open(io.BytesIO(tab.screenshot())).convert("RGB")
        few = image.quantize(256, dither=Image.Dither.NONE)
        few.save(PICTURES / f"{name}.png", optimize=True)
