"""Checks of one survey for `coverage.py`: each interval that arcwise shows, and the truth.

Not a program. Everything goes through the public functions: `estimate`, `fit_test`, `compare_samples`,
`compare_reference` and `post_stratify`. Only the numbers for the users who reported skip quantities that are
the same as for their population.
"""

from __future__ import annotations

import math
import re
import zlib
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from arcwise.analysis import Band, Estimate, Value, estimate
from arcwise.analysis.estimators.comparison import Comparison, compare_reference, compare_samples
from arcwise.analysis.estimators.differences import mean_difference
from arcwise.analysis.estimators.estimation import by_moments, empty_estimate
from arcwise.analysis.estimators.poststratification import post_stratify
from arcwise.analysis.estimators.quantiles import LEVELS
from arcwise.analysis.estimators.result import wrapped
from arcwise.analysis.estimators.survey import Survey
from arcwise.analysis.robustness.fit_test import fit_test
from arcwise.analysis.simulate import Mixture, parse_population, simulate_counts
from arcwise.analysis.simulate.truth import SLACK, Truth, on_lattice
from arcwise.domains import Circle, Interval
from arcwise.mechanisms import OptimalCircular, OptimalPiecewise
from arcwise.tasks import Task
from benchmarks.studies.populations import Named, domain_of
from benchmarks.studies.truths import atoms

if TYPE_CHECKING:
    from collections.abc import Mapping

    from arcwise.analysis.simulate import Population
    from arcwise.typing import FloatArray, IntArray


__all__ = ["PARTS", "Answer", "Place", "case", "holds_everywhere", "survey"]

PARTS = ("estimates", "fit test", "comparisons", "single values", "strata", "levels")
"""Single values are estimates with the goal for these, strata many strata, levels other levels than 0.95."""

MOST_MISSED = 0.07
"""Largest rate of misses of intervals at the level 0.95, and of false alarms of the fit test."""

_LEVELS = (0.5, 0.8, 0.99, 0.9999)

_STRATA, _STRATUM = 60, 15
"""Most strata, and fewest reports of each."""

FIT_LEVEL = 0.05

_SMALLEST = 1e-9
"""Resultant length from which a direction is shown; that of the rounding of records is below it."""

_SHARE = 1e-7
"""Tolerance of a share: places that are `SLACK` apart count as one."""

_ROUGH = re.compile(r"\brough\b")
_WINDOWS = re.compile(r"of (\d+) windows (\S+) wide")

_FIXED = ((0.0, 0.1), (0.0, 0.3), (0.0, 0.5), (0.42, 0.43), (0.6, 0.8), (0.9, 1.0))
"""Shares to check for every population, on the unit domain; on circles they are arcs."""

_ORIGIN = 0.51
"""In turns: quantiles of a circle are counted from here, from 0 or from opposite the direction."""

_FURTHER_LEVELS = (0.01, 0.1, 0.9)
"""Of quantiles, besides those of every estimate."""


class Place(NamedTuple):
    """A place where surveys are made; nodes of the mechanism, or None for the task's own."""

    population: Named
    epsilon: float
    reports: int
    nodes: int | None = None


class Answer(NamedTuple):
    """Result for one interval: whether it contains the truth (None without one), its width, its roughness."""

    held: bool | None
    width: float
    rough: bool
    may_miss: float = MOST_MISSED
    """Largest rate of misses of such intervals."""


class Case(NamedTuple):
    """A place's task, the law of the values, the exact truth, and the requested shares by name."""

    task: Task
    population: Population
    truth: Truth
    shares: dict[str, tuple[float, float]]


@lru_cache(maxsize=8)
def _truth(named: Named) -> Truth:
    domain = domain_of(named.domain)
    return Truth(on_lattice(parse_population(named.line, domain), domain))


@lru_cache(maxsize=8)
def case(named: Named, epsilon: float, nodes: int | None = None, *, single: bool = False) -> Case:
    """Return the data that all surveys of a place share; `single` means a goal for single values."""
    domain = domain_of(named.domain)
    mechanism = None
    if nodes is not None and not domain.discrete and not single:
        make = OptimalCircular if isinstance(domain, Circle) else OptimalPiecewise
        mechanism = make(domain, epsilon, nodes=nodes)  # type: ignore[arg-type]
    truth = _truth(named)
    goal = None
    if single:
        goal = "direction" if isinstance(domain, Circle) else "value"
    task = Task("a", domain, epsilon, mechanism=mechanism, goal=goal)
    return Case(task, truth.population, truth, _asked(truth, domain))


def _asked(truth: Truth, domain: Interval | Circle) -> dict[str, tuple[float, float]]:
    """Return the requested shares by name, on the unit domain."""
    units = {f"{low:g} to {high:g}": (low, high) for low, high in _FIXED}
    median = truth.quantile(0.5)
    units["to the median"] = (0.0, median)
    units["a hundredth at the median"] = (max(median - 0.005, 0.0), min(median + 0.005, 1.0))
    units["middle half"] = (truth.quantile(0.25), truth.quantile(0.75))
    held = atoms(truth.population)
    if held:
        atom = max(held, key=held.__getitem__)
        units["to the largest atom"] = (0.0, atom)
        units["from the largest atom"] = (atom, 1.0)
        units["at the largest atom"] = (max(atom - 0.01, 0.0), min(atom + 0.01, 1.0))
    empty = _emptiest(truth)
    if empty is not None:
        units["where nobody is"] = empty
    if isinstance(domain, Circle):
        units["over the origin"] = (0.93, 1.04)
    if domain.lattice is not None:
        steps, last = domain.lattice.steps, domain.lattice.size - 1
        units = {
            name: (math.ceil(low * steps - 1e-6) / steps, math.floor(high * steps + 1e-6) / steps)
            for name, (low, high) in units.items()
        }
        if isinstance(domain, Interval):
            units["the last value"] = (last / steps, last / steps)
        # On more than 512 values a share of one value is not shown, because rounding moves values there.
        least = 0.0 if last < 512 else 1.5 / steps
        return {name: (low, high) for name, (low, high) in units.items() if high - low >= least}
    return {name: (low, high) for name, (low, high) in units.items() if abs(high - low) > 1e-6}


def _emptiest(truth: Truth) -> tuple[float, float] | None:
    """Return the longest empty stretch, without a tenth at its ends; None below two hundredths."""
    grid = np.linspace(0.0, 1.0, 2001)
    below = truth.population.cdf(grid)
    best = (0.0, 0.0)
    start = 0
    for k in range(1, len(grid)):
        if below[k] - below[start] > 1e-12:
            start = k
        elif grid[k] - grid[start] > best[1] - best[0]:
            best = float(grid[start]), float(grid[k])
    width = best[1] - best[0]
    if width < 0.02:
        return None
    first = 0.0 if best[0] == below[0] == 0.0 else best[0] + 0.1 * width
    return first, best[1] - 0.1 * width


def survey(part: str, place: Place, number: int, seed: int) -> dict[tuple[str, str], Answer]:
    """Make one survey and return its intervals, by kind and item."""
    one = case(place.population, place.epsilon, place.nodes, single=part == "single values")
    name = zlib.crc32("|".join(place.population[:3]).encode())
    generator = np.random.default_rng([seed, name, place.reports, round(1e6 * place.epsilon), number])
    if part == "fit test":
        counts = simulate_counts(one.task, one.population, place.reports, generator)
        result = fit_test(one.task.mechanism, counts, level=FIT_LEVEL)
        return {("fit test", ""): Answer(not result.rejected, math.nan, rough=False)}
    if part == "strata":
        return _strata(one, place.reports, number, generator)
    users = one.population.draw(place.reports, generator)
    counts = _counts(one, users, generator)
    if part == "comparisons":
        return _comparisons(one, counts, number, generator)
    level = _LEVELS[name % len(_LEVELS)] if part == "levels" else 0.95
    if isinstance(one.task.domain, Circle):
        found = _circle(one, counts, users, number, level)
    else:
        found = _line(one, counts, users, generator, level)
    if part == "estimates":
        return found
    told = f"level {level:g}" if part == "levels" else part
    # Up to level 0.95 misses may be 1.4 times as frequent as nominal, and 3 times above it.
    factor = MOST_MISSED / 0.05 if level <= 0.95 else 3.0
    return {
        (f"{told}: {kind}", which): answer._replace(may_miss=factor * (1.0 - level))
        for (kind, which), answer in found.items()
    }


def _line(
    one: Case, counts: IntArray, users: FloatArray, generator: np.random.Generator, level: float
) -> dict[tuple[str, str], Answer]:
    """Return the intervals of a survey on an interval."""
    task, truth = one.task, one.truth
    low, length = _line_of(task)
    between = _between(one)
    result = estimate(
        task, counts, level=level, bands=True, between=between.values(), quantiles=_FURTHER_LEVELS
    )
    theirs = _of_users(task, counts, level)
    found: dict[tuple[str, str], Answer] = {}
    for whose, told, of_mean, of_variance in (
        ("", result, truth.mean, truth.variance),
        (" of users", theirs, float(users.mean()), float(users.var())),
    ):
        found[f"mean{whose}", ""] = _answer(told.mean, low + length * of_mean, length)
        found[f"variance{whose}", ""] = _answer(told.variance, length**2 * of_variance, length**2)
        found[f"standard deviation{whose}", ""] = _answer(
            told.standard_deviation, length * math.sqrt(max(of_variance, 0.0)), length
        )
    for tau, value in result.quantiles.items():
        found["quantile", tau] = _answer(value, low + length * truth.quantile(float(tau)), length)
    _shares(found, one, result, between)
    _bins(found, one, result)
    if result.band is not None:
        found["band", ""] = _band(one, result.band)
    _mode(found, one, result)
    if level == 0.95:
        _differences(found, one, counts, users, generator)
    return found


def _circle(
    one: Case, counts: IntArray, users: FloatArray, number: int, level: float
) -> dict[tuple[str, str], Answer]:
    """Return the intervals of a survey on a circle; its number selects where quantiles are counted from."""
    task, truth, period = one.task, one.truth, one.task.domain.length
    between = _between(one)
    origin = (0.0, _ORIGIN * period, None)[number % 3]
    result = estimate(
        *(task, counts),
        level=level,
        bands=True,
        between=between.values(),
        origin=origin,
        quantiles=_FURTHER_LEVELS,
    )
    theirs = _of_users(task, counts, level)
    found: dict[tuple[str, str], Answer] = {}
    moment = complex(np.exp(2j * np.pi * users).mean())
    for whose, told, of in (("", result, truth.moment), (" of users", theirs, moment)):
        found[f"resultant length{whose}", ""] = _answer(told.resultant_length, abs(of), 1.0)
        found[f"circular variance{whose}", ""] = _answer(told.circular_variance, 1.0 - abs(of), 1.0)
        if abs(of) >= _SMALLEST:
            angle = math.atan2(of.imag, of.real) / (2 * math.pi)
            found[f"direction{whose}", ""] = _around(told.direction, angle, period)
        else:  # no direction is better than another: the interval has to be the whole circle
            whole = _around(told.direction, 0.0, period)
            held = None if whole.held is None else whole.width >= 1.0 - SLACK
            found[f"direction{whose}", "of none"] = whole._replace(held=held)
    name = ("from 0", f"from {_ORIGIN:g} turns", "from opposite")[number % 3]
    if origin is None and result.quantiles and result.direction is not None:
        assert result.direction.value is not None  # otherwise there would be no quantiles
        origin = (result.direction.value + period / 2) % period
    for tau, value in result.quantiles.items():
        assert origin is not None
        where = truth.quantile_above(origin / period, float(tau))
        found["circular quantile", f"{tau} {name}"] = _around(value, where, period)
    _shares(found, one, result, between)
    _bins(found, one, result)
    _mode(found, one, result)
    return found


def _of_users(task: Task, counts: IntArray, level: float) -> Estimate:
    """Return an estimate for the users who reported: their mean or direction, and their spread."""
    survey = Survey.of(task, counts, target="users")
    return wrapped(replace(empty_estimate(task, target="users"), **by_moments(survey, level)), task)


def _line_of(task: Task) -> tuple[float, float]:
    """Return the start and the length of a domain."""
    domain = task.domain
    return (domain.low if isinstance(domain, Interval) else 0.0), domain.length


def _between(one: Case) -> dict[str, tuple[float, float]]:
    """Return the ends of the requested shares, in the unit of the values."""
    low, length = _line_of(one.task)
    return {name: (low + length * a, low + length * b) for name, (a, b) in one.shares.items()}


def _rough(note: str) -> bool:
    return _ROUGH.search(note) is not None


def _answer(value: Value | None, truth: float, scale: float, slack: float = SLACK) -> Answer:
    """Return whether an interval contains a number, up to `slack` of the scale; widths are in this scale."""
    if value is None or value.low is None or value.high is None:
        return Answer(None, math.nan, rough=False)
    held = value.low - slack * scale <= truth <= value.high + slack * scale
    return Answer(held, (value.high - value.low) / scale, _rough(value.note))


def _around(value: Value | None, turns: float, period: float) -> Answer:
    """Return whether an arc contains a place of the circle."""
    ends = None if value is None else value.ends()
    if value is None or ends is None:
        return Answer(None, math.nan, rough=False)
    width = (ends[1] - ends[0]) / period
    held = width >= 1.0 - SLACK or (turns - ends[0] / period + SLACK) % 1.0 <= width + 2 * SLACK
    return Answer(held, width, _rough(value.note))


def _mass(one: Case, low: float, high: float) -> float:
    """Return the mass between two places of the unit domain, both included."""
    circular = isinstance(one.task.domain, Circle)
    return one.truth.arc(low, high) if circular else one.truth.share(low, high)


def _shares(
    found: dict[tuple[str, str], Answer], one: Case, result: Estimate, between: dict[str, tuple[float, float]]
) -> None:
    # Two names may mean one share, which arcwise shows once.
    for name, (low, high) in between.items():
        value = result.share(low, high)
        found["share", name] = _answer(value, _mass(one, *one.shares[name]), 1.0, _SHARE)


def _bins(found: dict[tuple[str, str], Answer], one: Case, result: Estimate) -> None:
    """Compare bins; their names have nine digits, so their ends are replaced by exact k-th parts."""
    low, length = _line_of(one.task)
    lattice, count = one.task.domain.lattice, len(result.bins)
    for name, value in result.bins.items():
        ends = [(float(end) - low) / length for end in name.split(":")]
        parts = count if lattice is None else lattice.steps
        ends = [
            round(end * parts) / parts if abs(end * parts - round(end * parts)) < 1e-6 else end
            for end in ends
        ]
        found["bin", name] = _answer(value, _mass(one, *ends), 1.0, _SHARE)


def _band(one: Case, band: Band) -> Answer:
    low, length = _line_of(one.task)
    grid = low + length * (np.arange(256) + 0.5) / 256
    bounds = np.array([band.bounds(float(x)) for x in grid])
    width = float((bounds[:, 1] - bounds[:, 0]).mean())
    return Answer(holds_everywhere(one, band), width, _rough(band.note))


def holds_everywhere(one: Case, band: Band) -> bool:
    """Return whether a band contains P(X <= x) at every x: at its places, at atoms, and just before atoms.

    Between such places its bounds do not change, and P(X <= x) grows to its value just before the next.
    """
    low, length = _line_of(one.task)
    units = np.array(list(atoms(one.population)), np.float64)
    places = np.asarray(one.task.domain.from_unit(units), np.float64)
    steps = np.append(band.at, places)
    for x in np.unique(np.append(steps, np.nextafter(steps, -np.inf))):
        least, most = band.bounds(float(x))
        # Check exactly at atoms that are floats; next to other atoms, allow a rounding error in favour of the
        # band.
        k = int(np.searchsorted(places, x, "right")) - 1
        here = k >= 0 and places[k] == x
        unit = float(units[k]) if here else (float(x) - low) / length
        if least > one.truth.below(unit) + _SHARE or most < one.truth.below(unit, at=here) - _SHARE:
            return False
    return True


def _mode(found: dict[tuple[str, str], Answer], one: Case, result: Estimate) -> None:
    """Compare the mode's interval: it has to contain a whole window that is as full as any other.

    Mass exactly at a window's ends counts as inside or outside, in favour of the interval, because windows
    overlap.
    """
    value = result.mode
    ends = None if value is None else value.ends()
    if value is None or ends is None:
        return
    windows = _WINDOWS.search(value.method)
    if windows is None:
        return
    low, length = _line_of(one.task)
    count, width = int(windows[1]), float(windows[2]) / length
    circular = isinstance(one.task.domain, Circle)
    starts = np.arange(count) / count if circular else np.linspace(0.0, 1.0 - width, count)
    lattice = one.task.domain.lattice
    edge = SLACK if lattice is None else 0.5 / lattice.steps  # of a value's cell, which may be cut
    most = np.array([_window(one, start - edge, start + width + edge) for start in starts])
    least = np.array([_window(one, start + edge + SLACK, start + width - edge - SLACK) for start in starts])
    first, last = (ends[0] - low) / length, (ends[1] - low) / length
    slack = 1e-3 * width + SLACK
    if circular:
        there = ((starts - first + slack) % 1.0 + width <= last - first + 2 * slack) | (
            last - first >= 1 - SLACK
        )
    else:
        there = (starts >= first - slack) & (starts + width <= last + slack)
    held = bool((there & (most >= least.max() - _SHARE)).any())
    found["mode", ""] = Answer(held, last - first, _rough(value.note))


def _window(one: Case, low: float, high: float) -> float:
    if isinstance(one.task.domain, Circle):
        return one.truth.arc(low % 1.0, low % 1.0 + high - low)
    return one.truth.share(max(low, 0.0), min(high, 1.0))


def _differences(
    found: dict[tuple[str, str], Answer],
    one: Case,
    counts: IntArray,
    users: FloatArray,
    generator: np.random.Generator,
) -> None:
    """Compare differences from the mean of a second, uniform population with half as many devices."""
    domain, mechanism = one.task.domain, one.task.mechanism
    uniform = on_lattice(parse_population("uniform", domain), domain)
    others = uniform.draw(max(users.size // 2, 30), generator)
    second = _counts(one, others, generator)
    pair = counts.astype(np.float64), second.astype(np.float64)
    told = mean_difference(*(Survey(mechanism, each) for each in pair))
    theirs = mean_difference(*(Survey(mechanism, each, target="users") for each in pair))
    apart = float(others.mean() - users.mean())
    length = domain.length
    found["difference of means", ""] = _answer(told, length * (uniform.mean() - one.truth.mean), length)
    found["difference of means of users", ""] = _answer(theirs, length * apart, length)


def _comparisons(
    one: Case, counts: IntArray, number: int, generator: np.random.Generator
) -> dict[tuple[str, str], Answer]:
    """Compare comparisons with a second sample, of the same population or a uniform one in turn.

    The second sample is half as large. Both are also strata of a third population, with the weights 1 and 2.
    """
    task, domain = one.task, one.task.domain
    low, length = _line_of(task)
    circular = isinstance(domain, Circle)
    name = ("same", "uniform")[number % 2]
    other = one.truth if name == "same" else Truth(on_lattice(parse_population("uniform", domain), domain))
    users = other.population.draw(max(int(counts.sum()) // 2, 30), generator)
    second = _counts(one, users, generator)
    bands = number % 4 < 2
    origin = 0.0 if circular else None
    asked = dict(list(one.shares.items())[::2])
    between = _between(one._replace(shares=asked))
    ask: dict[str, Any] = {"between": between.values(), "bands": bands, "origin": origin}
    both = Truth(Mixture([1 / 3, 2 / 3], (one.population, other.population)))
    apart = _numbers(one.truth, other, asked, task)
    truths: dict[str, tuple[Comparison | Estimate, dict[tuple[str, str], float]]] = {
        "difference": (compare_samples(task, counts, second, **ask), apart),
        "reference": (compare_reference(task, counts, other.population, **ask), apart),
        "weighted": (
            post_stratify(task, {"a": counts, "b": second}, {"a": 1.0, "b": 2.0}, **ask),
            _numbers(None, both, asked, task),
        ),
    }
    found: dict[tuple[str, str], Answer] = {}
    for what, (told, true) in truths.items():
        for (kind, which), truth in true.items():
            values = getattr(told, kind)
            if kind == "shares":
                value = told.share(*between[which])
            else:
                value = values.get(which) if which else values
            if kind == "direction":
                answer = _around(value, truth / length, length)
            else:
                scale = 1.0 if kind in {"shares", "resultant_length"} else length
                answer = _answer(value, truth, scale, _SHARE if kind == "shares" else SLACK)
            found[f"{what}: {kind}", f"{which} {name}".strip()] = answer
        if isinstance(told, Comparison):
            if told.cdf:
                found[f"{what}: cdf", name] = _cdf(told.cdf, one.truth, other, low, length)
            assert told.test is not None
            if name == "same":
                held = told.test.p > FIT_LEVEL
                found[f"{what}: test", name] = Answer(held, math.nan, rough=False)
        elif isinstance(told, Estimate) and told.band is not None:
            found[f"{what}: band", name] = _band(
                one._replace(population=both.population, truth=both), told.band
            )
    return found


def _strata(
    one: Case, reports: int, number: int, generator: np.random.Generator
) -> dict[tuple[str, str], Answer]:
    """Compare a population of many strata, of which every other one is uniform, with random weights."""
    task, domain = one.task, one.task.domain
    low, length = _line_of(task)
    count = max(2, min(_STRATA, reports // _STRATUM))
    uniform = on_lattice(parse_population("uniform", domain), domain)
    parts = [(one.population, uniform)[k % 2] for k in range(count)]
    weights = generator.uniform(0.5, 2.0, count)
    both = Truth(Mixture(weights / weights.sum(), tuple(parts)))
    shares = list(one.shares.items())
    one = one._replace(  # a share takes seconds
        population=both.population,
        truth=both,
        shares=dict(shares[(number + k) % len(shares)] for k in (0, len(shares) // 2)),
    )
    between = _between(one)
    counts = {
        str(k): _counts(one, part.draw(reports // count, generator), generator)
        for k, part in enumerate(parts)
    }
    told = post_stratify(
        task, counts, {str(k): float(weight) for k, weight in enumerate(weights)}, between=between.values()
    )
    found = {}
    for name, ends in between.items():
        true = _mass(one, *one.shares[name])
        found["strata: share", name] = _answer(told.share(*ends), true, 1.0, _SHARE)
    if isinstance(domain, Circle):
        found["strata: resultant length", ""] = _answer(told.resultant_length, abs(both.moment), 1.0)
    else:
        found["strata: mean", ""] = _answer(told.mean, low + length * both.mean, length)
    return found


def _numbers(
    first: Truth | None, second: Truth, shares: dict[str, tuple[float, float]], task: Task
) -> dict[tuple[str, str], float]:
    """Return the truth of a second population minus that of a first one, by attribute and key."""
    low, length = _line_of(task)
    circular = isinstance(task.domain, Circle)
    found: dict[tuple[str, str], float] = {}
    for sign, truth in ((1.0, second), (-1.0, first)):
        if truth is None:
            continue
        start = low if first is None else 0.0
        rows: dict[tuple[str, str], float] = {}
        for tau in LEVELS:
            unit = truth.quantile_above(0.0, tau) if circular else truth.quantile(tau)
            rows["quantiles", f"{tau:g}"] = start + length * unit
        for name, (a, b) in shares.items():
            rows["shares", name] = truth.arc(a, b) if circular else truth.share(a, b)
        if circular:
            rows["resultant_length", ""] = abs(truth.moment)
            if min(abs(each.moment) for each in (first or second, second)) >= _SMALLEST:
                rows["direction", ""] = length * math.atan2(truth.moment.imag, truth.moment.real) / math.tau
        else:
            rows["mean", ""] = start + length * truth.mean
        for key, value in rows.items():
            found[key] = found.get(key, 0.0) + sign * value
    return found


def _cdf(differences: Mapping[str, Value], first: Truth, second: Truth, low: float, length: float) -> Answer:
    """Return whether all differences of two distribution functions hold together."""
    held, widths = True, []
    for place, value in differences.items():
        assert value.low is not None
        assert value.high is not None
        unit = (float(place) - low) / length
        apart = second.below(unit) - first.below(unit)
        held &= value.low - _SHARE <= apart <= value.high + _SHARE
        widths.append(value.high - value.low)
    return Answer(held, float(np.mean(widths)), _rough(next(iter(differences.values())).note))


def _counts(one: Case, users: FloatArray, generator: np.random.Generator) -> IntArray:
    """Return the counts of users with these values, on the unit domain, with one report each."""
    domain = one.task.domain
    values = domain.from_unit(users)
    if isinstance(domain, Interval):
        values = np.clip(values, domain.low, domain.high)
    return simulate_counts(one.task, values, users.size, generator, fixed=True)
