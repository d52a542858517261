"""Populations written in a line, such as ``0.3*atom:0 + rest*normal:40,10@5``.

::

    population = part { "+" part }
    part       = [ weight "*" ] kind [ ":" number { "," number } ] [ "@" step ]
    weight     = a number from 0 to 1, or "rest": 1 minus the other weights
    step       = a number: values are its nearest multiples, as ages in years or headings in tens are

Numbers are in the unit of the domain. A single part needs no weight. Several parts need one weight each, with
the sum 1.
"""

from __future__ import annotations

import math
import re
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from arcwise.analysis.simulate.laws import (
    Atoms,
    Beta,
    Continuous,
    CutNormal,
    Histogram,
    Mixture,
    VonMises,
    WrappedNormal,
    rounded,
)
from arcwise.analysis.simulate.populations import CIRCLE, INTERVAL, named_population, uniform
from arcwise.checks import did_you_mean
from arcwise.domains import Circle, Domain, Interval
from arcwise.errors import ParameterError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from arcwise.analysis.simulate.laws import Population

_PLUS = re.compile(r"(?<![0-9.][eE])\+")
"""A plus between parts; it does not match the plus of an exponent such as 1e+3."""

_MOST_PLACES = 1 << 16
"""The most places of a comb, and the most multiples of a step."""


class _Kind(NamedTuple):
    """One kind of part: the names of its numbers, and a function that makes a population from them."""

    numbers: str
    make: Callable[[Domain, Sequence[float]], Population]
    circular: bool | None = None
    """True if this kind is only for circles, False if it is only for intervals, None if it is for both."""


def _position(domain: Domain, number: float) -> float:
    """Return the position of a number on the unit domain; it may be off the lattice, unlike an atom."""
    if domain.circular:
        return number % domain.period / domain.period % 1.0
    return (number - domain.low) / domain.length


def _uniform(domain: Domain, numbers: Sequence[float]) -> Population:
    if not numbers:
        return uniform()
    low, high = numbers
    if domain.circular:
        start, length = _position(domain, low), (high - low) / domain.period
        length = length % 1.0 if low > high else length  # uniform:350,10 goes through 0
        if not length > 0:
            raise ParameterError(
                f"uniform:LOW,HIGH must have two different ends on the circle, got {low:g},{high:g}"
            )
        if length > 1:
            raise ParameterError(f"uniform:LOW,HIGH must span at most {domain.period:g}, got {high - low:g}")
        over = start + length - 1.0
        if over <= 0:
            return Histogram([start, start + length], [1.0])
        if over >= start:  # the whole circle; a float error may make the difference slightly larger
            return uniform()
        return Histogram([0.0, over, start, 1.0], [over / length, 0.0, (length - over) / length])
    if not domain.low <= low < high <= domain.high:
        raise ParameterError(f"uniform:LOW,HIGH must have LOW < HIGH in {domain}, got {low:g},{high:g}")
    return Histogram([_position(domain, low), _position(domain, high)], [1.0])


def _normal(domain: Domain, numbers: Sequence[float]) -> Population:
    mean, sd = numbers
    if domain.circular:
        return WrappedNormal(_position(domain, mean), sd / domain.period)
    return CutNormal(_position(domain, mean), sd / domain.length)


def _atom(domain: Domain, numbers: Sequence[float]) -> Population:
    (place,) = numbers
    if not domain.circular and not domain.low <= place <= domain.high:
        raise ParameterError(f"atom:PLACE must be in {domain}, got {place:g}")
    return Atoms([domain.to_unit(place)])


def _comb(domain: Domain, numbers: Sequence[float]) -> Population:
    first, step, count = numbers
    if not (1 <= count <= _MOST_PLACES and count == int(count) and step > 0):
        raise ParameterError(
            f"comb:FIRST,STEP,COUNT must have a positive step and a whole count from 1 to {_MOST_PLACES}, "
            f"got {step:g} and {count:g}"
        )
    last = first + step * (count - 1)
    if not domain.circular and not domain.low <= first <= last <= domain.high + 1e-9 * step:
        raise ParameterError(f"comb:FIRST,STEP,COUNT must stay in {domain}, got {first:g} to {last:g}")
    places = first + step * np.arange(count)
    return Atoms(domain.to_unit_many(places if domain.circular else places.clip(None, domain.high)))


def _skewed(law: str, names: str, domain: Domain, numbers: Sequence[float]) -> Population:
    from scipy import stats

    scale, shape = numbers
    if not min(numbers) > 0:
        raise ParameterError(f"{names} must be positive, got {scale:g} and {shape:g}")
    return Continuous(getattr(stats, law)(shape, scale=scale), domain)


_KINDS = {
    "uniform": _Kind("LOW,HIGH", _uniform),
    "beta": _Kind("A,B", lambda _, numbers: Beta(*numbers), circular=False),
    "normal": _Kind("MEAN,SD", _normal),
    "vonmises": _Kind(
        "MEAN,KAPPA",
        lambda domain, numbers: VonMises(_position(domain, numbers[0]), numbers[1]),
        circular=True,
    ),
    "lognormal": _Kind("MEDIAN,SIGMA", partial(_skewed, "lognorm", "MEDIAN and SIGMA"), circular=False),
    "pareto": _Kind("LEAST,SHAPE", partial(_skewed, "pareto", "LEAST and SHAPE"), circular=False),
    "atom": _Kind("PLACE", _atom),
    "comb": _Kind("FIRST,STEP,COUNT", _comb),
}


def parse_population(text: str, domain: Domain) -> Population:
    """Return the population that a line describes, in the grammar at the top of this module.

    Kinds: ``uniform`` or ``uniform:LOW,HIGH``; ``atom:PLACE``; ``comb:FIRST,STEP,COUNT``, COUNT equal atoms
    at equal distances; ``normal:MEAN,SD``, restricted to an interval or wrapped around a circle. Only on an
    interval: ``beta:A,B`` over the whole interval; and, restricted to the interval,
    ``lognormal:MEDIAN,SIGMA``, where SIGMA is the standard deviation of the logarithm, and
    ``pareto:LEAST,SHAPE``. Only on a circle: ``vonmises:MEAN,KAPPA``. Every name in `INTERVAL` or `CIRCLE` of
    `arcwise.analysis.simulate.populations` is also allowed. Error messages list the allowed kinds and names.

    Examples
    --------
    >>> from arcwise.domains import Interval
    >>> parse_population("0.25*atom:0 + rest*uniform", Interval(0, 180)).mean()
    0.375
    """
    pieces = [piece.strip() for piece in _PLUS.split(text)]
    weights: list[float | None] = []
    parts = []
    for piece in pieces:
        before, star, after = piece.rpartition("*")
        if star:
            weights.append(_weight(before.strip()))
        elif len(pieces) > 1:
            raise ParameterError(f"several parts need a weight each, such as 0.5*{piece}; got {text!r}")
        else:
            weights.append(1.0)
        parts.append(_part(after.strip(), domain))
    return Mixture(_filled(weights), tuple(parts)) if len(parts) > 1 or weights != [1.0] else parts[0]


def _weight(text: str) -> float | None:
    """Return a weight, or None for "rest"."""
    if text == "rest":
        return None
    weight = _number(text, "a weight")
    if not 0 <= weight <= 1:
        raise ParameterError(f"a weight must be from 0 to 1, or rest; got {text!r}")
    return weight


def _filled(weights: list[float | None]) -> list[float]:
    """Return the weights with "rest" replaced by 1 minus the sum of the other weights."""
    stated = math.fsum(weight for weight in weights if weight is not None)
    rests = weights.count(None)
    if rests > 1:
        raise ParameterError(f"rest must be the weight of one part only, got {rests}")
    if stated > 1 + 1e-9 or (not rests and stated < 1 - 1e-9):
        raise ParameterError(
            f"weights must sum to {'at most ' if rests else ''}1, got {stated:g}; "
            "rest*KIND takes the remaining weight"
        )
    return [max(1.0 - stated, 0.0) if weight is None else weight for weight in weights]


def _part(text: str, domain: Domain) -> Population:
    text, at, step = (piece.strip() for piece in text.partition("@"))
    if at:
        return _multiples(_part(text, domain), _number(step, "a step after @"), domain)
    name, colon, after = (piece.strip() for piece in text.partition(":"))
    circular = domain.circular
    kind = _KINDS.get(name)
    if kind is None:
        if name not in (CIRCLE if circular else INTERVAL) or colon:
            hint = did_you_mean(name, [*_KINDS, *(CIRCLE if circular else INTERVAL)])
            raise ParameterError(f"a part must be one of {allowed(domain)}; got {text!r}{hint}")
        return named_population(name, circular=circular)
    if kind.circular is not None and kind.circular != circular:
        there = ", ".join(name for name, each in _KINDS.items() if each.circular in {None, circular})
        where, here = ("intervals", "a circle") if circular else ("circles", "an interval")
        raise ParameterError(f"{name}:{kind.numbers} is for {where}; on {here} there are {there}")
    numbers = [_number(number.strip(), text) for number in after.split(",")] if colon else []
    wanted = kind.numbers.count(",") + 1
    if len(numbers) != wanted and not (name == "uniform" and not colon):
        raise ParameterError(f"{name} must be written {name}:{kind.numbers}; got {text!r}")
    return kind.make(domain if name == "atom" else _continuous(domain), numbers)


def _continuous(domain: Domain) -> Domain:
    """Return the domain without its step, because the mean and the ends of a law may be off the lattice."""
    return Circle(domain.period) if domain.circular else Interval(domain.low, domain.high)


def _multiples(population: Population, step: float, domain: Domain) -> Population:
    """Return the law of the nearest multiples of a step that are in the domain."""
    if not domain.length / _MOST_PLACES <= step <= domain.length:
        raise ParameterError(
            f"a step after @ must be from {domain.length / _MOST_PLACES:g} to {domain.length:g}, got {step:g}"
        )
    if domain.circular:
        count = round(domain.period / step)
        if abs(count * step - domain.period) > 1e-9 * domain.period:
            raise ParameterError(
                f"a step after @ must divide the period, {domain.period:g}, into whole steps; got {step:g}"
            )
        return rounded(population, np.arange(count) / count, circular=True)
    first, last = math.ceil(domain.low / step - 1e-9), math.floor(domain.high / step + 1e-9)
    places = (step * np.arange(first, last + 1)).clip(domain.low, domain.high)
    return rounded(population, domain.to_unit_many(places), circular=False)


def _number(text: str, where: str) -> float:
    try:
        number = float(text)
    except ValueError:
        raise ParameterError(f"{where} must have numbers, got {text!r}") from None
    if not math.isfinite(number):
        raise ParameterError(f"{where} must have finite numbers, got {text!r}")
    return number


def allowed(domain: Domain) -> str:
    """Return, for messages, the kinds and names that a part may have on this domain."""
    circular = domain.circular
    kinds = [f"{name}:{kind.numbers}" for name, kind in _KINDS.items() if kind.circular in {None, circular}]
    return ", ".join([*kinds, *(CIRCLE if circular else INTERVAL)])
