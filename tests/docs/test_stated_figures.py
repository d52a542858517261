"""Figures in sentences of both pages of mathematics are computed again and compared."""

from __future__ import annotations

import cmath
import math
import re
from collections.abc import Callable, Sequence

import numpy as np
import pytest

from arcwise.analysis.design import designer
from arcwise.analysis.estimators import direction
from arcwise.domains import Circle, Interval
from arcwise.kernels.base import MAX_CODES
from arcwise.kernels.certificate import UNIT
from arcwise.kernels.window import WindowKernel
from arcwise.mechanisms import OptimalCircular, OptimalPiecewise
from arcwise.noise import integer_noise
from arcwise.tasks import Task
from tests.support.figures import REPOSITORY

FOLDER = REPOSITORY / "docs" / "explanation"
MECHANISMS, ESTIMATES = "mathematics.md", "mathematics-of-estimates.md"
NUMBER = r"(?:(\d[\d.]*(?:e-?\d+)?)|\$?(?:([\d.]+) \\cdot )?(\d+)\^\{(-?\d+)\}\$?)"


def unused(epsilon: float) -> float:
    """Return 1/b, as a fraction of e^epsilon, for the widths of OPM on 128 nodes: the largest of both
    domains.
    """
    kernels = (
        OptimalPiecewise(Interval(0, 1), epsilon, nodes=128),
        OptimalCircular(Circle(1), epsilon, nodes=128),
    )
    return max(1 / made.kernel.background for made in kernels)


def widest_unused() -> float:
    return 1 / WindowKernel.fit(nodes=128, window=127, epsilon=20.0, circular=True).background


def bias_of_variance() -> float:
    """Return the largest error of h^2/6, in squared ranges, if all values lie between the same two nodes."""
    h = 1 / (Task("t", Interval(0, 1), 1.0).mechanism.kernel.nodes - 1)
    t = np.linspace(0.0, 1.0, 1001)
    return float(np.abs(t * (1 - t) * h**2 - h**2 / 6).max())


def turned(nodes: int) -> float:
    """Return the largest angle in degrees by which rounding turns the moment of a value between two nodes."""
    step = 2 * math.pi / nodes
    shares = np.linspace(0.0, 1.0, 10_001).tolist()
    return max(math.degrees(abs(cmath.phase((1 - t) + t * cmath.exp(1j * step)) - t * step)) for t in shares)


Compute = Callable[[], Sequence[float]]
CASES: list[tuple[str, str, str, Compute]] = [
    # page, sentence, relation of each # to the computed number (= shown, ^ rounded up, > more), computation
    (
        MECHANISMS,
        r"With the widths of OPM and 128 nodes, $1/b$ is below # up to $\varepsilon = 8$ and # at 20. It is",
        ">^",
        lambda: (max(unused(k / 8) for k in range(1, 65)), unused(20.0)),
    ),
    (MECHANISMS, "at most, # for 128 codes at 20, where a window is nearly", "^", lambda: (widest_unused(),)),
    (MECHANISMS, r"It is solved at $\varepsilon(1 - #)$ and rounded,", "=", lambda: designer._MARGINS[:1]),
    (
        MECHANISMS,
        r"it is solved again at $\varepsilon(1 - #)$, then with # and #.",
        "===",
        lambda: designer._MARGINS[1:],
    ),
    (
        MECHANISMS,
        r"For an $\varepsilon$ above #, arcwise uses the table for #,",
        "==",
        lambda: (designer._LARGEST, designer._LARGEST),
    ),
    (
        MECHANISMS,
        r"smaller by more than # of it. (With a $\delta$ below # this proof is missing.)",
        "==",
        lambda: (integer_noise._EXCESS, integer_noise._LEAST_DELTA),
    ),
    (
        MECHANISMS,
        "Halves to even would break that: # and # are one apart, and would become # and #.",
        "====",
        lambda: (0.5, 1.5, round(0.5), round(1.5)),
    ),
    (
        ESTIMATES,
        "`task show` calls a table unbiased if its bias is below # of the range",
        "=",
        lambda: (designer.LARGEST_BIAS,),
    ),
    (
        ESTIMATES,
        "to $h^2/12$, at most # of the squared range at 128 nodes,",
        "^",
        lambda: (bias_of_variance(),),
    ),
    (
        ESTIMATES,
        "(The leftover, $L < K$ units of #, adds less than #.)",
        "=^",
        lambda: (1 / UNIT, MAX_CODES / UNIT),
    ),
    (
        ESTIMATES,
        "by at most # degrees at $K = 128$, but by # at 8 and # at 4.",
        "^==",
        lambda: (turned(128), turned(8), turned(4)),
    ),
    (
        ESTIMATES,
        r"arcwise never divides by a $\rho_k$ below #.",
        "=",
        lambda: (direction._LEAST_ATTENUATION,),
    ),
]


def shown(page: str, sentence: str) -> list[tuple[float, float]]:
    """Return the numbers of a sentence that a page has once, and the unit of the last digit of each."""
    text = " ".join((FOLDER / page).read_text(encoding="utf-8").split())
    pattern = NUMBER.join(map(re.escape, sentence.split("#")))
    (found,) = re.finditer(pattern, text)
    groups = [found.groups()[i : i + 4] for i in range(0, len(found.groups()), 4)]
    return [number(*each) for each in groups]


def number(plain: str | None, factor: str | None, base: str | None, power: str | None) -> tuple[float, float]:
    """Return a number and the unit of its last digit."""
    digits = plain or factor or "1"
    scale = 1.0 if plain else float(base or 0) ** int(power or 0)
    mantissa, _, exponent = digits.partition("e")
    return float(digits) * scale, 10.0 ** (int(exponent or 0) - len(mantissa.partition(".")[2])) * scale


@pytest.mark.parametrize(
    ("page", "sentence", "relations", "compute"), CASES, ids=[case[1][:40] for case in CASES]
)
def test_a_figure_is_what_is_computed(page: str, sentence: str, relations: str, compute: Compute) -> None:
    stated, computed = shown(page, sentence), compute()
    assert len(stated) == len(computed) == len(relations)
    for (told, unit), truth, relation in zip(stated, computed, relations, strict=True):
        low, high = {"=": (-0.5, 0.5), "^": (0.0, 1.0), ">": (0.0, math.inf)}[relation]
        assert low * unit <= told - truth * (1 - 1e-12) <= high * unit, (told, truth)
