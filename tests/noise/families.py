"""One example of every family of noise, strategies for their parameters, and the least loss of all laws."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from hypothesis import strategies as st
from scipy.optimize import linprog

from arcwise.noise import (
    AnalyticGaussian,
    BoxComponent,
    BoxStaircase,
    ContinuousNoise,
    DiscreteNoise,
    DiscreteStaircase,
    Geometric,
    IntegerNoise,
    Laplace,
    Staircase,
    TruncatedLaplace,
    UniformAtom,
)

if TYPE_CHECKING:
    from arcwise.typing import FloatArray

CONTINUOUS: tuple[ContinuousNoise, ...] = (
    Laplace(0.7, 2.0),
    Staircase(1.0, 1.0, 0.4),
    Staircase(0.02, 30.0, 1.0),
    Staircase(4.0, 0.5, 0.0),
    Staircase.optimal(20.0, 3.0, power=2),
    TruncatedLaplace(1.0, 1e-3, 2.0),
    TruncatedLaplace(0.01, 0.3),
    TruncatedLaplace(8.0, 1e-9, 5.0),
    UniformAtom(0.3, 2.0, 0.0),
    UniformAtom.optimal(0.9, 2.0),
    AnalyticGaussian(0.5, 1e-5, 2.0),
    AnalyticGaussian(0.0, 0.2),
    BoxStaircase(1.0, (1.0, 10.0), (0.1, 1.0)).component(1),
    BoxStaircase(0.1, (1.0, 2.0, 3.0), (0.0, 2.0, 1.0)).component(0),
    BoxStaircase(6.0, (1.0, 2.0, 3.0), (0.5, 1.0, 1.0)).component(2),
)

DISCRETE: tuple[DiscreteNoise, ...] = (
    Geometric(1.0),
    Geometric(0.05, 3),
    Geometric(6.0),
    DiscreteStaircase(1.0, 7, 3),
    DiscreteStaircase(0.1, 20, 20),
    DiscreteStaircase(9.0, 4, 1),
    DiscreteStaircase(0.5, 1, 1),
    IntegerNoise.optimal(1.0, 1e-4),
    IntegerNoise.optimal(0.6, 0.1, 3),
    IntegerNoise.optimal(4.0, 0.5),
)

PURE = (Laplace, Staircase, Geometric, DiscreteStaircase)

epsilons = st.floats(0.01, 20.0)
sensitivities = st.floats(1e-3, 1e3)

continuous = st.one_of(
    st.sampled_from(CONTINUOUS),
    st.builds(Laplace, epsilons, sensitivities),
    st.builds(Staircase, epsilons, sensitivities, st.floats(0.0, 1.0)),
    st.builds(TruncatedLaplace, epsilons, st.floats(1e-12, 0.5), sensitivities),
    st.builds(UniformAtom.optimal, st.floats(1e-3, 0.999), sensitivities),
    st.builds(AnalyticGaussian, st.floats(0.0, 20.0), st.floats(1e-12, 0.9), sensitivities),
    st.builds(
        lambda epsilon, lengths, fraction: BoxStaircase.proportional(epsilon, lengths, fraction).component(0),
        epsilons,
        st.lists(st.floats(0.1, 10.0), min_size=1, max_size=4).map(tuple),
        st.floats(0.0, 1.0),
    ),
)

discrete = st.one_of(
    st.sampled_from(DISCRETE),
    st.builds(Geometric, epsilons, st.integers(1, 50)),
    st.integers(1, 50).flatmap(
        lambda sensitivity: st.builds(
            DiscreteStaircase, epsilons, st.just(sensitivity), st.integers(1, sensitivity)
        )
    ),
)


def edges(noise: ContinuousNoise, mass: float = 1e-18) -> list[float]:
    """Return points between which the density is smooth, from 0 to where only `mass` is left."""
    high = min(noise.isf(mass), noise.support[1])
    if isinstance(noise, Staircase):
        step, first = noise.sensitivity, noise.half_step
        points = [k * step + t for k in range(int(high / step) + 2) for t in (0.0, first)]
    elif isinstance(noise, BoxComponent):
        step, first = noise.sensitivities[noise.index], noise.core[noise.index]
        points = [0.0, *(first + k * step for k in range(int(high / step) + 2))]
    else:
        points = [high * n / 400 for n in range(401)]
    return sorted({point for point in points if point <= high} | {high})


def least_loss(epsilon: float, delta: float, sensitivity: int, loss: FloatArray) -> float:
    """Return the least expectation over all laws on -N, ..., N, symmetric or not."""
    size, ratio = loss.size, math.exp(epsilon)
    shifts = [shift for d in range(1, sensitivity + 1) for shift in (d, -d)]
    total = size * (1 + len(shifts))
    rows, bounds = [], []
    for number, shift in enumerate(shifts):
        start = size * (1 + number)
        for i in range(size):
            row = np.zeros(total)
            row[i] = 1.0
            if 0 <= i + shift < size:
                row[i + shift] = -ratio
            row[start + i] = -1.0
            rows.append(row)
            bounds.append(0.0)
        row = np.zeros(total)
        row[start : start + size] = 1.0
        rows.append(row)
        bounds.append(delta)
    found = linprog(
        np.concatenate((loss, np.zeros(total - size))),
        A_ub=np.array(rows),
        b_ub=bounds,
        A_eq=np.concatenate((np.ones(size), np.zeros(total - size)))[None],
        b_eq=[1.0],
        method="highs",
        options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
    )
    return float(found.fun)
