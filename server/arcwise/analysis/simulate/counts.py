"""Counts of any number of devices, drawn from one multinomial law over the codes instead of a loop.

If the values of devices are drawn independently from one population, the codes are independent and have the
same law: the law of the node to which a value of the population is rounded, multiplied by the rows of the
kernel. So the counts are multinomial.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from arcwise.analysis.counts import mechanism_of
from arcwise.analysis.grid import values_of
from arcwise.analysis.likelihood.linear_maps import code_laws
from arcwise.analysis.simulate.grammar import parse_population
from arcwise.analysis.simulate.laws import Atoms, Continuous, Mixture, Population
from arcwise.analysis.threads import one_thread
from arcwise.checks import checked_bool, checked_integer, explained
from arcwise.errors import ParameterError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from arcwise.domains import Domain
    from arcwise.mechanisms.base import Mechanism
    from arcwise.tasks import Task
    from arcwise.typing import FloatArray, IntArray

MAX_DEVICES = 10**12
"""Largest n for numpy's binomial sampler: at larger n its float comparisons of logarithms are inexact."""

_CELLS = 1 << 22
"""Entries of the rows that are expanded per block."""


@one_thread()
@explained
def simulate_counts(
    task: Task | Mechanism,
    population: Population | ArrayLike | str | Any,
    n: int,
    generator: np.random.Generator,
    *,
    fixed: bool = False,
) -> IntArray:
    """Draw the number of reports with each code from n simulated devices.

    Parameters
    ----------
    task
        A task, or a mechanism.
    population
        The distribution of the devices' values: a `Population`; a line for `parse_population`; a frozen
        continuous distribution of scipy.stats; or an array of values in the unit of the domain.
    n
        Number of devices, with one report each, from 1 to 10**12.
    generator
        A generator for simulations. Real devices use the operating system's randomness.
    fixed
        Whether the devices' values are fixed: each value of an array belongs to the same number of devices,
        and only the devices' randomness varies. This needs an array of values, and an n that is a multiple of
        their number. If false, the devices' values are independent draws.

    Returns
    -------
    numpy.ndarray
        Shape (K,), int64, with the sum n.

    Raises
    ------
    ParameterError
        If an argument is out of its bounds.
    DomainError
        If a value is not in the domain.

    Examples
    --------
    >>> from arcwise.domains import Circle
    >>> from arcwise.mechanisms import OptimalCircular
    >>> mechanism = OptimalCircular(Circle(360), 1.0)
    >>> int(simulate_counts(mechanism, "vonmises:90,2", 10**12, np.random.default_rng(1)).sum())
    1000000000000
    """
    mechanism = mechanism_of(task)
    n = checked_integer("n", n, 1, MAX_DEVICES)
    if not isinstance(generator, np.random.Generator):
        raise ParameterError(f"generator must be a numpy.random.Generator, got {generator!r}")
    if not checked_bool("fixed", fixed):
        law = code_law(mechanism, as_population(population, mechanism.domain))
        return multinomial(np.int64(n), law, generator)
    if isinstance(population, (Population, str)) or hasattr(population, "cdf"):
        raise ParameterError("fixed must come with an array of values, each of the same number of devices")
    unit = mechanism.domain.to_unit_many(population).ravel()
    if not unit.size or n % unit.size:
        raise ParameterError(f"n must be a multiple of the {unit.size} values when they are fixed, got {n!r}")
    return _fixed_counts(mechanism, unit, n // unit.size, generator)


def as_population(population: Population | ArrayLike | str | Any, domain: Domain) -> Population:
    """Return a population, in any form that `simulate_counts` takes, as a `Population` on the domain."""
    if isinstance(population, Population):
        return population
    if isinstance(population, str):
        return parse_population(population, domain)
    if hasattr(population, "cdf"):
        return Continuous(population, domain)
    return Atoms(domain.to_unit_many(population).ravel())


def as_populations(population: Any, domain: Domain) -> tuple[Population, ...]:
    """Return one population, or each population of a list or tuple, as `Population` on the domain.

    A list or tuple of lines and `Population` objects means several populations with equal weights. Anything
    else that `simulate_counts` takes is one population.
    """
    if not isinstance(population, (list, tuple)) or not all(
        isinstance(each, (str, Population)) for each in population
    ):
        return (as_population(population, domain),)
    if not population:
        raise ParameterError("population must have at least one line, got none")
    return tuple(as_population(each, domain) for each in population)


def node_law(mechanism: Mechanism, population: Population) -> FloatArray:
    """Return the law of the node to which a value of the population is rounded, shape (N,).

    A value between two nodes goes to each node with the weight of the node's hat function, so a node's
    probability is the expectation of its hat function. Integrate by parts: the probability is the mean of the
    distribution function between the node and the next node, minus its mean between the previous node and the
    node. Both means are differences of the integrated function.

    On a lattice, each value of a continuous population is replaced by the nearest lattice value, because
    devices have no other values.
    """
    if isinstance(population, Mixture):
        laws = [node_law(mechanism, part) for part in population.parts]
        return np.asarray(population.weights @ np.array(laws))
    if isinstance(population, Atoms):
        below, fraction = _rounding(mechanism, population.places)
        mass = population.probabilities
        return _at_nodes(mechanism, below, mass * (1.0 - fraction)) + _at_nodes(
            mechanism, below + 1, mass * fraction
        )
    circular = mechanism.kernel.circular
    values = values_of(mechanism)
    if values is not None:
        bounds = (np.arange(values.steps + 1) - (0.5 if circular else -0.5)) / values.steps
        upto = population.cdf(np.clip(bounds, 0.0, 1.0))
        if circular:  # half of the cell of 0 is before 0, at the end of the turn
            shares = np.diff(upto)
            shares[0] += 1.0 - upto[-1]
        else:
            shares = np.diff(np.append(upto[:-1], 1.0), prepend=0.0)
        at_places = mechanism.place_nodes(np.arange(values.size, dtype=np.float64))
        return _at_nodes(mechanism, at_places.astype(np.int64), shares)
    at = mechanism.node_units(np.arange(mechanism.kernel.nodes + circular, dtype=np.float64))
    if circular:
        turns = np.floor(at)
        once = population.integrated_cdf(np.append(at - turns, 1.0))
        # F(x + 1) = F(x) + 1 extends the integral to other turns.
        integral = once[:-1] + turns * (once[-1] + at - turns) + turns * (turns - 1.0) / 2
        means = np.diff(integral) / np.diff(at)
        law = np.diff(means, prepend=means[-1] - 1.0)
    else:
        means = np.diff(population.integrated_cdf(at)) / np.diff(at)
        law = np.diff(means, prepend=0.0, append=1.0)
    law = np.maximum(law, 0.0)  # differences may have rounding errors below 0
    return np.asarray(law / law.sum())


def code_law(mechanism: Mechanism, population: Population) -> FloatArray:
    """Return the law of the report of a device with a value drawn from the population, shape (K,)."""
    law = code_laws(mechanism.kernel, node_law(mechanism, population)[None, :])[0]
    return np.asarray(law / law.sum())


def multinomial(n: ArrayLike, weights: ArrayLike, generator: np.random.Generator) -> IntArray:
    """Draw multinomial counts, shape (..., K), for totals n, shape (...), and weights of any sum, (..., K).

    Totals are split along a binary tree by binomial draws. `numpy.random.Generator.multinomial` uses a
    running sum instead: if the last codes are rare, its remainder after K subtractions is mostly rounding
    error. In the tree, the sum of each half is exact to a few units in the last place, and each binomial draw
    is for the smaller half.
    """
    leaves = np.asarray(weights, dtype=np.float64)
    codes = leaves.shape[-1]
    depth = max(codes - 1, 0).bit_length()
    padding = np.zeros((*leaves.shape[:-1], 2**depth - codes))
    levels = [np.concatenate([leaves, padding], axis=-1)]
    for _ in range(depth):
        levels.append(levels[-1][..., ::2] + levels[-1][..., 1::2])
    drawn = np.broadcast_to(np.asarray(n, dtype=np.int64)[..., None], levels[-1].shape)
    for level in reversed(levels[:-1]):
        first, second = level[..., ::2], level[..., 1::2]
        whole = first + second
        share = np.divide(np.minimum(first, second), whole, out=np.zeros(whole.shape), where=whole > 0)
        smaller = generator.binomial(drawn, share)
        ones = np.where(first <= second, smaller, drawn - smaller)
        drawn = np.stack([ones, drawn - ones], axis=-1).reshape(level.shape)
    return np.array(drawn[..., :codes])


def _rounding(mechanism: Mechanism, unit: FloatArray) -> tuple[IntArray, FloatArray]:
    """Return the node below each position, and the probability of the node above."""
    position = mechanism.positions(unit)
    below = position.astype(np.int64)
    return below, position - below


def _at_nodes(mechanism: Mechanism, nodes: IntArray, weights: FloatArray) -> FloatArray:
    """Return the sum of the weights at each node; the node after the last is node 0, or has no weight."""
    sums = np.asarray(np.bincount(nodes, weights, minlength=mechanism.kernel.nodes + 1), np.float64)
    if mechanism.kernel.circular:
        sums[0] += sums[-1]
    return sums[:-1]


def _fixed_counts(
    mechanism: Mechanism, unit: FloatArray, devices: int, generator: np.random.Generator
) -> IntArray:
    """Draw the counts of `devices` devices at each position: round up binomially, then draw from the rows."""
    kernel = mechanism.kernel
    below, fraction = _rounding(mechanism, unit)
    up = generator.binomial(devices, fraction)
    # Sums of whole numbers up to 10**12 are exact in floats.
    reports = _at_nodes(mechanism, below, (devices - up).astype(np.float64))
    reports += _at_nodes(mechanism, below + 1, up.astype(np.float64))
    used = np.flatnonzero(reports)
    totals = reports[used].astype(np.int64)
    counts = np.zeros(kernel.codes, np.int64)
    if devices * unit.size < used.size * kernel.codes:  # fewer reports than binomials: draw each report
        nodes = np.repeat(used, totals).astype(np.uint32)
        u = generator.integers(2**64, size=nodes.size, dtype=np.uint64)
        return np.bincount(kernel.sample_many(nodes, u), minlength=kernel.codes).astype(np.int64)
    step = max(1, _CELLS // kernel.codes)
    for start in range(0, used.size, step):
        part = slice(start, start + step)
        counts += multinomial(totals[part], kernel.probabilities(used[part]), generator).sum(axis=0)
    return counts
