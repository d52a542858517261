"""Charts as SVG: they agree with the estimate, texts are legible and do not overlap, names are escaped."""

import math
import re
import zlib
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from functools import cache
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arcwise.analysis import Estimate, Series, Value, estimate
from arcwise.analysis.charts import Axis, Chart, Layer, charts_of, drawer, small_chart, stylesheet, svg
from arcwise.analysis.charts.model import Shape
from arcwise.analysis.charts.scale import text_width
from arcwise.analysis.estimators.comparison import compare_samples
from arcwise.analysis.timeseries.result import Point
from arcwise.domains import Circle, Interval
from arcwise.randomness import InsecureSeededRandomness
from arcwise.tasks import Task
from tests.support.known import there

SVG = "{http://www.w3.org/2000/svg}"
HOSTILE = "<script>alert(1)</script> \"'&\x00\x1b]]>\ud800 $x$ " + "W" * 60
TASKS = {
    "distribution": Task("delay", Interval(-20, 180), 2.0, unit="min"),
    "value": Task("delay", Interval(-20, 180), 2.0, goal="value"),
    "lattice": Task("stars", Interval(1, 5, step=1), 2.0),
    "direction": Task("heading", Circle(360), 2.0, unit="°"),
    "hours": Task("departure", Circle(24), 2.0, unit="h"),
}
START = datetime(2026, 1, 1, tzinfo=timezone.utc)


def counts_of(task: Task, n: int = 4000, seed: int = 1) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    values = task.domain.from_unit(np.random.default_rng(seed).beta(2, 6, n))
    if task.domain.lattice:
        values = np.round(values)
    return task.count(task.randomize(values, randomness=InsecureSeededRandomness(seed)))


@cache
def an_estimate(label: str, *, bands: bool = True) -> Estimate:
    task = TASKS[label]
    return estimate(task, counts_of(task), bands=bands)


def a_series(points: int, *, circular: bool = False, gaps: bool = True) -> Series:
    """Return a series of days in which every seventh day has no reports."""
    domain = Circle(360) if circular else Interval(0, 60)
    of = an_estimate("direction" if circular else "distribution")
    made = []
    for place in range(points):
        start = START + timedelta(days=place)
        middle, period = 20.0 + place % 5, domain.length if circular else None
        n = 0 if gaps and place % 7 == 3 else 1000 + place
        value = Value(middle, middle - 2, middle + 2, "", period=period) if n else None
        if n and circular and place % 7 == 5:  # undetermined
            value = Value(middle, 0.0, 360.0, "", period=period)
        point = Point(place, place, start, start + timedelta(days=1), n)
        made.append(replace(point, direction=value) if circular else replace(point, mean=value))
    n = sum(point.n for point in made)
    return Series(of.task, of.task_id, n, 2.0, 0.0, 0.95, False, 1, domain, "", made, None, "min")


@cache
def all_charts() -> list[Chart]:
    return list(_all_charts())


def _all_charts() -> Iterator[Chart]:
    for label, task in TASKS.items():
        for bands in (False, True):
            yield from charts_of(an_estimate(label, bands=bands))
        small = there(small_chart(an_estimate(label)))
        yield small
        other = counts_of(task, seed=2)
        yield from charts_of(compare_samples(task, counts_of(task), other, bands=True))
    for circular in (False, True):
        for points in (1, 2, 400):
            yield from charts_of(a_series(points, circular=circular))


def parsed(chart: Chart, *, standalone: bool = False) -> ElementTree.Element:
    text = svg(chart, standalone=standalone)
    return ElementTree.fromstring(f"<all>{text}</all>")


def boxes(picture: ElementTree.Element) -> list[tuple[float, float, float, float, str]]:
    """Return left, top, right and bottom of every text, as wide as the widest typeface makes it."""
    found = []
    for text in picture.iter(f"{SVG}text"):
        content = "".join(text.itertext())
        x, y = float(text.get("x", "")), float(text.get("y", ""))
        width = text_width(content, float(text.get("font-size", 12)))
        left = x - {"start": 0.0, "middle": 0.5, "end": 1.0}[text.get("text-anchor", "start")] * width
        found.append((left, y - 9, left + width, y + 2.6, content))
    return found


def check_texts(chart: Chart) -> None:
    """Check that no text overlaps another or leaves the picture."""
    for picture in parsed(chart).iter(f"{SVG}svg"):
        width, height = map(float, picture.get("viewBox", "").split()[2:])
        texts = boxes(picture)
        for place, (left, top, right, bottom, text) in enumerate(texts):
            assert left >= -0.1, text
            assert right <= width + 0.1, text
            assert top >= 0, text
            assert bottom <= height, text
            for other in texts[place + 1 :]:
                beside = right <= other[0] or other[2] <= left
                assert beside or bottom <= other[1] or other[3] <= top, (text, other[4])


@pytest.mark.slow
def test_charts_are_well_formed_and_their_texts_lie_apart() -> None:
    for chart in all_charts():
        check_texts(chart)
        whole = parsed(chart, standalone=True)
        assert [each.tag for each in whole.iter(f"{SVG}style")] == [f"{SVG}style"]
        assert "data-value" not in svg(chart, standalone=True)
        inline = svg(chart)
        assert "style=" not in inline
        assert "<style" not in inline
        assert "nan" not in re.sub('>[^<]*<|"[^"]* [^"]*"(?= aria)', "", inline).lower()
        header, rows = chart.table
        assert rows
        assert {len(row) for row in rows} == {len(header)}
        assert chart.summary.endswith(("]", ".", ")")) or chart.kind in {"cdf", "differences", "series"}


def test_names_and_units_of_others_are_text() -> None:
    for label in ("distribution", "direction"):
        other = replace(an_estimate(label), task=HOSTILE, unit=HOSTILE)
        for chart in (*charts_of(other), *charts_of(replace(a_series(3), task=HOSTILE, unit=HOSTILE))):
            for standalone in (False, True):
                picture = parsed(chart, standalone=standalone)
                assert not list(picture.iter("script"))
                assert not list(picture.iter(f"{SVG}script"))
                assert "alert(1)" in (picture[0].get("aria-label") or "")
            check_texts(chart)


def spanned(name: str) -> str:
    return " to ".join(dict.fromkeys(name.split(":")))


@pytest.mark.parametrize("label", TASKS)
def test_tables_and_hover_values_are_the_estimate(label: str) -> None:
    result = an_estimate(label)
    charts = charts_of(result)
    rows = {row[0]: row for chart in charts for row in chart.table[1]}
    shown = [text for chart in charts for layer in chart.layers for text in layer.values]
    named: dict[str, Value | None] = {
        "mean": result.mean, "direction": result.direction, "resultant length": result.resultant_length,
        **{f"quantile {name}": value for name, value in result.quantiles.items() if result.mean},
        **{f"share {spanned(name)}": value for name, value in result.bins.items()},
    }  # fmt: skip
    for name, value in named.items():
        if value is not None:
            assert rows[name] == (name, value.written()[0], value.interval_words())
    for value in (*result.bins.values(), *(result.quantiles.values() if result.mean else ())):
        assert any(str(value) in text for text in shown)
    if result.band is not None and len(charts) == 2:
        ends = [row for name, row in rows.items() if name.startswith("share up to")]
        assert len(ends) == len(result.band.at)


def test_the_table_of_a_series_has_every_point_and_a_block_spans_its_days() -> None:
    made = a_series(14)
    (chart,) = charts_of(made)
    column = made.columns()["mean"]
    assert [row[2] for row in chart.table[1]] == [
        "" if each is None else each.written()[0] for each in column
    ]
    assert [row[1] for row in chart.table[1]] == [f"{point.n:,}" for point in made.points]
    empty = [replace(point, n=0, mean=None) for point in made.points[1:]]
    block = replace(made, points=[replace(made.points[0], joined=((0, 6),)), *empty])
    (chart,) = charts_of(block)
    day = 86_400.0
    start = START.timestamp()
    spans = {layer.shape: layer.points for layer in chart.layers}
    assert spans["dashes"][0][:2] == (start, start + 7 * day)
    assert spans["ribbon"][0][:2] == (start, start + 7 * day)
    zones = [point[:2] for point in spans["zones"]]
    assert zones[:2] == [(start, start + 7 * day), (start + 7 * day, start + 8 * day)]
    assert "2026-01-08" in chart.table[1][0][0]
    assert Series.from_dict(block.to_dict()).points == tuple(block.points)


def plane(low: float, high: float, label: str, shape: Shape = "cells", period: float | None = None) -> Chart:
    x = Axis(label, low, high, period=period)
    cells = Layer(shape, "fit", ((low, high, 1.0),), label)
    y = Axis(f"density per {label}", 0.0, 1.0 / (high - low) if high - low > 1e-300 else 1.0)
    return Chart("density", "", label, "", ((), ()), x, y, (cells,))


@settings(max_examples=150)
@given(st.data())
def test_labels_of_any_domain_lie_apart(data: st.DataObject) -> None:
    scale = 10.0 ** data.draw(st.integers(-12, 12))
    low = scale * data.draw(st.floats(-1000, 1000))
    width = scale * data.draw(st.sampled_from([1.0, 7.0, 24.0, 360.0, math.tau, 1e-3, 1e-9, 0.37]))
    high = low + width
    if not low < high:
        high = math.nextafter(low, math.inf)
    check_texts(
        plane(low, high, data.draw(st.sampled_from(["min", "°", "a long unit of something " * 3, ""])))
    )


@settings(max_examples=60)
@given(st.integers(0, 2**31), st.integers(1, 10**10))
def test_labels_of_any_time_lie_apart(start: int, seconds: int) -> None:
    y = Axis("direction (°)", -90.0, 400.0, period=360.0)
    chart = Chart(
        "series", "", "direction", "", ((), ()), Axis("", float(start), float(start + seconds), "time"), y, ()
    )
    check_texts(chart)


@pytest.mark.parametrize("period", [7.0, 24.0, 360.0, 2 * math.pi, 1e-12, 1e12])
@pytest.mark.parametrize("unit", [None, "°", "h", "rad", "minutes of the hour"])
def test_labels_around_any_circle_lie_apart(period: float, unit: str | None) -> None:
    of = an_estimate("direction")
    edges = tuple(edge * (period / 360.0) for edge in there(of.distribution).edges)
    fit = replace(there(of.distribution), edges=edges)
    scaled = replace(of, unit=unit, domain=Circle(period), bins={}, distribution=fit, direction=None)
    for chart in charts_of(scaled):
        check_texts(chart)


def test_texts_are_as_wide_as_they_are_taken_to_be() -> None:
    textpath = pytest.importorskip("matplotlib.textpath")
    for text in (
        "value in [0, 120] min",
        "2026-11-22 to 2026-12-31",
        "WWW mmm",
        "0.123456789",
        "\N{MINUS SIGN}1,234 \N{MULTIPLICATION SIGN} 10⁻¹²",
    ):
        assert text_width(text, 12.0) >= textpath.TextPath((0, 0), text, size=12.0).get_extents().width


def wide_estimate(nodes: int) -> Estimate:
    """Return an estimate with a histogram and a band of this many cells."""
    of = an_estimate("distribution")
    rng = np.random.default_rng(1)
    law = rng.dirichlet(np.ones(nodes)).tolist()
    edges = np.linspace(-20, 180, nodes + 1).tolist()
    below = np.cumsum(law)[:-1]
    low, high = (np.clip(below + shift, 0, 1).tolist() for shift in (-0.02, 0.02))
    band = replace(there(of.band), at=edges[1:-1], low=low, high=high)
    return replace(
        of, distribution=replace(there(of.distribution), edges=edges, probabilities=law), band=band
    )


@pytest.mark.parametrize(("nodes", "most"), [(128, 20_000), (1024, 40_000)])
def test_pictures_are_small(nodes: int, most: int) -> None:
    assert max(len(svg(chart).encode()) for chart in charts_of(wide_estimate(nodes))) < most


def test_pictures_of_long_series_are_small() -> None:
    both = svg(charts_of(a_series(400))[0]).encode()  # for narrow and for wide pages
    assert len(both) < 80_000
    assert len(zlib.compress(both)) < 16_000


def test_every_class_has_a_rule_and_every_rule_a_class() -> None:
    written = set()
    for chart in (
        *all_charts(),
        plane(0, 1, "truth", "outline").over(Layer("outline", "truth", ((0, 1, 1),))),
    ):
        for element in parsed(chart).iter():
            written |= set((element.get("class") or "").split())
        written |= set(re.findall('class="(arc-title)"', svg(chart, standalone=True)))
    ruled = set(re.findall(r"\.(arc-[a-z]+)", stylesheet()))
    assert written - ruled == set()
    written |= {"arc-paper"}  # of complete files
    assert ruled - written == set()


def test_texts_stand_out_from_their_background() -> None:
    def luminance(colour: str) -> float:
        parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return sum(a * b for a, b in zip((0.2126, 0.7152, 0.0722), linear, strict=True))

    schemes = re.findall(r":root \{(.*?)\}", stylesheet(), re.DOTALL)
    assert len(schemes) == 4
    for scheme in schemes[:3]:  # the fourth uses the reader's own scheme
        colours = dict(re.findall(r"--chart-(\w+): (#\w+);", scheme))
        paper = luminance(colours["paper"])
        for name, least in {"ink": 4.5, "soft": 4.5, "fit": 3.0, "mark": 3.0, "none": 2.9}.items():
            one, two = sorted([luminance(colours[name]), paper])
            assert (two + 0.05) / (one + 0.05) >= least, (name, scheme)


def test_the_drawer_stays_small() -> None:
    assert len(Path(drawer.__file__).read_text(encoding="utf-8").splitlines()) <= 400
