"""Counts of devices that do not exist: any number of them up to 10**12, from a distribution or from data.

For planning and for coverage studies. `simulate_counts` is the whole of it; populations have exact means,
quantiles and trigonometric moments to compare estimates with. The random numbers are those of a
`numpy.random.Generator`: nothing here is a private report.
"""

from __future__ import annotations

from arcwise.server.simulate.base import Population
from arcwise.server.simulate.circular import VonMises, WrappedNormal
from arcwise.server.simulate.continuous import Continuous
from arcwise.server.simulate.counts import (
    MAX_DEVICES,
    as_population,
    code_law,
    multinomial,
    node_law,
    simulate_counts,
)
from arcwise.server.simulate.grammar import parse_population
from arcwise.server.simulate.laws import Atoms, Beta, CutNormal, Histogram, Mixture
from arcwise.server.simulate.populations import named_population

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
    "code_law",
    "multinomial",
    "named_population",
    "node_law",
    "parse_population",
    "simulate_counts",
]
