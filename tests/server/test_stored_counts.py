"""`arcwise estimate --store` reads sums of epochs; its estimates equal those from every epoch."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from arcwise.analysis.timeseries.epochs import Span, epochs_in_step, merged
from arcwise.analysis.timeseries.series import series
from arcwise.cli.counts import stored_counts
from arcwise.domains import Interval
from arcwise.server.store import open_store
from arcwise.server.store.sqlite.store import SQLiteStore
from arcwise.tasks import Task
from tests.support.commands import good
from tests.support.store_samples import batch

if TYPE_CHECKING:
    from pathlib import Path

QUARTERS = Task("quarters", Interval(0, 1), 1.0, epoch_seconds=6 * 3600)
EPOCHS = [83_000, 83_001, 83_002, 83_007, 83_040, 83_041, 83_043, 83_100]
SPANS = [Span(), Span(83_001, None), Span(None, 83_041), Span(82_990, 83_200), Span(83_002, 83_042)]


@pytest.fixture
def url(tmp_path: Path) -> str:
    url = f"sqlite:///{tmp_path / 'counts.db'}"
    with closing(open_store(url)) as store:
        store.register([QUARTERS])
        store.add([batch(QUARTERS, [epoch % 200] * 50, number=epoch, epoch=epoch) for epoch in EPOCHS])
    return url


@pytest.mark.parametrize("step", ["epoch", "day", "week", "month", "3"])
@pytest.mark.parametrize("span", SPANS)
def test_a_series_of_sums_is_the_series_of_the_epochs(url: str, span: Span, step: str) -> None:
    every = epochs_in_step(QUARTERS, step, "step")
    with closing(open_store(url)) as store:
        expected = series(QUARTERS, store.counts_by_epoch(QUARTERS), every=every, **span._asdict())
    (by_point,) = stored_counts(url, [(QUARTERS, span)], step)
    assert len(by_point) == sum(point.n > 0 for point in expected.points)
    assert series(QUARTERS, by_point, every=every, **span._asdict()).to_dict() == expected.to_dict()


@pytest.mark.parametrize("span", [*SPANS, Span(10, 20)])
def test_an_estimate_is_of_two_sums(url: str, span: Span) -> None:
    with closing(open_store(url)) as store:
        expected = merged(QUARTERS, store.counts_by_epoch(QUARTERS), span)
    (by_point,) = stored_counts(url, [(QUARTERS, span)])
    assert len(by_point) <= 2
    assert merged(QUARTERS, by_point, span).tolist() == expected.tolist()


@pytest.mark.parametrize(
    "options", [(), ("--by", "week"), ("--to", "83010", "--against-from", "83010")], ids=" ".join
)
def test_no_command_reads_the_counts_of_every_epoch(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...]
) -> None:
    def too_much(*_: object) -> None:
        raise AssertionError

    QUARTERS.save(tmp_path / "quarters.json")
    monkeypatch.setattr(SQLiteStore, "counts_by_epoch", too_much)
    good("estimate", str(tmp_path / "quarters.json"), "--store", url, *options)
