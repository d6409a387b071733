from __future__ import annotations

import base64
import io
import math
import pickle
import re

import numpy as np
import pytest

from seamark.errors import ArgumentError, ValueKindError
from seamark.types import File, Histogram


def pixels(file):
    image = pytest.importorskip("PIL.Image").open(io.BytesIO(file.content))
    image.load()
    return np.asarray(image)


def test_files_on_disk_know_their_extension_and_place(tmp_path, monkeypatch):
    """A path is made absolute at once: the working directory may change before it is recorded."""
    monkeypatch.chdir(tmp_path)
    file = File.from_path("model.tar.gz")
    found = (file.path, file.name, file.extension)
    assert found == (str(tmp_path / "model.tar.gz"), "model.tar.gz", "gz")
    assert File.from_path("model", extension=".pt").extension == "pt"
    assert File.from_path("Makefile").extension == ""
    assert File("a/b.txt") == File.from_path("a/b.txt")
    for given in ({}, {"path": "x", "content": b"x"}):
        with pytest.raises(ArgumentError, match="either a path or content"):
            File(**given)


def test_text_is_utf8_and_txt_and_bytes_are_bin_by_default(tmp_path):
    assert File.from_content("ü").content == "ü".encode()
    assert File.from_content("\ud800").content == b"\\ud800"
    assert File.from_content("x").extension == "txt"
    assert File.from_content(b"x").extension == "bin"
    assert File.from_content("{}", extension="json").name == "content.json"
    assert File.from_content("").size == 0
    with pytest.raises(ValueKindError, match="int"):
        File.from_content(5)
    File.from_content("x").save(tmp_path / "x.txt")
    assert (tmp_path / "x.txt").read_text() == "x"
    with pytest.raises(ArgumentError, match="in memory"):
        File.from_path(tmp_path / "x.txt").save(tmp_path / "y.txt")


def test_streams_are_read_at_once():
    stream = io.BytesIO(b"abc")
    stream.read()
    file = File.from_stream(stream)
    stream.close()
    assert file.content == b"abc"
    text = io.StringIO("xyz")
    text.read(1)
    assert File.from_stream(text, seek=None).content == b"yz"
    assert File.from_stream(io.StringIO("x")).extension == "txt"
    assert File.from_stream(io.BytesIO(b""), extension="png").extension == "png"


def test_create_from_finds_the_way_that_fits(tmp_path):
    file = File.from_content("x")
    assert File.create_from(file) is file
    assert File.create_from(tmp_path / "a.txt").path == str(tmp_path / "a.txt")
    assert File.create_from(io.BytesIO(b"x")).content == b"x"
    assert File.create_from(np.zeros((2, 2))).extension == "png"
    convertable = [File.is_convertable(one) for one in (np.zeros((2, 2)), 5, "a.txt")]
    assert convertable == [True, False, False]
    assert not File.is_convertable_to_html(5)
    with pytest.raises(ValueKindError, match="int"):
        File.create_from(5)


def test_objects_with_a_pickle_are_recorded_as_it():
    file = File.as_pickle({"a": 1})
    assert (pickle.loads(file.content), file.extension) == ({"a": 1}, "pkl")
    with pytest.raises(ValueKindError, match="cannot be pickled"):
        File.as_pickle(lambda: 1)


@pytest.mark.parametrize("channels", [1, 3, 4])
def test_arrays_of_bytes_are_images_without_loss_in_every_layout(channels):
    array = np.random.default_rng(0).integers(0, 256, (5, 7, channels), dtype=np.uint8)
    assert (pixels(File.as_image(array)) == array.squeeze()).all()
    assert (pixels(File.as_image(array[::2, ::-1])) == array[::2, ::-1].squeeze()).all()
    assert (pixels(File.as_image(array.transpose(2, 0, 1))) == array.squeeze()).all()


def test_floats_of_0_to_1_are_scaled():
    array = np.array([[0.0, 0.5], [1.0, np.nan]])
    assert pixels(File.as_image(array, autoscale=False)).tolist() == [[0, 0], [1, 0]]
    for given, drawn in (
        (array, [[0, 128], [255, 0]]),
        ([[0.0, 255.0]], [[0, 255]]),
        ([[True, False]], [[255, 0]]),
        ([[3, 200]], [[3, 200]]),
    ):
        assert pixels(File.as_image(np.array(given))).tolist() == drawn


def test_values_that_are_no_image_are_refused():
    for array in (np.zeros(3), np.zeros((2, 2, 5)), np.zeros((0, 3))):
        with pytest.raises(ArgumentError, match=r"File\.as_image: expected"):
            File.as_image(array)
    for value in (np.zeros((2, 2), dtype=complex), {}):
        with pytest.raises(ValueKindError, match=r"File\.as_image: expected"):
            File.as_image(value)


@pytest.mark.parametrize(
    ("array", "drawn"),
    [
        ([[-1.0, 0.0], [1.0, 3.0]], [[0, 64], [128, 255]]),
        ([[0, 300], [600, 150]], [[0, 128], [255, 64]]),
        ([[-1.0, math.nan], [math.inf, 1.0]], [[0, 0], [255, 255]]),
        ([[-0.5, -0.5]], [[0, 0]]),
    ],
)
def test_an_image_of_a_training_is_drawn_whatever_its_range(array, drawn, caplog, monkeypatch):
    """Between its smallest and its greatest value, with one warning that names the other way."""
    monkeypatch.setattr("seamark.pictures.render._logged_warnings", [])
    for _ in range(2):
        assert pixels(File.as_image(np.array(array))).tolist() == drawn
    (said,) = [one.getMessage() for one in caplog.records]
    assert "np.clip(image, 0, 1)" in said
    with pytest.raises(ArgumentError, match="expected values of 0 to 255, got"):
        File.as_image(np.array(array), autoscale=False)


def test_tensors_are_images():
    """Channels come first, with gradients and in short floats."""
    torch = pytest.importorskip("torch")
    tensor = torch.rand(3, 4, 6, requires_grad=True)
    assert pixels(File.as_image(tensor)).shape == (4, 6, 3)
    assert pixels(File.as_image(torch.ones(4, 6, dtype=torch.bfloat16))).tolist() == [[255] * 6] * 4


def test_images_of_pillow_and_figures_of_matplotlib():
    """Both draw themselves; colour models that PNG lacks become RGB."""
    image = pytest.importorskip("PIL.Image")
    array = np.arange(12, dtype=np.uint8).reshape(3, 4)
    assert (pixels(File.as_image(image.fromarray(array))) == array).all()
    assert pixels(File.as_image(image.new("CMYK", (2, 1)))).shape == (1, 2, 3)
    figure = pytest.importorskip("matplotlib.figure").Figure()
    axes = figure.subplots()
    axes.plot([1, 2])
    assert pixels(File.as_image(figure)).ndim == 3
    assert File.as_image(axes).extension == "png"
    data = File.as_html(figure).content.partition(b"base64,")[2].partition(b'"')[0]
    assert base64.b64decode(data).startswith(b"\x89PNG")


def test_objects_that_draw_themselves_as_html_are_whole_pages():
    pd = pytest.importorskip("pandas")
    table = File.as_html(pd.DataFrame({"a": [1], "b": ["<x>"]}))
    assert table.extension == "html"
    assert b"<!doctype html>" in table.content
    assert b"&lt;x&gt;" in table.content
    assert b"<pre>" in File.as_html(pd.Series([1])).content

    class Card:
        def _repr_html_(self):
            return "<b>hello</b>"

    assert b"<b>hello</b>" in File.as_html(Card()).content
    with pytest.raises(ValueKindError, match="int"):
        File.as_html(5)


@pytest.mark.parametrize("kind", ["list", "array", "tensor", "range"])
def test_a_histogram_counts_values(kind):
    """In equal bins from the smallest to the largest finite value, as `numpy.histogram` does."""
    values = [math.nan, 0.0, 0.2, 0.2, 0.9, 1.0, -math.inf]
    if kind == "tensor":
        given = pytest.importorskip("torch").tensor(values, dtype=None).reshape(7, 1)
    elif kind == "range":
        given, values = range(10), list(range(10))
    else:
        given = values if kind == "list" else np.array(values)
    histogram = Histogram(given, bins=4)
    finite = [value for value in values if math.isfinite(value)]
    counts, edges = np.histogram(np.array(finite, np.float32 if kind == "tensor" else float), 4)
    assert histogram.counts == tuple(map(float, counts))
    assert np.allclose(histogram.edges, edges)
    assert len(Histogram(given).counts) == 64
    assert pickle.loads(pickle.dumps(histogram)) == histogram


def test_a_histogram_of_extremes_holds_every_value():
    """Equal values, neighbours and the whole span of float64."""
    assert Histogram([3, 3]) == Histogram([2.5, 3.5], [2])
    for values in ([0.0, 5e-324], [-1.7e308, 0, 1.7e308], [2.0**53, 2.0**53 + 2], [True, False]):
        found = Histogram(values)
        assert sum(found.counts) == len(values)
        assert (found.edges[0], found.edges[-1]) == (min(values), max(values))
        assert Histogram(found.edges, found.counts) == found


def test_a_histogram_of_edges_and_counts_has_plain_floats_and_fits_together():
    counts, edges = np.histogram([1, 2, 2, 3], bins=2)
    histogram = Histogram(edges, counts)
    assert (histogram.edges, histogram.counts) == ((1.0, 2.0, 3.0), (1.0, 3.0))
    assert type(histogram.counts[0]) is float
    assert Histogram([0, 0, 1], [0.5, 2]).edges == (0, 0, 1)
    wrong = [([0], []), ([0, 1], [1, 2]), ([1, 0], [1]), ([0, math.inf], [1]), ([0, 1], [-1])]
    for edges, counts in [*wrong, ([0, 1], [math.nan])]:
        with pytest.raises(ArgumentError):
            Histogram(edges, counts)
    with pytest.raises(ValueKindError):
        Histogram(["a", "b"], [1])


def test_values_that_cannot_be_counted_are_refused():
    torch = pytest.importorskip("torch")
    for values, bins, error, says in (
        ([math.nan, math.inf], 64, ArgumentError, "at least one finite value"),
        ([1j], 64, ValueKindError, "expected numbers"),
        (torch.tensor([1j]), 64, ValueKindError, "real numbers"),
        (5, 64, ValueKindError, "expected numbers, or edges and counts, got int"),
        ([[1], [2, 3]], 64, ValueKindError, "expected numbers"),
        ([1, 2], 0, ArgumentError, "bins: expected a positive whole number, got int: 0"),
    ):
        with pytest.raises(error, match=re.escape(says)):
            Histogram(values, bins=bins)
