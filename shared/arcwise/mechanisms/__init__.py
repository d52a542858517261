"""Mechanisms: how a value becomes a code on the device, and what a code stands for on the server.

A name is imported when it is asked for: a device that samples from one mechanism loads one file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from arcwise.lazy import lazy_names

if TYPE_CHECKING:
    from arcwise.mechanisms.additive.gaussian import GaussianMechanism
    from arcwise.mechanisms.additive.geometric import GeometricMechanism
    from arcwise.mechanisms.additive.laplace import BoundedLaplaceMechanism, LaplaceMechanism
    from arcwise.mechanisms.additive.staircase import DiscreteStaircaseMechanism, StaircaseMechanism
    from arcwise.mechanisms.additive.truncated_laplace import TruncatedLaplaceMechanism
    from arcwise.mechanisms.additive.uniform_atom import UniformAtomMechanism
    from arcwise.mechanisms.base import Mechanism
    from arcwise.mechanisms.closed_forms.optimal import (
        Levels,
        circle_attenuation,
        circle_expected_error,
        half_window,
        interval_expected_error,
        optimal_levels,
    )
    from arcwise.mechanisms.designed import DesignedCircular, DesignedTable
    from arcwise.mechanisms.directional import Purkayastha, VonMises
    from arcwise.mechanisms.duchi import Duchi
    from arcwise.mechanisms.hybrid import Hybrid
    from arcwise.mechanisms.optimal import OptimalCircular, OptimalPiecewise
    from arcwise.mechanisms.piecewise import Piecewise, PiecewiseOpt, PiecewiseSub
    from arcwise.mechanisms.randomized_response import RandomizedResponse
    from arcwise.mechanisms.square_wave import SquareWave
    from arcwise.mechanisms.three_outputs import ThreeOutputs
    from arcwise.mechanisms.transformation import PiecewiseTransformation, UnbiasedOptimalPiecewise
    from arcwise.mechanisms.truncated_piecewise import TruncatedPiecewise

__all__ = [
    "BoundedLaplaceMechanism",
    "DesignedCircular",
    "DesignedTable",
    "DiscreteStaircaseMechanism",
    "Duchi",
    "GaussianMechanism",
    "GeometricMechanism",
    "Hybrid",
    "LaplaceMechanism",
    "Levels",
    "Mechanism",
    "OptimalCircular",
    "OptimalPiecewise",
    "Piecewise",
    "PiecewiseOpt",
    "PiecewiseSub",
    "PiecewiseTransformation",
    "Purkayastha",
    "RandomizedResponse",
    "SquareWave",
    "StaircaseMechanism",
    "ThreeOutputs",
    "TruncatedLaplaceMechanism",
    "TruncatedPiecewise",
    "UnbiasedOptimalPiecewise",
    "UniformAtomMechanism",
    "VonMises",
    "circle_attenuation",
    "circle_expected_error",
    "half_window",
    "interval_expected_error",
    "optimal_levels",
]

if not TYPE_CHECKING:  # a type checker would let every name pass
    __getattr__ = lazy_names(
        __name__,
        {
            "additive.gaussian": ("GaussianMechanism",),
            "additive.geometric": ("GeometricMechanism",),
            "additive.laplace": ("BoundedLaplaceMechanism", "LaplaceMechanism"),
            "additive.staircase": ("DiscreteStaircaseMechanism", "StaircaseMechanism"),
            "additive.truncated_laplace": ("TruncatedLaplaceMechanism",),
            "additive.uniform_atom": ("UniformAtomMechanism",),
            "base": ("Mechanism",),
            "closed_forms.optimal": (
                "Levels",
                "circle_attenuation",
                "circle_expected_error",
                "half_window",
                "interval_expected_error",
                "optimal_levels",
            ),
            "designed": ("DesignedCircular", "DesignedTable"),
            "directional": ("Purkayastha", "VonMises"),
            "duchi": ("Duchi",),
            "hybrid": ("Hybrid",),
            "optimal": ("OptimalCircular", "OptimalPiecewise"),
            "piecewise": ("Piecewise", "PiecewiseOpt", "PiecewiseSub"),
            "randomized_response": ("RandomizedResponse",),
            "square_wave": ("SquareWave",),
            "three_outputs": ("ThreeOutputs",),
            "transformation": ("PiecewiseTransformation", "UnbiasedOptimalPiecewise"),
            "truncated_piecewise": ("TruncatedPiecewise",),
        },
    )
