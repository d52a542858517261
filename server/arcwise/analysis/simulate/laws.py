"""Populations: their base class, those with a closed form, and those from scipy.stats.

Positions are on the unit domain, [0, 1] or the circle of circumference 1, as `Domain.to_unit` makes them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.integrate import quad_vec
from scipy.special import betainc, ive, ndtr, ndtri

from arcwise.errors import ParameterError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from arcwise.domains import Domain
    from arcwise.typing import FloatArray

_BLOCK = 1 << 20
"""The most sines and cosines per block."""

_SUM = 1e-9
"""Tolerance for the sum of given probabilities, which is then normalised to 1."""

_MOST_TURNS = 1_000
_TAIL = 1e-15
_ERROR = 1e-9
"""Largest error of an integral of the distribution function."""


class Population(ABC):
    """A law of values on the unit domain.

    On a circle the distribution function starts at 0: ``F(x)`` is the mass of [0, x].
    """

    @abstractmethod
    def cdf(self, x: FloatArray) -> FloatArray:
        """Return the mass of [0, x] for each x in [0, 1], any shape."""

    @abstractmethod
    def integrated_cdf(self, x: FloatArray) -> FloatArray:
        """Return the integral of the distribution function from 0 to each x in [0, 1], shape (m,).

        The integral is ``E max(x - X, 0)``. Expectations of piecewise linear functions are differences of
        such integrals. So they give the law of the rounded values without an approximation.
        """

    @abstractmethod
    def draw(self, n: int, generator: np.random.Generator) -> FloatArray:
        """Return n independent values, shape (n,), in [0, 1]."""

    def mean(self) -> float:
        """Return the mean of the values: ``1 - integral of F`` over [0, 1]."""
        return 1.0 - float(self.integrated_cdf(np.ones(1))[0])

    def trigonometric_moment(self) -> complex:
        """Return ``E exp(2 pi i X)``.

        Its argument is the mean direction, and its modulus is the resultant length.

        Integrating by parts, it is ``1 - 2 pi i`` times the integral of ``F(x) exp(2 pi i x)``.
        """

        def integrand(x: float) -> FloatArray:
            turn = np.array([np.cos(2 * np.pi * x), np.sin(2 * np.pi * x)])
            return np.asarray(self.cdf(np.array([x])) * turn)

        (real, imaginary), _ = quad_vec(integrand, 0.0, 1.0, epsabs=1e-12, epsrel=1e-12, limit=2_000)
        return 1.0 - 2j * np.pi * complex(real, imaginary)

    def quantiles(self, levels: ArrayLike) -> FloatArray:
        """Return the smallest x with ``F(x) >= level`` for each level from 0 to 1, accurate to 2**-60."""
        wanted = np.asarray(levels, dtype=np.float64)
        if not np.all((wanted >= 0.0) & (wanted <= 1.0)):
            raise ParameterError(f"levels must be from 0 to 1, got {levels!r}")
        # A mixture's weights may add up to 1 - 2**-53, so that F never reaches the level 1.
        flat = np.minimum(wanted.ravel(), self.cdf(np.ones(1)))
        low, high = np.zeros(flat.shape), np.ones(flat.shape)
        for _ in range(60):
            middle = (low + high) / 2
            reached = self.cdf(middle) >= flat
            high = np.where(reached, middle, high)
            low = np.where(reached, low, middle)
        found: FloatArray = np.where(self.cdf(np.zeros(1)) >= flat, 0.0, high)
        return found.reshape(wanted.shape)


class Histogram(Population):
    """A histogram: mass spread evenly over each of m bins.

    The m+1 edges increase and are in [0, 1]. The m probabilities have the sum 1.
    """

    def __init__(self, edges: ArrayLike, probabilities: ArrayLike) -> None:
        self.edges = np.asarray(edges, dtype=np.float64)
        if self.edges.ndim != 1 or self.edges.size < 2 or not (np.diff(self.edges) > 0).all():
            raise ParameterError(f"edges must be at least two increasing numbers, got {edges!r}")
        if self.edges[0] < 0 or self.edges[-1] > 1:
            raise ParameterError(
                f"edges must be from 0 to 1, got {float(self.edges[0])!r} to {float(self.edges[-1])!r}"
            )
        self.probabilities = _shares(probabilities, self.edges.size - 1, "probabilities")
        self._below = np.append(0.0, np.cumsum(self.probabilities))
        self._below /= self._below[-1]
        trapezoids = np.diff(self.edges) * (self._below[1:] + self._below[:-1]) / 2
        self._integral = np.append(0.0, np.cumsum(trapezoids))

    def cdf(self, x: FloatArray) -> FloatArray:
        """Return the mass of [0, x]."""
        return np.asarray(np.interp(x, self.edges, self._below))

    def integrated_cdf(self, x: FloatArray) -> FloatArray:
        """Return the integral of the distribution function from 0 to x: quadratic in each bin."""
        inside = np.clip(x, self.edges[0], self.edges[-1])
        k = np.clip(np.searchsorted(self.edges, inside, "right") - 1, 0, self.probabilities.size - 1)
        part = (inside - self.edges[k]) * (self._below[k] + self.cdf(inside)) / 2
        above = np.maximum(x - self.edges[-1], 0.0)
        return np.asarray(self._integral[k] + part + above)

    def draw(self, n: int, generator: np.random.Generator) -> FloatArray:
        """Return n independent values."""
        return np.asarray(np.interp(generator.random(n), self._below, self.edges))

    def trigonometric_moment(self) -> complex:
        """Return ``E exp(2 pi i X)``; a bin contributes the value at its middle times ``sinc(width)``."""
        middle, width = (self.edges[1:] + self.edges[:-1]) / 2, np.diff(self.edges)
        return complex((self.probabilities * np.sinc(width)) @ np.exp(2j * np.pi * middle))


class Atoms(Population):
    """Mass at single places from 0 to 1, for example each value of a data file.

    The probabilities have the sum 1. If they are not given, all places are equally likely.
    """

    def __init__(self, places: ArrayLike, probabilities: ArrayLike | None = None) -> None:
        array = np.asarray(places, dtype=np.float64)
        if array.ndim != 1 or not array.size:
            raise ParameterError(f"places must be at least one number, in one dimension; got {array.shape}")
        if not np.all((array >= 0.0) & (array <= 1.0)):
            raise ParameterError(f"places must be from 0 to 1, got {array.min()} to {array.max()}")
        if probabilities is None:
            self.places, counts = np.unique(array, return_counts=True)
            self.probabilities = counts / array.size
            self._below = np.append(0.0, np.cumsum(counts) / array.size)
        else:
            shares = _shares(probabilities, array.size, "probabilities")
            order = np.argsort(array, kind="stable")
            self.places, self.probabilities = array[order], shares[order]
            self._below = np.append(0.0, np.cumsum(self.probabilities))
            self._below /= self._below[-1]
        self._moments = np.append(0.0, np.cumsum(self.places * self.probabilities))

    def cdf(self, x: FloatArray) -> FloatArray:
        """Return the mass of [0, x]."""
        return np.asarray(self._below[np.searchsorted(self.places, x, "right")])

    def integrated_cdf(self, x: FloatArray) -> FloatArray:
        """Return ``E max(x - X, 0)``."""
        k = np.searchsorted(self.places, x, "right")
        return np.asarray(x * self._below[k] - self._moments[k])

    def draw(self, n: int, generator: np.random.Generator) -> FloatArray:
        """Return n independent values."""
        return np.asarray(self.places[np.searchsorted(self._below[1:], generator.random(n), "right")])

    def mean(self) -> float:
        """Return the mean of the values."""
        return float(self.places @ self.probabilities)

    def trigonometric_moment(self) -> complex:
        """Return ``E exp(2 pi i X)``."""
        return complex(self.probabilities @ np.exp(2j * np.pi * self.places))


class Beta(Population):
    """The beta distribution on [0, 1], with parameters from 0.01 to 10**6."""

    def __init__(self, a: float, b: float) -> None:
        for name, value in (("a", a), ("b", b)):
            if not 0.01 <= value <= 1e6:
                raise ParameterError(f"{name} of a beta distribution must be from 0.01 to 1e6, got {value!r}")
        self.a, self.b = float(a), float(b)

    def cdf(self, x: FloatArray) -> FloatArray:
        """Return the regularised incomplete beta function."""
        return np.asarray(betainc(self.a, self.b, x))

    def integrated_cdf(self, x: FloatArray) -> FloatArray:
        """Return ``x F(x) - mean F'(x)``, with F the distribution function and F' that of beta(a+1, b).

        ``E[X; X <= x]`` is the mean times the mass that beta(a+1, b) has up to x.
        """
        mean = self.a / (self.a + self.b)
        return np.asarray(x * self.cdf(x) - mean * betainc(self.a + 1.0, self.b, x))

    def draw(self, n: int, generator: np.random.Generator) -> FloatArray:
        """Return n independent values."""
        return generator.beta(self.a, self.b, n)


class CutNormal(Population):
    """A normal distribution restricted to [0, 1].

    `mean` and `sd`, from 1e-6 to 100, describe the whole normal distribution. `inside` is its mass in [0, 1],
    which must be at least a thousandth.
    """

    def __init__(self, mean: float, sd: float) -> None:
        if not 1e-6 <= sd <= 100:
            raise ParameterError(f"sd of a normal must be from 1e-6 to 100 domain lengths, got {sd!r}")
        self.location, self.sd = float(mean), float(sd)
        self._start = float(ndtr(-self.location / self.sd))
        self.inside = float(ndtr((1.0 - self.location) / self.sd)) - self._start
        if not self.inside >= 1e-3:
            raise ParameterError(
                f"a normal must have at least 0.001 of its mass in the domain, got {self.inside:g}"
            )

    def cdf(self, x: FloatArray) -> FloatArray:
        """Return the mass of [0, x]."""
        share = (ndtr((x - self.location) / self.sd) - self._start) / self.inside
        return np.asarray(np.clip(share, 0.0, 1.0))

    def integrated_cdf(self, x: FloatArray) -> FloatArray:
        """Return the integral of the distribution function, see `integrated_normal`."""
        z, start = (x - self.location) / self.sd, -self.location / self.sd
        whole = self.sd * (integrated_normal(z) - integrated_normal(np.float64(start)))
        return np.asarray((whole - x * self._start) / self.inside)

    def draw(self, n: int, generator: np.random.Generator) -> FloatArray:
        """Return n independent values, by inversion."""
        z = ndtri(self._start + self.inside * generator.random(n))
        return np.asarray(np.clip(self.location + self.sd * z, 0.0, 1.0))


class VonMises(Population):
    """The von Mises distribution on the circle of circumference 1.

    The mean direction is in turns; the concentration kappa is from 0 (uniform) to 10**4 (a standard deviation
    of 0.57 degrees).

    With ``a_k = I_k(kappa) / I_0(kappa)`` the density is
    ``1 + 2 sum_{k >= 1} a_k cos(2 pi k (x - direction))`` (Mardia and Jupp, Directional Statistics, 3.5.4).
    The distribution function is integrated term by term. The a_k fall like ``exp(-k^2 / (2 kappa))``, and
    terms below 2**-60 are left out.
    """

    def __init__(self, direction: float, concentration: float) -> None:
        if not 0 <= concentration <= 1e4:
            raise ParameterError(
                f"concentration of a von Mises distribution must be from 0 to 10000, got {concentration!r}"
            )
        if not np.isfinite(direction):
            raise ParameterError(f"direction must be finite, got {direction!r}")
        self.direction, self.concentration = float(direction) % 1.0, float(concentration)
        k = np.arange(1, int(40 + 10 * np.sqrt(concentration)))
        terms = ive(k, concentration) / ive(0, concentration)
        self._k = 2 * np.pi * k[terms > 2.0**-60]
        self._terms = terms[terms > 2.0**-60]

    def cdf(self, x: FloatArray) -> FloatArray:
        """Return the mass of [0, x]."""
        flat = np.ravel(x)
        sums = self._series(np.sin, 2 * self._terms / self._k, np.append(0.0, flat))
        share = np.clip(flat + sums[1:] - sums[0], 0.0, 1.0)
        return np.asarray(share.reshape(np.shape(x)))

    def integrated_cdf(self, x: FloatArray) -> FloatArray:
        """Return the integral of the distribution function from 0 to x."""
        start = self._series(np.sin, 2 * self._terms / self._k, np.zeros(1))
        waves = self._series(np.cos, 2 * self._terms / self._k**2, np.append(0.0, x))
        return np.asarray(x**2 / 2 - (waves[1:] - waves[0]) - x * start)

    def draw(self, n: int, generator: np.random.Generator) -> FloatArray:
        """Return n independent values."""
        turns = generator.vonmises(0.0, self.concentration, n) / (2 * np.pi) + self.direction
        return np.asarray(np.mod(turns, 1.0))

    def trigonometric_moment(self) -> complex:
        """Return ``E exp(2 pi i X) = I_1 / I_0 exp(2 pi i direction)``."""
        length = ive(1, self.concentration) / ive(0, self.concentration)
        return complex(length * np.exp(2j * np.pi * self.direction))

    def _series(self, wave: np.ufunc, terms: FloatArray, x: FloatArray) -> FloatArray:
        """Return ``sum_k terms_k wave(2 pi k (x - direction))``, in blocks of x."""
        result = np.zeros(x.size)
        step = max(1, _BLOCK // max(self._k.size, 1))
        for start in range(0, x.size, step):
            part = slice(start, start + step)
            result[part] = wave(np.multiply.outer(x[part] - self.direction, self._k)) @ terms
        return result


class WrappedNormal(Population):
    """A normal distribution, modulo 1.

    The mean direction and the standard deviation before wrapping, from 1e-6 to 2, are in turns. A wider
    distribution equals the uniform distribution to 2**-53.
    """

    def __init__(self, direction: float, sd: float) -> None:
        if not 1e-6 <= sd <= 2:
            raise ParameterError(
                f"sd of a normal on a circle must be from 1e-6 to 2 periods, got {sd!r}; "
                "one above 2 is the uniform distribution"
            )
        if not np.isfinite(direction):
            raise ParameterError(f"direction must be finite, got {direction!r}")
        self.direction, self.sd = float(direction) % 1.0, float(sd)
        reach = int(np.ceil(9 * self.sd)) + 1  # beyond this many turns the mass is below 2**-60
        self._turns = np.arange(-reach, reach + 1) - self.direction

    def cdf(self, x: FloatArray) -> FloatArray:
        """Return the mass of [0, x]."""
        mass = ndtr(np.add.outer(x, self._turns) / self.sd) - ndtr(self._turns / self.sd)
        return np.asarray(np.clip(mass.sum(axis=-1), 0.0, 1.0))

    def integrated_cdf(self, x: FloatArray) -> FloatArray:
        """Return the integral of the distribution function from 0 to x."""
        start = np.asarray(self._turns / self.sd, np.float64)
        z: FloatArray = np.add.outer(x, self._turns) / self.sd
        parts = self.sd * np.subtract(integrated_normal(z), integrated_normal(start))
        return np.asarray(parts.sum(axis=-1) - x * ndtr(start).sum())

    def draw(self, n: int, generator: np.random.Generator) -> FloatArray:
        """Return n independent values."""
        return np.asarray(np.mod(generator.normal(self.direction, self.sd, n), 1.0))

    def trigonometric_moment(self) -> complex:
        """Return ``E exp(2 pi i X) = exp(-2 pi^2 sd^2) exp(2 pi i direction)``."""
        return complex(np.exp(-2 * np.pi**2 * self.sd**2 + 2j * np.pi * self.direction))


class Continuous(Population):
    """A frozen continuous distribution of scipy.stats, such as ``scipy.stats.gamma(3, scale=10)``.

    The distribution is in the unit of the domain. On an interval it is restricted to the domain, which must
    contain at least 0.001 of the mass. On a circle values are taken modulo the period, over at most 1,000
    turns.
    """

    def __init__(self, distribution: Any, domain: Domain) -> None:
        if not all(hasattr(distribution, name) for name in ("cdf", "ppf", "rvs")) or hasattr(
            distribution, "pmf"
        ):
            raise ParameterError(
                "distribution must be a frozen continuous distribution of scipy.stats, "
                f"got {type(distribution).__name__}; atoms are made with Atoms"
            )
        self._distribution = distribution
        self._length = domain.length
        self._circular = domain.circular
        self._low = domain.start
        if self._circular:
            ends = [float(distribution.ppf(p)) / self._length for p in (_TAIL, 1.0 - _TAIL)]
            if not ends[1] - ends[0] <= _MOST_TURNS:
                raise ParameterError(
                    f"distribution must reach over at most {_MOST_TURNS} turns of the circle, "
                    f"got {ends[1] - ends[0]:g}"
                )
            self._turns = np.arange(np.floor(ends[0]), np.floor(ends[1]) + 1.0)
        else:
            self._turns = np.zeros(1)
        self._start = self._line(self._turns)
        self._inside = float((self._line(self._turns + 1.0) - self._start).sum())
        if self._inside > 1.0 + _ERROR:
            raise ParameterError(
                f"distribution must have a cdf that ends at 1, got {self._inside:g} in the domain; "
                "scipy.stats.vonmises counts on with every turn: use VonMises instead"
            )
        if not self._inside >= 1e-3:
            raise ParameterError(
                f"distribution must have at least 0.001 of its mass in the domain, got {self._inside:g}"
            )

    def _line(self, x: FloatArray) -> FloatArray:
        return np.asarray(self._distribution.cdf(self._low + self._length * x), dtype=np.float64)

    def cdf(self, x: FloatArray) -> FloatArray:
        """Return the mass of [0, x]."""
        mass = self._line(np.add.outer(x, self._turns)) - self._start
        return np.asarray(np.clip(mass.sum(axis=-1) / self._inside, 0.0, 1.0))

    def integrated_cdf(self, x: FloatArray) -> FloatArray:
        """Return the integral of the distribution function from 0 to x, exact to 1e-9, by quadrature."""
        ends, inverse = np.unique(np.append(0.0, x), return_inverse=True)
        width = np.diff(ends)

        def means(t: float) -> FloatArray:
            return self.cdf(ends[:-1] + t * width)

        if not width.size:
            return np.zeros(np.shape(x))
        # Compute the mean of F over all pieces together: a piece adds at most its width times the error.
        averages, error = quad_vec(means, 0.0, 1.0, epsabs=1e-13, epsrel=0.0, norm="max", limit=200)
        if not error <= _ERROR:
            raise ParameterError(
                f"distribution must have a cdf that can be integrated to {_ERROR:g}; the error is {error:g}"
            )
        integral = np.append(0.0, np.cumsum(averages * width))
        return np.asarray(integral[inverse.ravel()][1:])

    def draw(self, n: int, generator: np.random.Generator) -> FloatArray:
        """Return n independent values: by inversion on an interval, modulo the period on a circle."""
        if self._circular:
            values = np.asarray(self._distribution.rvs(size=n, random_state=generator))
            return np.asarray(np.mod(values / self._length, 1.0))
        values = self._distribution.ppf(self._start[0] + self._inside * generator.random(n))
        return np.asarray(np.clip((values - self._low) / self._length, 0.0, 1.0))


class Mixture(Population):
    """Several populations with shares `weights`, which have the sum 1."""

    def __init__(self, weights: ArrayLike, parts: tuple[Population, ...]) -> None:
        self.parts = tuple(parts)
        self.weights = _shares(weights, len(self.parts), "weights")

    def cdf(self, x: FloatArray) -> FloatArray:
        """Return the mass of [0, x]."""
        return np.asarray(sum(w * part.cdf(x) for w, part in self._weighted()))

    def integrated_cdf(self, x: FloatArray) -> FloatArray:
        """Return the integral of the distribution function from 0 to x."""
        return np.asarray(sum(w * part.integrated_cdf(x) for w, part in self._weighted()))

    def draw(self, n: int, generator: np.random.Generator) -> FloatArray:
        """Return n independent values."""
        sizes = generator.multinomial(n, self.weights).tolist()
        drawn = [part.draw(size, generator) for size, part in zip(sizes, self.parts, strict=True)]
        return generator.permutation(np.concatenate(drawn))

    def trigonometric_moment(self) -> complex:
        """Return ``E exp(2 pi i X)``."""
        return complex(sum(w * part.trigonometric_moment() for w, part in self._weighted()))

    def _weighted(self) -> list[tuple[float, Population]]:
        return list(zip(self.weights.tolist(), self.parts, strict=True))


def integrated_normal(z: FloatArray | np.float64) -> FloatArray:
    """Return the integral of the standard normal distribution function up to z: ``z Phi(z) + phi(z)``."""
    return np.asarray(z * ndtr(z) + np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi))


def _shares(values: ArrayLike, count: int, name: str) -> FloatArray:
    shares = np.asarray(values, dtype=np.float64)
    if shares.shape != (count,):
        raise ParameterError(f"{name} must be {count} numbers, got the shape {shares.shape}")
    if not np.isfinite(shares).all() or shares.min() < 0:
        raise ParameterError(f"{name} must be finite and at least 0, got {shares.min()}")
    total = float(shares.sum())
    if abs(total - 1.0) > _SUM:
        raise ParameterError(f"{name} must sum to 1, got {total:.12g}")
    return shares / total


def rounded(population: Population, places: FloatArray, *, circular: bool) -> Atoms:
    """Return the law of the place nearest to each value; half-way between two, the upper place counts.

    The places, shape (m,), increase on the unit domain; on a circle they are below 1, and the last is next to
    the first.
    """
    shares = _rounded_shares(population, places, circular=circular)
    there = shares > 0  # rounding errors below 0 get no atom
    return Atoms(places[there], shares[there] / shares[there].sum())


def _rounded_shares(population: Population, places: FloatArray, *, circular: bool) -> FloatArray:
    if isinstance(population, Mixture):
        parts = [_rounded_shares(part, places, circular=circular) for part in population.parts]
        return np.asarray(population.weights @ np.array(parts))
    around = np.append(places, places[0] + 1.0) if circular else places
    middles = (around[1:] + around[:-1]) / 2
    if isinstance(population, Atoms):
        # A value within 1e-12 below the midpoint of two places differs from the midpoint only by rounding.
        cells = np.searchsorted(middles, population.places + 1e-12, "right") % places.size
        if circular and middles[-1] >= 1.0:  # the midpoint before the first place is in the next turn
            cells = np.where(population.places + 1e-12 < middles[-1] - 1.0, places.size - 1, cells)
        return np.bincount(cells, population.probabilities, minlength=places.size).astype(np.float64)
    if not circular:
        return np.diff(np.concatenate([[0.0], population.cdf(middles), [1.0]]))
    turn = float(middles[-1] >= 1.0)
    last = float(population.cdf(middles[-1:] - turn)[0]) + turn
    upto = np.append(population.cdf(middles[:-1]), last)
    return np.diff(upto, prepend=last - 1.0)
