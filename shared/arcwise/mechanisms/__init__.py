"""Mechanisms: how a value becomes a code on the device, and what a code stands for on the server."""

from arcwise.mechanisms.additive import (
    BoundedLaplaceMechanism,
    DiscreteStaircaseMechanism,
    GaussianMechanism,
    GeometricMechanism,
    LaplaceMechanism,
    StaircaseMechanism,
    TruncatedLaplaceMechanism,
    UniformAtomMechanism,
)
from arcwise.mechanisms.base import Mechanism
from arcwise.mechanisms.closed_forms import (
    Levels,
    circle_attenuation,
    circle_expected_error,
    half_window,
    interval_expected_error,
    optimal_levels,
)
from arcwise.mechanisms.designed import DesignedCircular, DesignedTable
from arcwise.mechanisms.optimal import OptimalCircular, OptimalPiecewise

__all__ = [
    "BoundedLaplaceMechanism",
    "DesignedCircular",
    "DesignedTable",
    "DiscreteStaircaseMechanism",
    "GaussianMechanism",
    "GeometricMechanism",
    "LaplaceMechanism",
    "Levels",
    "Mechanism",
    "OptimalCircular",
    "OptimalPiecewise",
    "StaircaseMechanism",
    "TruncatedLaplaceMechanism",
    "UniformAtomMechanism",
    "circle_attenuation",
    "circle_expected_error",
    "half_window",
    "interval_expected_error",
    "optimal_levels",
]
