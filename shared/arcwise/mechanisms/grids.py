"""Grid sizes at which a continuous window is close to a whole number of codes, and the table of a window.

With N nodes, the length of a window of W codes is W/(N-1) of the distance that it slides. If N is fixed,
rounding W changes the length by up to half a code, which is a large part of a narrow window. So N is chosen
to fit the window.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from arcwise.kernels.base import MAX_CODES
from arcwise.mechanisms.window import DEFAULT_NODES

if TYPE_CHECKING:
    from arcwise.typing import FloatArray

MOST_TABLE_NODES = 1024
"""The most nodes of a table that a caller may request: about 10 MB."""

_MOST_NODES = 4096
"""Limit of `fitted_nodes`, for windows narrower than one code of a grid of the default size."""

_MOST_WINDOW_NODES = 16_384
"""Limit of `optimal_nodes` on an interval: two-byte codes, counts of 128 kB an epoch."""

_WIDE_ENOUGH = 1.375
"""The default grid is fine enough if its window has at least this many times the codes that are required."""

_FEWEST, _MOST, _WEIGHTS = 40, 160, 20_000
"""Bounds of `table_nodes`: fewest nodes, most nodes, most weights (nine bytes each in a task)."""


def fitted_nodes(share: float) -> int:
    """Return a number of nodes near 128 at which an inset window with the share W/K is close to whole codes.

    The number is much larger than 128 only if the window would otherwise be narrower than a code. It is at
    most 4,096.
    """
    ratio = share / (1.0 - share)  # W / (N - 1)
    window = max(1, round((DEFAULT_NODES - 1) * ratio))
    return min(1 + max(1, round(window / ratio)), _MOST_NODES)


def optimal_nodes(share: float, power: float, *, circular: bool) -> int:
    """Return the nodes, at least 128, that keep OPM's error on a grid within 2 % of its closed form.

    `share` is the window's share of the codes, 2 C of `closed_forms.optimal.optimal_levels`, and `power` is
    the exponent of the loss. If `circular`, the window wraps and K = N; otherwise K = N + W - 1.

    The grid increases the error by a share of about ``power / (3 W^2)``. The increase is smaller if W is even
    and the number of codes needs no rounding. So the window gets ``2 ceil(2 sqrt(power))`` codes: 4 for
    ``|y-x|`` and 6 for its square. The total number of codes follows from `share`. 128 codes are enough up to
    epsilon 6.2 for ``|y-x|`` and 8.3 for its square. On a circle, two-byte codes are enough up to epsilon
    19.4; above, windows have 2 or 3 codes, and the error is up to 1.0625 times the closed form. On an
    interval the limit of 16,384 codes is enough up to epsilon 16.6; above, the error is up to 1.083 times the
    closed form.
    """
    most = MAX_CODES if circular else _MOST_WINDOW_NODES
    least = 2 * math.ceil(2.0 * math.sqrt(power))
    usual = share * DEFAULT_NODES
    if usual >= _WIDE_ENOUGH * least:
        return DEFAULT_NODES
    for window in range(max(math.ceil(usual), least), 1, -1):
        codes = round(window / share)
        if codes <= most:
            return codes if circular else codes - window + 1
    return most


def table_nodes(window: float, span: float, variance: float) -> int:
    """Return a number of nodes for a table of at most 20,000 weights with a small grid error.

    The lengths of the window and of the output range (`span`) are in units of the distance that the window
    slides. `variance` is the variance of the continuous mechanism on [0, 1]; rounding to nodes adds up to
    1/(4 (N-1)^2) to it.

    The result minimises the sum of three relative errors of the variance, at first order: twice the error of
    rounding the window, four times the error of rounding the output range, and the error of rounding values.
    The factor is four because, for small epsilon, the variance is proportional to the fourth power of the
    output range over the square of the window.
    """

    def error(nodes: int) -> float:
        gaps = nodes - 1
        of_window = 2 * abs(max(1, round(gaps * window)) / (gaps * window) - 1)
        of_span = 4 * abs(max(1, round(gaps * span)) / (gaps * span) - 1)
        return of_window + of_span + 1 / (4 * gaps**2 * variance)

    sizes = [n for n in range(_FEWEST, _MOST + 1) if n * (n * span + 2) <= _WEIGHTS]
    return min(sizes or [_FEWEST], key=error)


def window_table(nodes: int, window: float, span: float, epsilon: float) -> tuple[FloatArray, FloatArray]:
    """Return the rows of a sliding window with margins, and the unbiased output values on [0, 1].

    Their shapes are (N, K) and (K,). The lengths of the window and of the output range (`span`, at least
    ``1 + window``) are in units of the distance that the window slides. Codes inside the window are e^epsilon
    times as likely as codes outside.
    """
    import numpy as np

    width = max(1, round((nodes - 1) * window))
    codes = max(nodes + width - 1, round((nodes - 1) * span))
    margin = (codes - (nodes + width - 1)) // 2
    code = np.arange(codes)
    start = margin + np.arange(nodes)[:, None]
    inside = (start <= code) & (code < start + width)
    low = 1 / (codes + width * math.expm1(epsilon))
    rows: FloatArray = np.where(inside, low * math.exp(epsilon), low)
    # `mass` is the window's mass above the background; the mean code moves by it from node to node.
    mass = width * math.expm1(epsilon) * low
    first = (1 - mass) * (codes - 1) / 2 + mass * (margin + (width - 1) / 2)
    return rows, np.asarray((code - first) / (mass * (nodes - 1)), dtype=np.float64)
