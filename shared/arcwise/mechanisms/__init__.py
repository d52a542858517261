"""Mechanisms: how a value becomes a code on the device, and what a code stands for on the server."""

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
    "DesignedCircular",
    "DesignedTable",
    "Levels",
    "Mechanism",
    "OptimalCircular",
    "OptimalPiecewise",
    "circle_attenuation",
    "circle_expected_error",
    "half_window",
    "interval_expected_error",
    "optimal_levels",
]
