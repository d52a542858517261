"""A fitted node distribution as a histogram in the unit of the domain."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from arcwise.analysis.estimators.result import Distribution
from arcwise.analysis.grid import SINGLE_VALUES, bin_edges, coarse_notes, first_cell, values_of
from arcwise.analysis.likelihood.distribution import FOLDS

if TYPE_CHECKING:
    from arcwise.analysis.estimators.modes import Modes
    from arcwise.analysis.likelihood.em import EMFit
    from arcwise.mechanisms.base import Mechanism
    from arcwise.typing import FloatArray


def histogram(
    mechanism: Mechanism, fitted: EMFit, modes: Modes | None = None, *, method: str | None = None
) -> Distribution:
    """Return a fit as a histogram in the unit of the domain.

    Without `method`, the words for how the fit was made, it is taken to be a fit of `fit_held_out`.
    """
    smoothing = " (averaging iterates smooths)" if method is None else ""
    notes = [
        *coarse_notes(mechanism),
        f"the log-likelihood is within {fitted.gap:.3g} of its largest value{smoothing}",
        "no band: the cells have no intervals of their own",
    ]
    if method is None and fitted.iterations == 0:
        notes.insert(0, "uniform: there are too few reports to hold any out")
    if mechanism.end_zones:
        notes.insert(0, "the first and the last bin are the end zones: their mass is known, its place is not")
    if method is None:
        method = f"EM averaged by {FOLDS}-fold held-out likelihood, {fitted.iterations} steps in the mean"
    probabilities = np.roll(fitted.probabilities, -first_cell(mechanism))
    edges, values = bin_edges(mechanism), values_of(mechanism)
    places: FloatArray | None = None
    mean: float | None = None
    if not mechanism.kernel.circular and not mechanism.end_zones:
        units = mechanism.node_units(np.arange(mechanism.kernel.nodes, dtype=np.float64))
        mean = float(mechanism.domain.from_unit(fitted.probabilities @ units))
        notes.append("fitted_mean is biased towards the middle of the domain, and has no interval")
    if values is not None and not mechanism.end_zones:
        places = mechanism.domain.from_unit(values.units(values.first))
    single = places is not None and len(places) <= SINGLE_VALUES
    return Distribution(
        tuple(mechanism.domain.from_unit(edges).tolist()),
        tuple(probabilities.tolist()),
        method,
        tuple(notes),
        None if places is None else tuple(places.tolist()),
        mean,
        None if modes is None else modes.number,
        mechanism.domain.length / modes.bins if modes and modes.bins and not single else None,
    )
