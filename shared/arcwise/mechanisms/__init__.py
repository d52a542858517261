"""Mechanisms: they turn values into codes on devices, and codes into values on the server.

Each mechanism's file is imported on first use, so a device that samples from one mechanism loads only its
file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from arcwise.lazy import lazy_names
from arcwise.mechanisms.registry import PLACES

if TYPE_CHECKING:
    from arcwise.mechanisms.additive.approximate import (
        GaussianMechanism,
        TruncatedLaplaceMechanism,
        UniformAtomMechanism,
    )
    from arcwise.mechanisms.additive.pure import (
        BoundedLaplaceMechanism,
        DiscreteStaircaseMechanism,
        GeometricMechanism,
        LaplaceMechanism,
        StaircaseMechanism,
    )
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
    from arcwise.mechanisms.optimal import OptimalCircular, OptimalPiecewise
    from arcwise.mechanisms.published_tables import (
        Hybrid,
        PiecewiseTransformation,
        ThreeOutputs,
        TruncatedPiecewise,
        UnbiasedOptimalPiecewise,
    )
    from arcwise.mechanisms.published_windows import (
        Duchi,
        Piecewise,
        PiecewiseOpt,
        PiecewiseSub,
        RandomizedResponse,
        SquareWave,
    )

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

if not TYPE_CHECKING:  # a type checker that sees this code would accept every name
    _places = {
        "base": ("Mechanism",),
        "closed_forms.optimal": (
            "Levels",
            "circle_attenuation",
            "circle_expected_error",
            "half_window",
            "interval_expected_error",
            "optimal_levels",
        ),
    }
    for _place in PLACES.values():
        _module, _, _name = _place.partition(":")
        _places[_module] = (*_places.get(_module, ()), _name)
    __getattr__ = lazy_names(__name__, _places)
