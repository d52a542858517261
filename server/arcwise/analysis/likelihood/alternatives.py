"""Named alternatives to the default distribution, for comparison: plain and smoothed EM, maximum likelihood.

The first two use the stopping rule of the paper that proposed smoothed EM for reports under local
differential privacy: Li, Wang, Lopuhaä-Zwakenberg, Škorić and Li, "Estimating numerical distributions under
local differential privacy", SIGMOD 2020. The default, an average of both weighted by held-out reports, is in
`distribution`; `benchmarks/studies/accuracy.py` prints it next to these two.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from arcwise.analysis.counts import check_counts
from arcwise.analysis.likelihood.em import EMFit, EMSteps, smoother
from arcwise.analysis.likelihood.maximum import Model
from arcwise.analysis.threads import one_thread
from arcwise.errors import ParameterError

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import ArrayLike

    from arcwise.mechanisms.base import Mechanism
    from arcwise.typing import FloatArray

_TOLERANCE = 1e-3
"""Another step is taken only if the log-likelihood of all reports still changed by this many nats."""


def plain_em(
    mechanism: Mechanism,
    counts: ArrayLike,
    *,
    tolerance: float | None = None,
    max_iterations: int = 10_000,
) -> EMFit:
    """Return EM's node distribution once a step gains little; it is rough, close to the most likely one.

    EM stops after a step that raises the log-likelihood by less than `tolerance` nats. The default is
    ``1e-3 e^epsilon``, as in the paper. EM starts from equal probabilities. A small step does not prove
    convergence: `gap` of the result bounds the distance of the log-likelihood from its maximum, and is often
    many nats.
    """
    bound = _TOLERANCE * math.exp(mechanism.epsilon) if tolerance is None else tolerance
    return _run(mechanism, counts, bound, max_iterations, None)


def smoothed_em(
    mechanism: Mechanism,
    counts: ArrayLike,
    *,
    tolerance: float = _TOLERANCE,
    max_iterations: int = 10_000,
) -> EMFit:
    """Return the node distribution of EMS: EM with every node averaged with its neighbours after each step.

    The weights are 1, 2, 1, and 2, 1 at the two ends of an interval; on a circle the first and the last node
    are neighbours. The amount of smoothing depends on the number of nodes, not on the number of reports:
    piles and narrow peaks stay spread out with any number of reports (Silverman, Jones, Wilson and Nychka
    1990 on EMS in general).

    EMS stops after a step that changes the log-likelihood by less than `tolerance` nats, up or down. In the
    paper the tolerance is 1e-3.
    """
    return _run(mechanism, counts, tolerance, max_iterations, smoother(mechanism.kernel))


@one_thread()
def maximum_likelihood(mechanism: Mechanism, counts: ArrayLike) -> EMFit:
    """Return the most likely node distribution, certified to 0.001 nats: a few spikes, maximally rough.

    The result is the reference for every other fit, and not an estimate to show. With 1,024 nodes it takes
    some milliseconds; EM would take minutes. The `gap` is proved, and `iterations` is 0, since EM is not
    used.

    An interior point method fits some of the nodes. Nodes that can raise the likelihood are added until there
    are no more of them (`maximum`).
    """
    numbers = check_counts(counts, mechanism.kernel.codes)
    fitted = Model(mechanism.kernel).fit(numbers)
    seen = numbers > 0
    value = float(numbers[seen] @ np.log(fitted.codes[seen]))
    return EMFit(fitted.nodes, value, fitted.gap, 0)


def _run(
    mechanism: Mechanism,
    counts: ArrayLike,
    tolerance: float,
    max_iterations: int,
    smooth: Callable[[FloatArray], FloatArray] | None,
) -> EMFit:
    if not tolerance > 0:
        raise ParameterError(f"tolerance must be positive, got {tolerance!r}")
    if max_iterations < 1:
        raise ParameterError(f"max_iterations must be at least 1, got {max_iterations!r}")
    steps = EMSteps(mechanism.kernel, check_counts(counts, mechanism.kernel.codes))
    value, change = float(steps.log_likelihood()[0]), math.inf
    while change >= tolerance and steps.iterations < max_iterations:
        steps.step(smooth)
        before, value = value, float(steps.log_likelihood()[0])
        change = abs(value - before)
    return steps.current(0)
