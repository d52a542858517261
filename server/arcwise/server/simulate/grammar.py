"""Populations written in a line, such as ``0.3*atom:0 + rest*normal:40,10``.

::

    population = part { "+" part }
    part       = [ weight "*" ] kind [ ":" number { "," number } ]
    weight     = a number from 0 to 1, or "rest": what the other weights leave of 1

Numbers are in the unit of the domain. A single part needs no weight; several need one each, with the sum 1.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, NamedTuple

from arcwise.domains import Circle, Domain, Interval
from arcwise.errors import ParameterError
from arcwise.server.simulate.circular import VonMises, WrappedNormal
from arcwise.server.simulate.laws import Atoms, Beta, CutNormal, Histogram, Mixture
from arcwise.server.simulate.populations import CIRCLE, INTERVAL, named_population, uniform

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from arcwise.server.simulate.base import Population

__all__ = ["allowed", "parse_population"]

_PLUS = re.compile(r"(?<![0-9.][eE])\+")
"""A plus between parts, not that of an exponent such as 1e+3."""


class _Kind(NamedTuple):
    """One kind of part: what its numbers are called, and how it is made of them."""

    numbers: str
    make: Callable[[Domain, Sequence[float]], Population]


def _uniform(domain: Domain, numbers: Sequence[float]) -> Population:
    if not numbers:
        return uniform()
    low, high = numbers
    if isinstance(domain, Circle):
        start, length = domain.to_unit(low), (high - low) / domain.period
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
        if over >= start:  # all around; float error could make it more
            return uniform()
        return Histogram([0.0, over, start, 1.0], [over / length, 0.0, (length - over) / length])
    if not domain.low <= low < high <= domain.high:
        raise ParameterError(f"uniform:LOW,HIGH must have LOW < HIGH in {domain}, got {low:g},{high:g}")
    return Histogram([domain.to_unit(low), domain.to_unit(high)], [1.0])


def _beta(domain: Domain, numbers: Sequence[float]) -> Population:
    if isinstance(domain, Circle):
        raise ParameterError("beta:A,B is for intervals; on a circle there are vonmises and normal")
    return Beta(*numbers)


def _normal(domain: Domain, numbers: Sequence[float]) -> Population:
    mean, sd = numbers
    if isinstance(domain, Circle):
        return WrappedNormal(domain.to_unit(mean), sd / domain.period)
    return CutNormal((mean - domain.low) / domain.length, sd / domain.length)


def _von_mises(domain: Domain, numbers: Sequence[float]) -> Population:
    if isinstance(domain, Interval):
        raise ParameterError("vonmises:MEAN,KAPPA is for circles; on an interval there are normal and beta")
    return VonMises(domain.to_unit(numbers[0]), numbers[1])


def _atom(domain: Domain, numbers: Sequence[float]) -> Population:
    (place,) = numbers
    if isinstance(domain, Interval) and not domain.low <= place <= domain.high:
        raise ParameterError(f"atom:PLACE must be in {domain}, got {place:g}")
    return Atoms([domain.to_unit(place)])


_KINDS = {
    "uniform": _Kind("LOW,HIGH", _uniform),
    "beta": _Kind("A,B", _beta),
    "normal": _Kind("MEAN,SD", _normal),
    "vonmises": _Kind("MEAN,KAPPA", _von_mises),
    "atom": _Kind("PLACE", _atom),
}


def parse_population(text: str, domain: Domain) -> Population:
    """Return the population that a line describes, see the top of this module.

    Kinds: ``uniform`` or ``uniform:LOW,HIGH``; ``atom:PLACE``; ``normal:MEAN,SD``, given that it is in the
    domain, or wrapped around a circle; ``beta:A,B`` over an interval; ``vonmises:MEAN,KAPPA`` on a circle;
    and every name in `INTERVAL` or `CIRCLE` of `arcwise.server.simulate.populations`.

    Raises
    ------
    ParameterError
        When the line is no population on the domain; the message says what is allowed.

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
    """Return the weights with "rest" replaced by what the others leave."""
    stated = math.fsum(weight for weight in weights if weight is not None)
    rests = weights.count(None)
    if rests > 1:
        raise ParameterError(f"rest must stand before one part only, got {rests}")
    if stated > 1 + 1e-9 or (not rests and stated < 1 - 1e-9):
        raise ParameterError(
            f"weights must sum to {'at most ' if rests else ''}1, got {stated:g}; "
            "rest*KIND takes what the others leave"
        )
    return [max(1.0 - stated, 0.0) if weight is None else weight for weight in weights]


def _part(text: str, domain: Domain) -> Population:
    name, colon, after = (piece.strip() for piece in text.partition(":"))
    circular = isinstance(domain, Circle)
    kind = _KINDS.get(name)
    if kind is None:
        if name not in (CIRCLE if circular else INTERVAL) or colon:
            raise ParameterError(f"a part must be one of {allowed(domain)}; got {text!r}")
        return named_population(name, circular=circular)
    numbers = [_number(number.strip(), text) for number in after.split(",")] if colon else []
    wanted = kind.numbers.count(",") + 1
    if len(numbers) != wanted and not (name == "uniform" and not colon):
        raise ParameterError(f"{name} must be written {name}:{kind.numbers}; got {text!r}")
    return kind.make(domain if name == "atom" else _continuous(domain), numbers)


def _continuous(domain: Domain) -> Domain:
    """Return the domain without its step: the mean and the ends of a law need not be values."""
    return Circle(domain.period) if isinstance(domain, Circle) else Interval(domain.low, domain.high)


def _number(text: str, where: str) -> float:
    try:
        number = float(text)
    except ValueError:
        raise ParameterError(f"{where} must have numbers, got {text!r}") from None
    if not math.isfinite(number):
        raise ParameterError(f"{where} must have finite numbers, got {text!r}")
    return number


def allowed(domain: Domain) -> str:
    """Return the kinds and names that can stand in a part on this domain, for messages."""
    circular = isinstance(domain, Circle)
    left_out = "beta" if circular else "vonmises"
    kinds = [f"{name}:{kind.numbers}" for name, kind in _KINDS.items() if name != left_out]
    return ", ".join([*kinds, *(CIRCLE if circular else INTERVAL)])
