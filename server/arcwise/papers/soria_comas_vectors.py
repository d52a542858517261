"""Soria-Comas and Domingo-Ferrer, section 6, on a grid: the variance of several attributes."""

from __future__ import annotations

import numpy as np

from arcwise.noise import BoxGridNoise, BoxStaircase, GridNoise, IndependentLaplace, Staircase
from arcwise.papers.base import Outcome, Progress, Reproduction, Table
from arcwise.papers.pictures import Panel, Picture, look, mark

_STEPS = 64
_ATTRIBUTES = (1, 2, 4, 8, 16)
_EPSILONS = (0.5, 1.0, 2.0, 4.0)


def _costs(epsilon: float, attributes: int) -> tuple[float, float, float, float]:
    """Return the variance of one component in units of its sensitivity squared, four times.

    Of the continuous optimum; of vectors drawn jointly on a grid of 64 steps; of one `GridNoise` for each
    attribute, at its share of epsilon, on the same grid; and of independent Laplace noise.
    """
    ones = (1.0,) * attributes
    joint = BoxGridNoise.for_values(epsilon, ones)
    share = GridNoise.from_noise(Staircase.optimal(epsilon / attributes, power=2), step=1.0 / _STEPS)
    return (
        float(BoxStaircase.optimal(epsilon, ones).var()[0]),
        float(joint.var()[0]),
        share.var(),
        float(IndependentLaplace(epsilon, ones).var()[0]),
    )


def _vectors(_full: bool, progress: Progress) -> Outcome:
    rows = []
    for done, epsilon in enumerate(_EPSILONS):
        progress(done, len(_EPSILONS))
        for attributes in _ATTRIBUTES:
            best, *others = _costs(epsilon, attributes)
            rows.append((epsilon, attributes, best, *others, *[cost / best for cost in others]))
    progress(len(_EPSILONS), len(_EPSILONS))
    ratios = np.array(rows)[:, -3:].reshape(len(_EPSILONS), len(_ATTRIBUTES), 3)
    one = _EPSILONS.index(1.0)
    certificate = BoxGridNoise.for_values(1.0, (1.0,) * _ATTRIBUTES[-1]).certificate()
    labels = ("drawn jointly on the grid", "one staircase on the grid each", "Laplace noise")
    panels = list[Panel]()
    for at in (one, len(_EPSILONS) - 1):
        lines = [
            mark("plot", _ATTRIBUTES, ratios[at, :, k], marker="o", markersize=4, label=label, **look(k, k))
            for k, label in enumerate(labels)
        ]
        panels.append(
            Panel(
                lines,
                x="attributes",
                y="" if panels else "variance over that of the optimum",
                title=rf"$\varepsilon = {_EPSILONS[at]:g}$",
                xlim=(0, 20),
                ylim=(0, 6),
                legend=None if panels else {"loc": "center right"},
            )
        )
    columns = ("joint", "one_each", "laplace")
    return Outcome(
        {
            "": Table(
                (
                    "epsilon",
                    "attributes",
                    *(
                        f"{name} (sensitivities squared)"
                        for name in ("optimum", *(f"{name}_variance" for name in columns))
                    ),
                    *(f"{name}_ratio" for name in columns),
                ),
                rows,
            )
        },
        Picture([panels], (7.2, 3.6)),
        [],
        [
            f"For {', '.join(map(str, _ATTRIBUTES[1:]))} attributes at epsilon 1, one staircase on a grid "
            "for each at its share of epsilon costs "
            f"{', '.join(f'{ratio:.2f}' for ratio in ratios[one, 1:, 1])} times the variance of the optimum.",
            f"Drawn jointly on a grid of {_STEPS} steps to a sensitivity it costs at most "
            f"{ratios[..., 0].max():.4f} times, at the epsilons from {_EPSILONS[0]:g} to {_EPSILONS[-1]:g}; "
            f"delta is {certificate.delta}.",
        ],
    )


REPRODUCTIONS = (
    Reproduction(
        "soria-comas-vectors",
        "Soria-Comas, Domingo-Ferrer 2013, section 6",
        "variance of several attributes released on a grid",
        _vectors,
    ),
)
