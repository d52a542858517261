"""The populations of studies: named lines of `populations.txt`, and any number drawn at random.

Not a program. ``random:SEED`` is a population drawn from the grammar: any kind of domain, one to four parts
of random kinds, places and widths. These guard against tuning to the list.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

from arcwise.domains import Circle, Domain, Interval

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    Maker: TypeAlias = Callable[[np.random.Generator, float, float, float | None], str]

__all__ = ["LIST", "Named", "domain_of", "random_population", "read", "wanted"]

LIST = Path(__file__).with_name("populations.txt")

_STEPS = (4, 6, 10, 19, 36, 60, 100, 144, 240, 255, 360, 500, 720, 999)
"""Largest size of a random lattice."""


class Named(NamedTuple):
    """A population: its name, its domain and its line, and its section of the list."""

    name: str
    domain: str
    line: str
    section: str = ""


def domain_of(text: str) -> Domain:
    """Return the domain of "0 to 100 by 1" or "circle 360"."""
    bounds, _, step = (part.strip() for part in text.partition(" by "))
    by = float(step) if step else None
    if bounds.startswith("circle "):
        return Circle(float(bounds.removeprefix("circle ")), step=by)
    low, _, high = bounds.partition(" to ")
    return Interval(float(low), float(high), step=by)


def read(path: Path = LIST) -> list[Named]:
    """Return the populations of a list."""
    found, section = [], ""
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith("["):
            section = line.strip("[] ")
        elif line.strip() and not line.startswith("#"):
            name, domain, population = (part.strip() for part in line.split("|"))
            found.append(Named(name, domain, population, section))
    return found


def wanted(names: Iterable[str], path: Path = LIST) -> list[Named]:
    """Return populations by name; ``random:SEED`` is a drawn one, and a name may be that of a section."""
    known = read(path)
    found = []
    for name in names:
        if name.startswith("random:"):
            found.append(random_population(int(name.removeprefix("random:"))))
            continue
        some = [each for each in known if name in {each.name, each.section}]
        if not some:
            names_known = ", ".join(each.name for each in known)
            raise SystemExit(f"a population must be random:SEED or one of {names_known}; got {name!r}")
        found += some
    return list(dict.fromkeys(found))


def random_population(seed: int) -> Named:
    """Return the population that a seed draws."""
    generator = np.random.default_rng([seed, 0x61726377])
    kind = generator.choice(["line", "circle", "lattice", "circular lattice"], p=[0.4, 0.25, 0.2, 0.15])
    circular = kind in {"circle", "circular lattice"}
    low, length = (0.0, float(generator.choice([1, 24, 360]))) if circular else _line(generator)
    step = None
    if "lattice" in kind:
        step, steps = 1.0, int(generator.choice(_STEPS))
        low, length = 0.0 if circular else float(generator.integers(-50, 50)), float(steps)
    domain = f"circle {length:g}" if circular else f"{low:g} to {low + length:g}"
    parts = []
    for _ in range(int(generator.integers(1, 5))):
        makers = _CIRCLE if circular else _LINE
        part = makers[int(generator.integers(len(makers)))](generator, low, length, step)
        # Round values of people: tenths of the domain, twentieths, hundredths.
        if step is None and not part.startswith(("atom", "comb")) and generator.random() < 0.25:
            part += f"@{length / int(generator.choice([10, 20, 72, 100])):.12g}"
        parts.append(part)
    shares = np.round(generator.dirichlet(np.ones(len(parts))), 3)
    weights = [f"{share:.3f}" for share in shares[:-1]] + ["rest"]
    line = " + ".join(f"{weight}*{part}" for weight, part in zip(weights, parts, strict=True))
    return Named(f"random:{seed}", domain if step is None else f"{domain} by 1", line, "random")


def _line(generator: np.random.Generator) -> tuple[float, float]:
    """Return the start and the length of an interval."""
    return ((0.0, 1.0), (0.0, 100.0), (-20.0, 200.0))[int(generator.integers(3))]


def _place(generator: np.random.Generator, low: float, length: float, step: float | None) -> float:
    """Return any place, a value on a lattice; sometimes an end or another round number."""
    unit = float(generator.random())
    if generator.random() < 0.3:
        unit = float(generator.choice([0.0, 0.1, 0.25, 0.5, 0.75, 0.9]))
    place = low + length * unit
    return float(np.floor(place)) if step else float(f"{place:.6g}")


def _width(generator: np.random.Generator, length: float) -> float:
    """Return a width from a thousandth of the domain to a third of it, on a logarithmic scale."""
    return float(f"{length * 10 ** generator.uniform(-3.0, -0.5):.4g}")


def _uniform(generator: np.random.Generator, low: float, length: float, step: float | None) -> str:
    width = _width(generator, length)
    first = low + float(generator.random()) * (length - width)
    if step:
        first, width = float(np.floor(first)), max(float(np.floor(width)), 1.0)
    return f"uniform:{first:.9g},{first + width:.9g}"


def _normal(generator: np.random.Generator, low: float, length: float, step: float | None) -> str:
    return f"normal:{_place(generator, low, length, step):g},{_width(generator, length):g}"


def _atom(generator: np.random.Generator, low: float, length: float, step: float | None) -> str:
    return f"atom:{_place(generator, low, length, step):g}"


def _comb(generator: np.random.Generator, low: float, length: float, step: float | None) -> str:
    count = int(generator.integers(2, 21))
    apart = length / count if step is None else max(float(int(length / count)), 1.0)
    count = min(count, int(length / apart))
    first = low + (float(generator.random()) * apart if step is None else 0.0)
    apart *= 1.0 - 1e-9 if step is None else 1.0
    return f"comb:{first:.9g},{apart:.9g},{count}"


def _beta(generator: np.random.Generator, low: float, length: float, step: float | None) -> str:
    del low, length, step
    a, b = (10 ** generator.uniform(-0.5, 1.3, 2)).tolist()
    return f"beta:{a:.3g},{b:.3g}"


def _heavy(generator: np.random.Generator, low: float, length: float, step: float | None) -> str:
    if low + length <= 0:
        return _uniform(generator, low, length, step)
    start = max(low, 0.0)
    scale = start + (low + length - start) * 10 ** generator.uniform(-2.0, -0.5)
    if generator.random() < 0.5:
        return f"lognormal:{scale:.4g},{generator.uniform(0.3, 1.5):.3g}"
    return f"pareto:{scale:.4g},{generator.uniform(0.8, 3.0):.3g}"


def _von_mises(generator: np.random.Generator, low: float, length: float, step: float | None) -> str:
    kappa = 10 ** generator.uniform(-1.0, 3.0)
    return f"vonmises:{_place(generator, low, length, step):g},{kappa:.3g}"


def _whole(generator: np.random.Generator, low: float, length: float, step: float | None) -> str:
    del generator, low, length, step
    return "uniform"


_LINE: list[Maker] = [_uniform, _normal, _normal, _atom, _comb, _beta, _heavy, _whole]
_CIRCLE: list[Maker] = [_uniform, _normal, _von_mises, _von_mises, _atom, _comb, _whole]
