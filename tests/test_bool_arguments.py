"""Every public function that takes a bool refuses anything else: "no" is true to Python."""

from __future__ import annotations

import importlib
import inspect
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from arcwise import analysis
from arcwise.analysis import design
from arcwise.client import AsyncClient, AsyncUplink, Client, FileLedger, PostgresLedgers, Uplink
from arcwise.client.asgi import Reporting
from arcwise.domains import Interval
from arcwise.errors import ParameterError
from arcwise.kernels.window import WindowKernel
from arcwise.server import Settings, create_app
from arcwise.server.store import migrate_store, open_store
from arcwise.tasks import Task
from tests.test_public_surface import FACADES

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

RANGE = Interval(0, 1)
TASK = Task("score", RANGE, epsilon=1.0)
COUNTS = [1] * TASK.mechanism.kernel.codes
URL = "https://reports.example"
LEDGERS: Any = None  # never reached

CALLS: dict[str, Callable[..., Any]] = {
    "Reader(insecure)": lambda **given: analysis.Reader(URL, **given),
    "Series(simultaneous)": lambda **given: replace(analysis.series(TASK, {1: COUNTS}), **given),
    "audit(vectorised)": lambda **given: analysis.audit(lambda value: value, RANGE, 1.0, **given),
    "compare(designs)": lambda **given: analysis.compare(RANGE, 1.0, **given),
    "compare_reference(bands)": lambda **given: analysis.compare_reference(TASK, COUNTS, "uniform", **given),
    "compare_samples(bands)": lambda **given: analysis.compare_samples(TASK, COUNTS, COUNTS, **given),
    **{
        f"{function}(memoised)": lambda name=function, asked=asked, **given: getattr(analysis, name)(
            TASK, *asked, reports_per_device=2, **given
        )
        for function, asked in {
            "compare_reference": (COUNTS, "uniform"),
            "compare_samples": (COUNTS, COUNTS),
            "estimate": (COUNTS,),
            "fit_test": (COUNTS,),
            "post_stratify": ({"all": COUNTS}, {"all": 1.0}),
            "series": ({0: COUNTS},),
        }.items()
    },
    "estimate(bands)": lambda **given: analysis.estimate(TASK, COUNTS, **given),
    "minimax(cache)": lambda **given: analysis.minimax(RANGE, 1.0, **given),
    "plan(compare)": lambda **given: analysis.plan(RANGE, epsilon=1.0, error=0.1, **given),
    "post_stratify(bands)": lambda **given: analysis.post_stratify(
        TASK, {"all": COUNTS}, {"all": 1.0}, **given
    ),
    "series(quantiles)": lambda **given: analysis.series(TASK, {1: COUNTS}, **given),
    "series(simultaneous)": lambda **given: analysis.series(TASK, {1: COUNTS}, **given),
    "simulate_counts(fixed)": lambda **given: analysis.simulate_counts(
        TASK, [0.5], 10, np.random.default_rng(1), **given
    ),
    "figures(cache)": lambda **given: design.figures([1.0], **given),
    "piecewise_gaps(cache)": lambda **given: design.piecewise_gaps([1.0], **given),
    "search_pieces(circular)": lambda **given: design.search_pieces(3, [1.0], **given),
    "FileLedger(create)": lambda **given: FileLedger("telemetry.db", **given),
    "FileLedger(relaxed)": lambda **given: FileLedger("telemetry.db", create=True, **given),
    "PostgresLedgers(create)": lambda **given: PostgresLedgers("postgresql:///app", **given),
    "PostgresLedgers(relaxed)": lambda **given: PostgresLedgers("postgresql:///app", **given),
    "Client(insecure)": lambda **given: Client(URL, tasks=[TASK], caps="unlimited", **given),
    "AsyncClient(insecure)": lambda **given: AsyncClient(URL, tasks=[TASK], caps="unlimited", **given),
    "Client(show_values)": lambda **given: Client(URL, tasks=[TASK], caps="unlimited", **given),
    "AsyncClient(show_values)": lambda **given: AsyncClient(URL, tasks=[TASK], caps="unlimited", **given),
    "Reporting(show_values)": lambda **given: Reporting(URL, tasks=[TASK], ledgers=LEDGERS, **given),
    "Uplink(insecure)": lambda **given: Uplink(URL, **given),
    "AsyncUplink(insecure)": lambda **given: AsyncUplink(URL, **given),
    "Interval(clip)": lambda **given: Interval(0, 1, **given),
    "WindowKernel(circular)": lambda **given: WindowKernel(2, 2, 1, 1 << 62, 1 << 63, **given),
    "create_app(estimates_apart)": lambda **given: create_app(tasks=[TASK], **given),
    "create_app(open)": lambda **given: create_app(tasks=[TASK], **given),
    "Settings(estimates_apart)": lambda **given: Settings(tasks=[TASK], **given),
    "Settings(open)": lambda **given: Settings(tasks=[TASK], **given),
    "migrate_store(dry_run)": lambda **given: migrate_store("sqlite:///it.db", **given),
    "open_store(create)": lambda **given: open_store("sqlite:///it.db", **given),
    "open_store(read_only)": lambda **given: open_store("sqlite:///it.db", **given),
}
"""A call for every bool argument, with valid other arguments."""


@pytest.mark.parametrize("wrong", ["no", "false", "True", "", 0, 1, 1.0, [], np.array([True])], ids=repr)
@pytest.mark.parametrize("argument", CALLS)
def test_what_is_not_a_bool_is_refused_and_nothing_is_made(
    argument: str, wrong: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    name = argument.partition("(")[2].removesuffix(")")
    with pytest.raises(ParameterError) as caught:
        CALLS[argument](**{name: wrong})
    allowed = "True, False or None" if name == "open" else "True or False"
    assert str(caught.value) == f"{name} must be {allowed}, got {wrong!r}"
    assert list(tmp_path.iterdir()) == []


def test_every_bool_argument_of_the_public_surface_is_tried() -> None:
    """Options of clients and settings of an app are declared elsewhere than in a signature."""
    found = set()
    for facade in (*FACADES, "arcwise.analysis.design"):
        module = importlib.import_module(facade)
        for name in module.__all__:
            value = getattr(module, name)
            if (
                not callable(value)
                or inspect.isabstract(value)
                or (inspect.isclass(value) and issubclass(value, (BaseException, tuple)))
                or not value.__module__.startswith(facade)
            ):
                continue
            found |= {
                f"{name}({parameter.name})"
                for parameter in inspect.signature(value).parameters.values()
                if parameter.annotation in {"bool", "bool | None"}
            }
    assert found <= CALLS.keys()
    assert len(found) >= 15


def test_a_bool_of_numpy_is_one() -> None:
    assert Interval(0, 1, clip=np.True_) == Interval(0, 1, clip=True)  # type: ignore[arg-type]
    assert type(Interval(0, 1, clip=np.False_).clip) is bool  # type: ignore[arg-type]
