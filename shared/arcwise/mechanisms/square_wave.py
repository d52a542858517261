"""The Square Wave mechanism (SW), which reports a number close to the value."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from arcwise.kernels.certificate import check_epsilon
from arcwise.mechanisms.closed_forms.square_wave import square_wave_half_window
from arcwise.mechanisms.grids import fitted_nodes
from arcwise.mechanisms.window import WindowMechanism, check_interval

if TYPE_CHECKING:
    from arcwise.domains import Interval
    from arcwise.typing import FloatArray


class SquareWave(WindowMechanism):
    """The Square Wave mechanism (SW) of Li et al. (SIGMOD 2020), made for distributions.

    Parameters
    ----------
    domain
        The `Interval` of the values.
    epsilon
        From 0.01 to 20.
    nodes
        N, from 2 to 32,768. None (default): at least about 85, such that the window is a whole number of
        codes, which keeps the squared error within 1 % of the continuous mechanism's up to epsilon 8.

    Raises
    ------
    ParameterError
        When an argument is out of its bounds.

    Notes
    -----
    An inset window with the share 2b/(1+2b) of the codes (`closed_forms.square_wave`). `decode` returns what
    the paper's mechanism outputs, a number in [-b, 1+b] of the unit interval around the value: biased when
    averaged. `unbiased_units` undoes that.

    Examples
    --------
    >>> from arcwise.domains import Interval
    >>> mechanism = SquareWave(Interval(0, 100), epsilon=1.0)
    >>> round(mechanism.expected_error(50), 1), mechanism.unbiased
    (28.6, False)
    """

    __slots__ = ()

    name: ClassVar[str] = "square-wave"
    version: ClassVar[int] = 1

    def __init__(self, domain: Interval, epsilon: float, *, nodes: int | None = None) -> None:
        domain, epsilon = check_interval(domain, type(self).__name__), check_epsilon(epsilon)
        b = square_wave_half_window(epsilon)
        share = 2 * b / (1 + 2 * b)
        self._fit(domain, epsilon, share, nodes=nodes, otherwise=fitted_nodes(share))

    @property
    def unbiased(self) -> bool:
        """False: `decode` returns the output itself."""
        return False

    def code_units(self) -> FloatArray:
        """Return the centres of the cells of [-b, 1+b] on the unit interval.

        The window of node s covers the codes s to s+W-1 and its centre is the node's place s/(N-1), so code j
        stands at ``(j + 1/2 - W/2) / (N-1)``; the grid's b is W/2 steps.
        """
        import numpy as np

        kernel = self.kernel
        units: FloatArray = (np.arange(kernel.codes) + 0.5 - kernel.window / 2) / (kernel.nodes - 1)
        return units
