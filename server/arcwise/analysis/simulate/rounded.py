"""Populations of rounded values: what is left of a law where people give whole years or tens of degrees."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from arcwise.analysis.simulate.laws import Atoms, Mixture

if TYPE_CHECKING:
    from arcwise.analysis.simulate.base import Population
    from arcwise.typing import FloatArray


__all__ = ["rounded"]


def rounded(population: Population, places: FloatArray, *, circular: bool) -> Atoms:
    """Return the law of the place nearest to each value; half-way between two it is the one above.

    Parameters
    ----------
    population
        On the unit domain.
    places
        Shape (m,), increasing, from 0 to 1; on a circle below 1, and the last is next to the first.
    circular
        Whether the domain is a circle.
    """
    shares = _shares(population, places, circular=circular)
    there = shares > 0  # rounding errors below 0 have no atom
    return Atoms(places[there], shares[there] / shares[there].sum())


def _shares(population: Population, places: FloatArray, *, circular: bool) -> FloatArray:
    if isinstance(population, Mixture):
        parts = [_shares(part, places, circular=circular) for part in population.parts]
        return np.asarray(population.weights @ np.array(parts))
    around = np.append(places, places[0] + 1.0) if circular else places
    middles = (around[1:] + around[:-1]) / 2
    if isinstance(population, Atoms):
        # What is 1e-12 below the middle is there but for the rounding of floats.
        cells = np.searchsorted(middles, population.places + 1e-12, "right") % places.size
        if circular and middles[-1] >= 1.0:  # the middle before the first place lies beyond the turn
            cells = np.where(population.places + 1e-12 < middles[-1] - 1.0, places.size - 1, cells)
        return np.bincount(cells, population.probabilities, minlength=places.size).astype(np.float64)
    if not circular:
        return np.diff(np.concatenate([[0.0], population.cdf(middles), [1.0]]))
    turn = float(middles[-1] >= 1.0)
    last = float(population.cdf(middles[-1:] - turn)[0]) + turn
    upto = np.append(population.cdf(middles[:-1]), last)
    return np.diff(upto, prepend=last - 1.0)
