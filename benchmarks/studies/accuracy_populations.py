"""The populations of the studies of accuracy: lines of the population grammar; a new line adds one.

Not a program. Positions are on the unit domain, [0, 1] or the circle of circumference 1; the grammar is that
of `arcwise simulate` (`arcwise.analysis.simulate.grammar`). Places are deliberately not round: an atom at a
node, or an edge at the edge of a bin, would favour methods that have this node or bin.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

__all__ = ["CIRCLE", "INTERVAL", "comb", "lattice"]


def lattice(places: ArrayLike, weights: ArrayLike) -> str:
    """Return the line of atoms at places, with weights of any sum."""
    mass = np.asarray(weights, dtype=np.float64)
    parts = zip((mass / mass.sum()).tolist(), np.asarray(places).tolist(), strict=True)
    return " + ".join(f"{weight!r}*atom:{place!r}" for weight, place in parts)


def comb(teeth: int, width: float, start: float = 0.0) -> str:
    """Return the line of equally likely, equally spaced pieces of a width."""
    lows = (start + np.arange(teeth) / teeth).tolist()
    return " + ".join(f"{1 / teeth!r}*uniform:{low!r},{low + width!r}" for low in lows)


def _modes(kind: str, *modes: tuple[float, float, float]) -> str:
    """Return the line of parts of one kind, each with a weight and two numbers."""
    return " + ".join(f"{weight:g}*{kind}:{place:g},{width:g}" for weight, place, width in modes)


def _bell(values: int, mean: float, sd: float) -> str:
    """Return the line of `values` whole numbers from 0 on, with weights of a normal density."""
    places = np.arange(values) / (values - 1)
    return lattice(places, np.exp(-(((places - mean) / sd) ** 2) / 2) + 1e-9)


def _around(values: int, shift: float, *waves: tuple[int, float, float]) -> str:
    """Return the line of equally spaced places on the circle, with weights ``exp(sum a cos(k x - b))``."""
    places = np.arange(values) / values
    logs = sum(size * np.cos(2 * np.pi * (k * places - phase)) for k, size, phase in waves)
    return lattice((places + shift) % 1.0, np.exp(logs + 0.0 * places))


INTERVAL: dict[str, str] = {
    "uniform": "uniform",
    "near-uniform": "0.9*uniform + 0.1*normal:0.4,0.1",
    "slope": "0.7*uniform + 0.3*beta:2,1",
    "beta25": "beta25",
    "arcsine": "arcsine",
    "normal": "normal:0.55,0.15",
    "narrow-normal": "normal:0.42,0.03",
    "two-bumps": "two-bumps",
    "four-modes": _modes(
        "normal", (0.25, 0.13, 0.03), (0.25, 0.37, 0.04), (0.25, 0.62, 0.03), (0.25, 0.88, 0.04)
    ),
    "sharp-peak": "0.4*normal:0.53,0.008 + 0.6*uniform",
    "heavy-tails": "0.6*normal:0.31,0.015 + 0.3*normal:0.31,0.06 + 0.1*normal:0.31,0.3",
    "skewed": "beta:0.8,9",
    "step": "0.8*uniform:0,0.37 + 0.2*uniform:0.37,1",
    "gap": "0.45*uniform:0,0.34 + 0.55*uniform:0.67,1",
    "two-percent": "uniform:0.613,0.633",
    "comb": comb(10, 0.03, 0.021),
    "atoms-at-ends": "atoms",
    "one-atom": "atom:0.4142",
    "atom-inside": "0.6*atom:0.3137 + 0.4*normal:0.55,0.15",
    "three-atoms": "0.3*atom:0.2137 + 0.2*atom:0.5021 + 0.1*atom:0.7713 + rest*uniform",
    "ratings": lattice(np.arange(5) / 4, [0.1, 0.05, 0.15, 0.3, 0.4]),
    "scores": _bell(11, 0.65, 0.2),
    "ages": _bell(101, 0.38, 0.2),
    "thousand": _bell(1001, 0.3, 0.1),
    "arrival-delays": "arrival-delays",
}
"""By name, on the interval [0, 1]."""

CIRCLE: dict[str, str] = {
    "uniform": "uniform",
    "near-uniform": "vonmises:0.2,0.2",
    "nearly-flat-modes": "0.8*uniform + 0.1*vonmises:0.1,8 + 0.1*vonmises:0.6,8",
    "von-mises": "von-mises",
    "narrow": "vonmises:0.37,40",
    "two-directions": "two-directions",
    "opposite": "0.5*vonmises:0.12,10 + 0.5*vonmises:0.62,10",
    "three-modes": "0.4*vonmises:0.05,15 + 0.35*vonmises:0.37,15 + 0.25*vonmises:0.71,15",
    "four-modes": _modes("vonmises", *((0.25, place, 30) for place in (0.03, 0.28, 0.53, 0.78))),
    "four-unequal": _modes("vonmises", (0.4, 0.07, 30), (0.3, 0.31, 30), (0.2, 0.56, 30), (0.1, 0.83, 30)),
    "sharp-peak": "0.4*normal:0.53,0.008 + 0.6*uniform",
    "heavy-tails": "0.6*vonmises:0.31,200 + 0.3*vonmises:0.31,10 + 0.1*uniform",
    "step": "0.8*uniform:0.11,0.48 + 0.2*uniform:0.48,1.11",
    "gap": "0.45*uniform:0.05,0.31 + 0.55*uniform:0.64,0.93",
    "two-percent": "uniform:0.613,0.633",
    "comb": comb(10, 0.03, 0.021),
    "one-atom": "atom:0.4142",
    "atom-inside": "0.5*atom:0.3137 + 0.5*vonmises:0.7,3",
    "round-angles": lattice([0, 0.25, 0.5, 0.75], [0.4, 0.3, 0.2, 0.1]),
    "equal-angles": lattice([0, 0.25, 0.5, 0.75], [1, 1, 1, 1]),
    "tens-of-degrees": _around(36, 0.0, (1, 1.0, 0.3), (2, 0.6, 0.1)),
    "hours": _around(24, 0.0, (1, 1.5, 0.6), (2, 0.5, 0.8)),
    "degrees": _around(360, 0.0, (1, 2.0, 0.4)),
    "departures": "departures",
    "wind": "wind",
}
"""By name, on the circle of circumference 1."""
