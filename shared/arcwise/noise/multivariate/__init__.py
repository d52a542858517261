"""Distributions of noise for several attributes together: boxes, and Laplace noise on each attribute."""

from __future__ import annotations

from arcwise.noise.multivariate.box_component import BoxComponent
from arcwise.noise.multivariate.box_staircase import BoxStaircase, ConfidenceBox
from arcwise.noise.multivariate.independent_laplace import ConfidenceDiamond, IndependentLaplace

__all__ = ["BoxComponent", "BoxStaircase", "ConfidenceBox", "ConfidenceDiamond", "IndependentLaplace"]
