"""Additive noise as local mechanisms on an integer grid, one family in each file.

Reports are nodes plus noise, rounded to the grid, with what lies beyond the codes clamped into the end codes.
The distributions themselves are in `arcwise.noise`; only constructors import them, so a device that samples
from a task's table never does.
"""

from __future__ import annotations

from arcwise.mechanisms.additive.gaussian import GaussianMechanism
from arcwise.mechanisms.additive.geometric import GeometricMechanism
from arcwise.mechanisms.additive.laplace import BoundedLaplaceMechanism, LaplaceMechanism
from arcwise.mechanisms.additive.staircase import DiscreteStaircaseMechanism, StaircaseMechanism
from arcwise.mechanisms.additive.truncated_laplace import TruncatedLaplaceMechanism
from arcwise.mechanisms.additive.uniform_atom import UniformAtomMechanism

__all__ = [
    "BoundedLaplaceMechanism",
    "DiscreteStaircaseMechanism",
    "GaussianMechanism",
    "GeometricMechanism",
    "LaplaceMechanism",
    "StaircaseMechanism",
    "TruncatedLaplaceMechanism",
    "UniformAtomMechanism",
]
