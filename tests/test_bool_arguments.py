"""Every public function with a bool argument refuses anything else, because "no" is true to Python."""

from __future__ import annotations

import importlib
import inspect
from dataclasses import replace
from functools import partial
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

SERIES = partial(analysis.series, TASK, {1: COUNTS})
CLIENT: dict[str, Any] = {"tasks": [TASK], "caps": "unlimited"}
CALLABLES: dict[str, tuple[Callable[..., Any], list[str]]] = {
    "Reader": (partial(analysis.Reader, URL), ["insecure"]),
    "Series": (lambda **given: replace(SERIES(), **given), ["simultaneous"]),
    "audit": (partial(analysis.audit, lambda value: value, RANGE, 1.0), ["vectorised"]),
    "compare": (partial(analysis.compare, RANGE, 1.0), ["designs"]),
    "compare_reference": (partial(analysis.compare_reference, TASK, COUNTS, "uniform"), ["bands"]),
    "compare_samples": (partial(analysis.compare_samples, TASK, COUNTS, COUNTS), ["bands"]),
    "estimate": (partial(analysis.estimate, TASK, COUNTS), ["bands"]),
    "minimax": (partial(analysis.minimax, RANGE, 1.0), ["cache"]),
    "plan": (partial(analysis.plan, RANGE, epsilon=1.0, error=0.1), ["compare"]),
    "post_stratify": (partial(analysis.post_stratify, TASK, {"all": COUNTS}, {"all": 1.0}), ["bands"]),
    "series": (SERIES, ["simultaneous"]),
    "simulate_counts": (
        lambda **given: analysis.simulate_counts(TASK, [0.5], 10, np.random.default_rng(1), **given),
        ["fixed"],
    ),
    "figures": (partial(design.figures, [1.0]), ["cache"]),
    "search_pieces": (partial(design.search_pieces, 3, [1.0]), ["circular"]),
    "FileLedger": (partial(FileLedger, "telemetry.db"), ["create"]),
    "PostgresLedgers": (partial(PostgresLedgers, "postgresql:///app"), ["create", "relaxed"]),
    "Client": (partial(Client, URL, **CLIENT), ["insecure", "show_values"]),
    "AsyncClient": (partial(AsyncClient, URL, **CLIENT), ["insecure", "show_values"]),
    "Reporting": (partial(Reporting, URL, tasks=[TASK], ledgers=LEDGERS), ["show_values"]),
    "Uplink": (partial(Uplink, URL), ["insecure"]),
    "AsyncUplink": (partial(AsyncUplink, URL), ["insecure"]),
    "Interval": (partial(Interval, 0, 1), ["clip"]),
    "WindowKernel": (partial(WindowKernel, 2, 2, 1, 1 << 62, 1 << 63), ["circular"]),
    "create_app": (partial(create_app, tasks=[TASK]), ["estimates_apart", "open"]),
    "Settings": (partial(Settings, tasks=[TASK]), ["estimates_apart", "open"]),
    "migrate_store": (partial(migrate_store, "sqlite:///it.db"), ["dry_run"]),
    "open_store": (partial(open_store, "sqlite:///it.db"), ["create", "read_only"]),
}
MEMOISED: dict[str, tuple[Any, ...]] = {
    "compare_reference": (COUNTS, "uniform"),
    "compare_samples": (COUNTS, COUNTS),
    "estimate": (COUNTS,),
    "fit_test": (COUNTS,),
    "post_stratify": ({"all": COUNTS}, {"all": 1.0}),
    "series": ({0: COUNTS},),
}
CALLS: dict[str, Callable[..., Any]] = {
    **{f"{name}({each})": call for name, (call, arguments) in CALLABLES.items() for each in arguments},
    **{
        f"{name}(memoised)": partial(getattr(analysis, name), TASK, *asked, reports_per_device=2)
        for name, asked in MEMOISED.items()
    },
    "FileLedger(relaxed)": partial(FileLedger, "telemetry.db", create=True),
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
    """Options of clients and settings of an app are not declared in a signature."""
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
