"""The user's own values: read them, propose a domain, a step and bounds, and say what proposals reveal."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import click
import numpy as np

from arcwise.analysis.planning.mechanisms import domain_words
from arcwise.cli.numbers import read_numbers
from arcwise.cli.options import read_domain
from arcwise.digits import counted
from arcwise.domains import Circle, Domain, Interval
from arcwise.lattice import MOST_VALUES, TOLERANCE

if TYPE_CHECKING:
    from pathlib import Path

    from arcwise.cli.options import DataOptions
    from arcwise.typing import FloatArray

_REVEALS = "a task is public: a mechanism that is chosen by these values reveals something about them"

_FEWEST = 20
"""Least number of values for which a step is proposed: fewer values may be multiples by chance."""

_NEARLY_ALL = 0.99
_OF_DISTINCT = 0.9
"""Shares of the values, and of the distinct values, that must be multiples of a step.

The second share is needed because many equal values, such as zeros, are multiples of everything.
"""

_TAIL = 0.005
_TOO_LONG = 3.0
"""Bounds leave out 0.5 % of the values at each end if the range of the others is this many times shorter."""

_MANTISSAS = (6.0, 5.0, 3.0, 2.5, 2.0, 1.5, 1.0)
"""Steps to try, multiplied by powers of ten; they include half hours and quarters of an hour in minutes."""


def read_own_numbers(path: Path, column: str | None) -> FloatArray:
    """Return the numbers of a file of `--data`, shape (n,); report rows without a value on stderr."""
    values = read_numbers(path, column, missing=True)
    present = values[~np.isnan(values)]
    if absent := values.size - present.size:
        click.echo(f"note: left out {counted(absent, 'row')} without a value", err=True)
    return present


def read_population(options: DataOptions) -> tuple[Domain, FloatArray | None]:
    """Return the domain from the options or proposed from the values of --data, and these values."""
    if options["data"] is not None:
        return read_own_data(options["data"], options)
    if options["column"] is not None:
        raise click.UsageError("--column is for --data")
    return read_domain(options), None


def read_own_data(path: Path, options: DataOptions, *, stepped: bool = True) -> tuple[Domain, FloatArray]:
    """Return the values of a file, and their domain: that of the options, or one proposed from the values.

    Values outside the domain are clipped. Notes on stderr say what is proposed, and that it reveals something
    about the values. With `stepped`, proposed bounds come with a step if the values are multiples of a step.
    """
    values = read_own_numbers(path, options["column"])
    notes: list[str] = []
    if options["domain_text"] is not None or options["circle"] is not None:
        domain = read_domain(options)
        if not domain.circular and (outside := _outside(values, domain.low, domain.high)):
            domain = Interval(domain.low, domain.high, clip=True, step=domain.step, rounding=domain.rounding)
            lies = "lies" if outside == 1 else "lie"
            notes = [
                f"{outside:,} of {values.size:,} values {lies} outside and are clipped, which moves means"
            ]
    elif values.min() == values.max():
        raise click.ClickException(
            f"--data must hold different numbers, got {float(values[0]):.12g} only: give --domain"
        )
    else:
        domain, proposed_notes = proposed(
            values, None, step=options["step"], rounding=options["rounding"], stepped=stepped
        )
        notes = [domain_words(domain), *proposed_notes]
    for note in (*notes, _REVEALS):
        click.echo(f"note: {note}", err=True)
    return domain, values


class Proposal(NamedTuple):
    """A domain, and notes on the domain, a sentence each."""

    domain: Domain
    notes: tuple[str, ...]


def proposed(
    values: FloatArray,
    given: Domain | None,
    *,
    step: float | None,
    rounding: str | None,
    stepped: bool = True,
) -> Proposal:
    """Propose a domain for values like these.

    The domain `given`, which has no step, keeps its bounds; bounds are proposed if it is None. In the same
    way, a `step` and a `rounding` are kept, or proposed if they are None. Without `stepped`, no step is
    proposed together with bounds.
    """
    notes = []
    taken = None
    if given is None:
        low, high, tail = _range(values)
        step = _step_of_line(values, high - low) if step is None and stepped else step
        low, high = _outward(low, high, step)
        taken = Interval(low, high, clip=True)
        outside = _outside(values, low, high)
        notes.append(
            f"bounds from {len(values):,} values, rounded outward"
            + (f"; {outside:,} lie outside and are clipped, which moves means" if tail else "")
        )
        domain: Domain = taken
    else:
        domain = given
        if given.circular:
            step = _step_of_turn(values, given.period) if step is None else step
        else:
            step = _step_of_line(values - given.low, given.length, whole=True) if step is None else step
            if not given.clip and _outside(values, given.low, given.high):
                domain = Interval(given.low, given.high, clip=True)
                notes.append("values outside the domain are clipped, which moves means")
    domain, words = _with_step(domain, values, step, rounding)
    notes += words
    if taken is not None or words:
        notes.append(
            "a domain taken from data reveals something about the data: use a public sample, or known bounds "
            "instead"
        )
    return Proposal(domain, tuple(notes))


def _outside(values: FloatArray, low: float, high: float) -> int:
    """Return the number of values outside the bounds."""
    return int(((values < low) | (values > high)).sum())


def _range(values: FloatArray) -> tuple[float, float, bool]:
    """Return the bounds before rounding, and whether they leave out tails of the values."""
    low, high = float(values.min()), float(values.max())
    inner = np.quantile(values, [_TAIL, 1.0 - _TAIL]).tolist()
    if 0.0 < inner[1] - inner[0] < (high - low) / _TOO_LONG:
        return inner[0], inner[1], True
    return low, high, False


def _outward(low: float, high: float, step: float | None) -> tuple[float, float]:
    """Return the bounds moved outward to round numbers and whole steps."""
    unit = _round_up((high - low) / 10.0)
    if step is not None:
        unit = step * max(1.0, math.floor(unit / step + 0.5))
    # Rounding errors may move a whole number of units slightly up or down.
    first, last = math.floor(low / unit + 1e-9), math.ceil(high / unit - 1e-9)
    if 0 < first <= 2:
        first = 0  # a range that begins near 0 begins at 0
    return float(f"{first * unit:.12g}"), float(f"{last * unit:.12g}")


def _round_up(number: float) -> float:
    """Return the smallest of 1, 2 and 5 times a power of ten that is at least a positive number."""
    power = 10.0 ** math.floor(math.log10(number))
    return next(m * power for m in (1.0, 2.0, 5.0, 10.0) if m * power >= number * (1.0 - 1e-9))


def _step_of_line(values: FloatArray, length: float, *, whole: bool = False) -> float | None:
    """Return the largest round step of which nearly all values are multiples, or None without such a step.

    With `whole`, the step must divide the length.
    """
    top = math.floor(math.log10(length))
    for power in range(top, top - 5, -1):
        for mantissa in _MANTISSAS:
            step = float(f"{mantissa}e{power}")
            divides = abs(length / step - math.floor(length / step + 0.5)) <= TOLERANCE
            if step <= length and (divides or not whole) and _fits(values / step):
                return step
    return None


def _step_of_turn(values: FloatArray, period: float) -> float | None:
    turned = np.mod(values, period)
    return next(
        (
            float(f"{period / size:.12g}")
            for size in range(2, MOST_VALUES + 1)
            if _fits(turned / (period / size))
        ),
        None,
    )


def _fits(places: FloatArray) -> bool:
    if places.size < _FEWEST:
        return False
    away = np.abs(places - np.floor(places + 0.5)) > TOLERANCE
    if away.mean() > 1.0 - _NEARLY_ALL:
        return False
    _, first = np.unique(places, return_index=True)
    return bool(away[first].mean() <= 1.0 - _OF_DISTINCT)


def _with_step(
    domain: Domain, values: FloatArray, step: float | None, rounding: str | None
) -> tuple[Domain, list[str]]:
    """Return the domain with the step, unless the step is None or gives too many values, and notes on it."""
    if step is None:
        if rounding is not None:
            raise click.UsageError("--rounding is for a domain with a step, and these values have no step")
        return domain, []
    low = domain.start
    places = (values - low) / step
    between = int((np.abs(places - np.floor(places + 0.5)) > TOLERANCE).sum())
    size = math.floor(domain.length / step + 0.5) + (not domain.circular)
    if size > MOST_VALUES:
        return domain, [
            f"values are multiples of {step:g}, but {size:,} values are more than can have a node each "
            f"({MOST_VALUES:,}): no step"
        ]
    if rounding is None:
        rounding = "nearest" if between else "refuse"
    words = f"all values are multiples of {step:g}, so the task has this step and {size:,} values"
    if between:
        words += f"; {between:,} of {len(values):,} are between two of them, rounding {rounding}"
    args: dict[str, Any] = {"step": step, "rounding": rounding}
    if domain.circular:
        return Circle(domain.period, **args), [words]
    return Interval(domain.low, domain.high, clip=domain.clip, **args), [words]
