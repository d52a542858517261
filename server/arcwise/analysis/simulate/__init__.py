"""Counts of simulated devices: up to 10**12 of them, with values from a distribution or from data.

Use them for planning and for coverage studies. The main function is `simulate_counts`. Populations have exact
means, quantiles and trigonometric moments, with which estimates can be compared. Random numbers come from a
`numpy.random.Generator`, so simulated reports are not private.
"""

from __future__ import annotations

from arcwise.analysis.simulate.counts import (
    MAX_DEVICES,
    as_population,
    as_populations,
    code_law,
    multinomial,
    node_law,
    simulate_counts,
)
from arcwise.analysis.simulate.grammar import parse_population
from arcwise.analysis.simulate.laws import (
    Atoms,
    Beta,
    Continuous,
    CutNormal,
    Histogram,
    Mixture,
    Population,
    VonMises,
    WrappedNormal,
)
from arcwise.analysis.simulate.populations import named_population

__all__ = [
    "MAX_DEVICES",
    "Atoms",
    "Beta",
    "Continuous",
    "CutNormal",
    "Histogram",
    "Mixture",
    "Population",
    "VonMises",
    "WrappedNormal",
    "as_population",
    "as_populations",
    "code_law",
    "multinomial",
    "named_population",
    "node_law",
    "parse_population",
    "simulate_counts",
]
