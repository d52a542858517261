"""Linear algebra uses one thread in all computations of the server and the command line."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING, Any

import click
import numpy as np
import pytest
from click.testing import CliRunner
from threadpoolctl import threadpool_info, threadpool_limits

from arcwise.analysis import design, mechanism_table, simulate
from arcwise.analysis.estimators import comparison, estimation
from arcwise.analysis.estimators.poststratification import post_stratify
from arcwise.analysis.planning import plan
from arcwise.analysis.robustness.fit_test import fit_test
from arcwise.analysis.threads import one_thread
from arcwise.analysis.timeseries import series as series_module
from arcwise.cli import main
from arcwise.cli.main import _COMPUTING
from arcwise.domains import Circle, Interval
from arcwise.mechanisms import OptimalPiecewise
from arcwise.tasks import Task

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

UNIT = Interval(0, 1)
TASK = Task("delay", UNIT, 1.0)
COUNTS = [30] * TASK.mechanism.kernel.codes


def threads() -> set[int]:
    return {library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"}


@pytest.fixture(autouse=True)
def many() -> Iterator[None]:
    """Give linear algebra three threads, even on a machine with one core."""
    with one_thread():  # loads the libraries
        pass
    with threadpool_limits(3, user_api="blas"):
        assert threads() == {3}
        yield
        assert threads() == {3}  # as it was


def computing() -> dict[str, Callable[[], object]]:
    mechanism = OptimalPiecewise(UNIT, 1.0)
    return {
        "plan": lambda: plan(UNIT, epsilon=1, error=0.05, compare=False),
        "compare": lambda: mechanism_table.compare(UNIT, 1.0),
        "minimax": lambda: design.minimax(UNIT, 1.0, outputs=4),
        "lower_bound": lambda: design.lower_bound(UNIT, 1.0),
        "worst_case": lambda: design.worst_case(mechanism),
        "search_pieces": lambda: design.search_pieces(3, [1.0]),
        "optimal_pieces": lambda: design.optimal_pieces(3, 1.0, 1, UNIT),
        "simulate_counts": lambda: simulate.simulate_counts(
            mechanism, np.array([0.5]), 10, np.random.default_rng(1)
        ),
        "estimate": lambda: estimation.estimate(TASK, COUNTS),
        "fit_test": lambda: fit_test(TASK, COUNTS),
        "compare_samples": lambda: comparison.compare_samples(TASK, COUNTS, COUNTS),
        "compare_reference": lambda: comparison.compare_reference(TASK, COUNTS, "uniform"),
        "post_stratify": lambda: post_stratify(TASK, {"a": COUNTS}, {"a": 1.0}),
        "series": lambda: series_module.series(TASK, {1: COUNTS}, every=1),
    }


@pytest.mark.parametrize("name", computing())
def test_what_is_computed_takes_one_thread(name: str) -> None:
    """Count the threads at the start of the function; none of these tests needs to go further."""
    seen: list[set[int]] = []

    def look(frame: Any, event: str, _argument: object) -> None:
        if event == "call" and frame.f_code.co_name == name and "/arcwise/" in frame.f_code.co_filename:
            seen.append(threads())
            raise _Seen

    sys.setprofile(look)
    try:
        with pytest.raises(_Seen):
            computing()[name]()
    finally:
        sys.setprofile(None)
    assert seen == [{1}]


class _Seen(Exception):
    """Signals that the function in question has started."""


@pytest.mark.parametrize("name", sorted(_COMPUTING))
def test_commands_that_compute_take_one_thread(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def parse_args(_command: click.Command, _context: click.Context, _arguments: list[str]) -> list[str]:
        seen.append(threads())
        raise click.exceptions.Exit(0)

    command = main.get_command(click.Context(main), name)
    assert command is not None
    monkeypatch.setattr(command, "parse_args", parse_args.__get__(command))
    result = CliRunner().invoke(main, [name])
    assert result.exit_code == 0, result.output
    assert seen == [{1}]


@pytest.mark.slow
def test_libraries_that_were_not_loaded_yet_are_limited_too() -> None:
    program = (
        "from arcwise.analysis.threads import one_thread\n"
        "from threadpoolctl import threadpool_info, threadpool_limits\n"
        "with one_thread():\n"
        "    import scipy.linalg, scipy.optimize\n"
        "    print({each['num_threads'] for each in threadpool_info() if each['user_api'] == 'blas'})\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        env={"OPENBLAS_NUM_THREADS": "3", "PATH": ""},
    )
    assert done.stdout == "{1}\n"


def test_a_circle_is_planned_with_one_thread_also_between_its_steps() -> None:
    seen: set[int] = set()
    plan(Circle(360), epsilon=1, error=5.0, progress=lambda *_: seen.update(threads()))
    assert seen == {1}
