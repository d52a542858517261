"""Closed forms of continuous mechanisms on [0, 1] and on circles: what the integer kernels come close to.

One file is one family. They import `math` only, and numpy and scipy inside the functions that need them,
because devices import this package.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from arcwise.lazy import lazy_names

if TYPE_CHECKING:
    from arcwise.mechanisms.closed_forms.directional import (
        Directional,
        purkayastha,
        von_mises,
    )
    from arcwise.mechanisms.closed_forms.finite import (
        HYBRID_FROM,
        ThreeOutputsLevels,
        duchi_variance,
        duchi_worst_variance,
        hybrid_share,
        hybrid_variance,
        hybrid_worst_variance,
        randomized_response_nodes,
        randomized_response_variance,
        randomized_response_worst_variance,
        three_outputs_levels,
        three_outputs_variance,
        three_outputs_worst_variance,
    )
    from arcwise.mechanisms.closed_forms.laplace import (
        clamped_laplace_expected_error,
        clamped_laplace_worst_error,
        renormalised_laplace_epsilon,
        renormalised_laplace_expected_error,
        renormalised_laplace_normaliser,
        renormalised_laplace_worst_error,
    )
    from arcwise.mechanisms.closed_forms.optimal import (
        Levels,
        circle_attenuation,
        circle_expected_error,
        half_window,
        interval_expected_error,
        optimal_levels,
    )
    from arcwise.mechanisms.closed_forms.piecewise import (
        PiecewiseMember,
        least_half_range,
        piecewise_parameter,
        piecewise_variance,
        piecewise_worst_variance,
        transformation_variance,
        transformation_worst_variance,
        unbiased_optimal_range,
        unbiased_optimal_variance,
        unbiased_optimal_worst_variance,
    )
    from arcwise.mechanisms.closed_forms.published import (
        Mixture,
        best_mixture,
        best_published_variance,
    )
    from arcwise.mechanisms.closed_forms.square_wave import (
        SquareWaveLevels,
        linear_debiased_variance,
        square_wave_expected_error,
        square_wave_half_window,
        square_wave_levels,
        square_wave_mean,
    )

__all__ = [
    "HYBRID_FROM",
    "Directional",
    "Levels",
    "Mixture",
    "PiecewiseMember",
    "SquareWaveLevels",
    "ThreeOutputsLevels",
    "best_mixture",
    "best_published_variance",
    "circle_attenuation",
    "circle_expected_error",
    "clamped_laplace_expected_error",
    "clamped_laplace_worst_error",
    "duchi_variance",
    "duchi_worst_variance",
    "half_window",
    "hybrid_share",
    "hybrid_variance",
    "hybrid_worst_variance",
    "interval_expected_error",
    "least_half_range",
    "linear_debiased_variance",
    "optimal_levels",
    "piecewise_parameter",
    "piecewise_variance",
    "piecewise_worst_variance",
    "purkayastha",
    "randomized_response_nodes",
    "randomized_response_variance",
    "randomized_response_worst_variance",
    "renormalised_laplace_epsilon",
    "renormalised_laplace_expected_error",
    "renormalised_laplace_normaliser",
    "renormalised_laplace_worst_error",
    "square_wave_expected_error",
    "square_wave_half_window",
    "square_wave_levels",
    "square_wave_mean",
    "three_outputs_levels",
    "three_outputs_variance",
    "three_outputs_worst_variance",
    "transformation_variance",
    "transformation_worst_variance",
    "unbiased_optimal_range",
    "unbiased_optimal_variance",
    "unbiased_optimal_worst_variance",
    "von_mises",
]

if not TYPE_CHECKING:  # a type checker would let every name pass
    __getattr__ = lazy_names(
        __name__,
        {
            "directional": (
                "Directional",
                "purkayastha",
                "von_mises",
            ),
            "finite": (
                "HYBRID_FROM",
                "ThreeOutputsLevels",
                "duchi_variance",
                "duchi_worst_variance",
                "hybrid_share",
                "hybrid_variance",
                "hybrid_worst_variance",
                "randomized_response_nodes",
                "randomized_response_variance",
                "randomized_response_worst_variance",
                "three_outputs_levels",
                "three_outputs_variance",
                "three_outputs_worst_variance",
            ),
            "laplace": (
                "clamped_laplace_expected_error",
                "clamped_laplace_worst_error",
                "renormalised_laplace_epsilon",
                "renormalised_laplace_expected_error",
                "renormalised_laplace_normaliser",
                "renormalised_laplace_worst_error",
            ),
            "optimal": (
                "Levels",
                "circle_attenuation",
                "circle_expected_error",
                "half_window",
                "interval_expected_error",
                "optimal_levels",
            ),
            "piecewise": (
                "PiecewiseMember",
                "least_half_range",
                "piecewise_parameter",
                "piecewise_variance",
                "piecewise_worst_variance",
                "transformation_variance",
                "transformation_worst_variance",
                "unbiased_optimal_range",
                "unbiased_optimal_variance",
                "unbiased_optimal_worst_variance",
            ),
            "published": (
                "Mixture",
                "best_mixture",
                "best_published_variance",
            ),
            "square_wave": (
                "SquareWaveLevels",
                "linear_debiased_variance",
                "square_wave_expected_error",
                "square_wave_half_window",
                "square_wave_levels",
                "square_wave_mean",
            ),
        },
    )
