"""Zheng, Mishra and Hu: PM, SW and PTT, with truncation and without, each beside OPM on its own domain."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from arcwise.analysis.charts.look import COLOURS
from arcwise.papers.base import Outcome, Progress, Reproduction, Table
from arcwise.papers.exact import interval_error
from arcwise.papers.interval_laws import (
    EPSILONS,
    SOURCE,
    below,
    optimal_pieces,
    piecewise_pieces,
    square_wave_pieces,
)
from arcwise.papers.pictures import Panel, Picture, mark

if TYPE_CHECKING:
    from collections.abc import Callable

    from arcwise.papers.interval_laws import Pieces
    from arcwise.typing import FloatArray


_X = np.linspace(0.0, 1.0, 401)
_LENGTHS = {"PM": 2.0, "SW": 1.0, "PTT": 2.0}
"""PM and PTT take inputs in [-1, 1], SW in [0, 1]; an error scales with the length."""
_SHOWN = 2.0
_DASHES = {"own range": (0, (1, 1.2)), "truncated": (0, (6, 2)), "OPM": "-"}
_COLOURS = {"PM": COLOURS[1], "SW": COLOURS[2], "PTT": COLOURS[6]}
_PIECES: dict[str, Callable[[FloatArray, float], Pieces]] = {
    "PM": piecewise_pieces,
    "SW": square_wave_pieces,
    "PTT": partial(piecewise_pieces, member="pm-opt"),
}


def _errors(mechanism: str, x: FloatArray, epsilon: float, power: float) -> dict[str, FloatArray]:
    """Return the errors on the mechanism's own domain, at the position x of it from 0 to 1."""
    pieces = _PIECES[mechanism](x, epsilon)
    scale = _LENGTHS[mechanism] ** power
    return {
        "own range": scale * interval_error(x, *pieces, power, truncate=False),
        "truncated": scale * interval_error(x, *pieces, power),
        "OPM": scale * interval_error(x, *optimal_pieces(x, epsilon, power), power),
    }


def _own_domains(_full: bool, progress: Progress) -> Outcome:
    shown = {mechanism: _errors(mechanism, _X, _SHOWN, 1.0) for mechanism in _LENGTHS}
    half = np.linspace(0.0, 0.5, 201)
    worst = {}
    keys = [(mechanism, power) for mechanism in _LENGTHS for power in (1.0, 2.0)]
    for done, (mechanism, power) in enumerate(keys):
        progress(done, len(keys))
        errors = [_errors(mechanism, half, float(epsilon), power) for epsilon in EPSILONS]
        worst[mechanism, power] = {name: np.array([e[name].max() for e in errors]) for name in _DASHES}

    upper: list[Panel] = []
    lower: list[Panel] = []
    for mechanism, length in _LENGTHS.items():
        inputs = _X * length - (length - 1.0)
        looks = {
            name: {
                "color": COLOURS[0] if name == "OPM" else _COLOURS[mechanism],
                "linestyle": dash,
                "label": "OPM" if name == "OPM" else f"{mechanism}, {name}",
            }
            for name, dash in _DASHES.items()
        }
        over = worst[mechanism, 1.0]
        upper.append(
            Panel(
                [mark("plot", inputs, shown[mechanism][name], **style) for name, style in looks.items()],
                x="input $x$",
                y="" if upper else r"$\mathrm{E}\,|y-x|$",
                title=rf"{mechanism} on $[{inputs[0]:g},\,1]$, $\varepsilon={_SHOWN:g}$",
                xlim=(inputs[0], inputs[-1]),
                ylim=(0.0, None),
            )
        )
        lower.append(
            Panel(
                [mark("plot", EPSILONS, over[name] / over["OPM"], **style) for name, style in looks.items()],
                x=r"$\varepsilon$",
                y="" if lower else r"worst $\mathrm{E}\,|y-x|$, OPM $=1$",
                xlim=(0.0, 8.0),
                ylim=(0.8, 2.0),
                legend=None,
            )
        )

    over_domain = {
        (mechanism,): {
            "x (units of the input)": _X * length - (length - 1.0),
            **{f"{name} (units of the input)": curve for name, curve in shown[mechanism].items()},
        }
        for mechanism, length in _LENGTHS.items()
    }
    over_epsilon = {
        key: {
            "epsilon": EPSILONS,
            **{f"{name} (units of the input, to the power)": curve for name, curve in curves.items()},
        }
        for key, curves in worst.items()
    }
    findings = []
    for mechanism in _LENGTHS:
        average = {name: float(np.trapezoid(curve, _X)) for name, curve in shown[mechanism].items()}
        spans = [
            f"{name} for epsilon {span}"
            for name in ("own range", "truncated")
            if (span := below(worst[mechanism, 1.0][name], worst[mechanism, 1.0]["OPM"]))
        ]
        findings.append(
            f"{mechanism} at epsilon {_SHOWN:g}, average E |y-x| over its domain: {average['own range']:.3f} "
            f"with outputs in its own range, {average['truncated']:.3f} truncated; OPM {average['OPM']:.3f}. "
            f"In the worst case it is below OPM: {'; '.join(spans) or 'at no epsilon from 0.1 to 8'}."
        )
    findings.append(
        "OPM's outputs are held inside the domain. The source's optimum is for one output range at a time: "
        "SW shows that a wider range, truncated afterwards, can have a smaller worst case."
    )
    return Outcome(
        {
            "domain": Table.stacked(("mechanism",), over_domain),
            "worst": Table.stacked(("mechanism", "power"), over_epsilon),
        },
        Picture([upper, lower], (9.2, 5.2)),
        (),
        findings,
    )


REPRODUCTIONS = (
    Reproduction(
        "opm-own-domains",
        f"{SOURCE}: comparison of expected errors",
        "PM and PTT on [-1, 1] and SW on [0, 1], truncated or not, against OPM there",
        _own_domains,
    ),
)
