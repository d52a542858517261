"""Distributions of additive noise for differential privacy, with methods like those of scipy.stats.

The distributions are frozen objects for any sensitivity. They have a density or mass, a distribution
function, quantiles, moments of any order, entropy, the optimal parameter for a loss, and samples for
experiments. To protect data, use `GridNoise` for numbers, and `BoxGridNoise`, `BodyGridNoise` or
`IndependentGridNoise` for vectors. These four classes are noise on a grid with integer weights, an exact
certificate and the operating system's randomness.

Importing this package loads numpy; scipy is loaded only where it is needed.
"""

from __future__ import annotations

from arcwise.noise.abstract_staircase import AbstractStaircase
from arcwise.noise.base import ContinuousNoise, DiscreteNoise, Noise
from arcwise.noise.compared import (
    AnalyticGaussian,
    Laplace,
    TruncatedLaplace,
    approximate_lower_bound,
    gaussian_delta,
)
from arcwise.noise.concentration import (
    Concentration,
    compare_concentration,
    compare_vector_concentration,
)
from arcwise.noise.discrete_staircase import DiscreteStaircase, Geometric, optimal_r
from arcwise.noise.grid import GridNoise
from arcwise.noise.integer_noise import IntegerNoise
from arcwise.noise.multivariate.box import BodyStaircase, BoxComponent, BoxStaircase, ConfidenceBox
from arcwise.noise.multivariate.grid_body import Ball, BodyGridNoise, Face
from arcwise.noise.multivariate.grid_box import BoxGridNoise
from arcwise.noise.multivariate.independent import (
    ConfidenceDiamond,
    IndependentGridNoise,
    IndependentLaplace,
    IndependentStaircase,
)
from arcwise.noise.multivariate.vector_grid import VectorGridNoise
from arcwise.noise.staircase import Staircase, heuristic_gamma, interval_gamma, optimal_gamma
from arcwise.noise.uniform_atom import UniformAtom, optimal_alpha

__all__ = [
    "AbstractStaircase",
    "AnalyticGaussian",
    "Ball",
    "BodyGridNoise",
    "BodyStaircase",
    "BoxComponent",
    "BoxGridNoise",
    "BoxStaircase",
    "Concentration",
    "ConfidenceBox",
    "ConfidenceDiamond",
    "ContinuousNoise",
    "DiscreteNoise",
    "DiscreteStaircase",
    "Face",
    "Geometric",
    "GridNoise",
    "IndependentGridNoise",
    "IndependentLaplace",
    "IndependentStaircase",
    "IntegerNoise",
    "Laplace",
    "Noise",
    "Staircase",
    "TruncatedLaplace",
    "UniformAtom",
    "VectorGridNoise",
    "approximate_lower_bound",
    "compare_concentration",
    "compare_vector_concentration",
    "gaussian_delta",
    "heuristic_gamma",
    "interval_gamma",
    "optimal_alpha",
    "optimal_gamma",
    "optimal_r",
]
