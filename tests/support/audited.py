"""Mechanisms for audits: correct ones of arcwise and of the field, and some that are wrong on purpose.

Functions with a parameter `rng` take arrays. All others take one value and draw from `random`.
"""

from __future__ import annotations

import math
import random
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from arcwise.domains import Circle, Domain, Interval
from arcwise.noise import GridNoise, Laplace
from arcwise.randomness import InsecureSeededRandomness
from arcwise.tasks import Group, Task
from tests.support.strategies import EXAMPLES

if TYPE_CHECKING:
    from collections.abc import Callable

    from arcwise.typing import FloatArray

__all__ = ["RIGHT", "WRONG", "Audited", "right"]

UNIT = Interval(0.0, 1.0)
STARS = Interval(1.0, 5.0, step=1.0)
EPSILON = 1.0


class Audited(NamedTuple):
    """A mechanism with its claim; epsilon is None if the mechanism itself states its claim."""

    mechanism: object
    domain: Domain | None = None
    epsilon: float | None = None
    vectorised: bool = False


def integer_laplace(value: float) -> int:
    """Add a difference of two geometric numbers, drawn from integers, to the value in eighths."""
    steps = round(8 * value)
    return steps + _geometric(8) - _geometric(8)


def _geometric(scale: int) -> int:
    """Return the number of tails before the first head of a coin with probability e^(-1/scale) of tails."""
    count = 0
    while random.random() < math.exp(-1.0 / scale):
        count += 1
    return count


def warner(value: float) -> str:
    """Answer truthfully with the probability e / (1 + e) [Warner 1965]."""
    truth = value >= 0.5
    return "yes" if truth == (random.random() < math.e / (1 + math.e)) else "no"


def words(value: float) -> tuple[str, int]:
    """Randomise a named number of stars, from one to five."""
    stars = int(value)
    if random.random() >= math.e / (math.e + 4):
        stars = random.choice([each for each in range(1, 6) if each != stars])
    return "stars", stars


def snapping(values: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Add Laplace noise and round to multiples of 1, then clamp: the snapping mechanism [Mironov 2012]."""
    noisy = values + rng.choice([-1.0, 1.0], values.shape) * np.log(rng.random(values.shape))
    snapped: FloatArray = np.round(noisy).clip(-20.0, 20.0)
    return snapped + 0.0


def rounded_laplace(values: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Add Laplace noise and round to a grid that is far coarser than any double."""
    return np.round((values + rng.laplace(0.0, 1.0, values.shape)) * 1024) / 1024 + 0.0


def two_answers(values: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Randomise two halves of the budget: an answer of Warner's and one of a die, as rows of integers."""
    truths = values >= 0.5
    answers = [truths ^ (rng.random(values.shape) >= _HALF) for _ in range(2)]
    return np.stack(answers, axis=1).astype(np.int64)


_HALF = math.exp(0.5) / (1.0 + math.exp(0.5))


@cache
def _grid() -> GridNoise:
    return GridNoise.from_noise(Laplace(1.0), step=2.0**-10)


def grid_noise(values: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Add integer noise on a grid to the value as a whole number of steps."""
    steps = np.rint(values * 1024).astype(np.int64)
    randomness = InsecureSeededRandomness(int(rng.integers(2**63)))
    return (steps + _grid().draw_many(values.size, randomness=randomness)) / 1024


def coin(_value: float) -> float:
    """Return a coin flip, independent of the value."""
    return random.random()


def naive_laplace(values: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Add numpy's Laplace noise, as most libraries did: right over the reals, and not over doubles."""
    return values + rng.laplace(0.0, 1.0, values.shape)


def wrong_scale(values: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Add noise with three quarters of the scale that it needs."""
    return np.round((values + rng.laplace(0.0, 0.75, values.shape)) * 1024) / 1024 + 0.0


def wrong_in_one_place(values: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Add noise that is too small on one side, for values between 0.6 and 0.65."""
    noise = rng.laplace(0.0, 1.0, values.shape)
    noise = np.where((values > 0.6) & (values < 0.65) & (noise < 0.0), 0.7 * noise, noise)
    return np.round((values + noise) * 1024) / 1024 + 0.0


def rarely_the_value(values: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Return the value itself once in 100 times."""
    return np.where(rng.random(values.shape) < 0.01, values, rounded_laplace(values, rng))


def wrong_word(value: float) -> str:
    """Answer "unknown", once in 100 times, only if the value is large."""
    return "unknown" if value > 0.9 and random.random() < 0.01 else warner(value)


def raw_sum(value: float) -> float:
    """Add two naive uniform numbers, whose sum reaches only from the value to 2 above it."""
    return value + random.random() + random.random()


def _task(domain: Domain, epsilon: float, goal: str | None = None) -> Audited:
    return Audited(Task("audited", domain, epsilon, goal=goal))


def _group(sample: int | None) -> Audited:
    domains: dict[str, Domain] = {"one": UNIT, "two": Circle(24.0), "stars": STARS}
    return Audited(Group.share_budget("both", domains, 2.0, sample=sample))


RIGHT: dict[str, Callable[[], Audited]] = {
    "task: distribution": lambda: _task(UNIT, 1.0),
    "task: distribution, epsilon 4": lambda: _task(UNIT, 4.0),
    "task: value": lambda: _task(UNIT, 1.0, "value"),
    "task: direction": lambda: _task(Circle(360.0), 1.0),
    "task: distribution on a circle": lambda: _task(Circle(360.0), 2.0, "distribution"),
    "task: stars": lambda: _task(STARS, 1.0),
    "task: hours": lambda: _task(Circle(24.0, step=1.0), 1.0),
    "group: every task": lambda: _group(None),
    "group: one task of three": lambda: _group(1),
    "integer Laplace": lambda: Audited(integer_laplace, Interval(0.0, 1.0, step=0.125), EPSILON),
    "Warner": lambda: Audited(warner, UNIT, EPSILON),
    "words": lambda: Audited(words, STARS, EPSILON),
    "snapping": lambda: Audited(snapping, UNIT, EPSILON, vectorised=True),
    "rounded Laplace": lambda: Audited(rounded_laplace, UNIT, EPSILON, vectorised=True),
    "noise on a grid": lambda: Audited(grid_noise, UNIT, EPSILON, vectorised=True),
    "two answers": lambda: Audited(two_answers, UNIT, EPSILON, vectorised=True),
    "nothing of the value": lambda: Audited(coin, UNIT, 0.0),
}
"""Mechanisms that keep their claims, by name: every kind of task, and others than arcwise's."""

WRONG = {
    "float Laplace": Audited(naive_laplace, UNIT, EPSILON, vectorised=True),
    "wrong scale": Audited(wrong_scale, UNIT, EPSILON, vectorised=True),
    "wrong in one place": Audited(wrong_in_one_place, UNIT, EPSILON, vectorised=True),
    "rarely the value": Audited(rarely_the_value, UNIT, EPSILON, vectorised=True),
    "wrong word": Audited(wrong_word, UNIT, EPSILON),
    "sum of two": Audited(raw_sum, UNIT, EPSILON),
}
"""Mechanisms that do not keep their claims."""


def right(epsilon: float = EPSILON) -> dict[str, Callable[[], Audited]]:
    """Return `RIGHT` and, at an epsilon, the first example of each mechanism of the registry."""
    registered = {
        examples[0].label: (lambda make=examples[0].make: Audited(make(epsilon)))
        for examples in EXAMPLES.values()
    }
    return registered | RIGHT
