"""Two mechanisms on the circle, each with one integer row: von Mises-Fisher and Purkayastha."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from arcwise.kernels.base import MAX_CODES
from arcwise.kernels.certificate import check_epsilon
from arcwise.kernels.rounding import integer_row
from arcwise.mechanisms.circulant import CirculantMechanism
from arcwise.mechanisms.circular import check_circle
from arcwise.mechanisms.window import DEFAULT_NODES, check_nodes, lattice_nodes

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from arcwise.domains import Circle
    from arcwise.typing import FloatArray


class VonMises(CirculantMechanism):
    """The von Mises-Fisher mechanism on a circle: probability proportional to ``e^(kappa cos angle)``.

    Parameters
    ----------
    domain
        The `Circle` of the values.
    epsilon
        From 0.01 to 20.
    nodes
        The number of nodes and of codes (N = K), from 2 to 65,536. The default is 128, or on a lattice one
        node for each value.

    Raises
    ------
    ParameterError
        When an argument is out of its bounds.

    Notes
    -----
    Weggenmann and Kerschbaum (CCS 2021). The largest and the smallest weight of the row have the ratio
    e^epsilon. Kappa is epsilon divided by the largest decrease of ``cos angle`` on the grid: epsilon/2 for an
    even number of nodes. At every epsilon `OptimalCircular` has a smaller expected error.

    Examples
    --------
    >>> from arcwise.domains import Circle
    >>> round(VonMises(Circle(360), epsilon=1.0).attenuation(), 3)
    0.242
    """

    __slots__ = ()

    name: ClassVar[str] = "von-mises"
    version: ClassVar[int] = 1

    def __init__(self, domain: Circle, epsilon: float, *, nodes: int | None = None) -> None:
        import numpy as np

        domain, epsilon = check_circle(domain, type(self).__name__), check_epsilon(epsilon)
        nodes = check_nodes(lattice_nodes(domain, nodes, otherwise=DEFAULT_NODES), MAX_CODES)
        turned = np.arange(nodes)
        decay = self._decay(2 * np.pi * np.minimum(turned, nodes - turned) / nodes)
        row = np.exp(-epsilon * decay / decay.max())
        self._init(domain, epsilon, integer_row(row / row.sum(), epsilon))

    @staticmethod
    def _decay(angle: FloatArray) -> NDArray[Any]:
        """Return the decrease of the exponent at an angle in [0, pi], in any unit: here ``1 - cos angle``."""
        import numpy as np

        return 2 * np.sin(angle / 2) ** 2


class Purkayastha(VonMises):
    """The Purkayastha mechanism on a circle: probability proportional to ``e^(-kappa angle)``.

    Parameters, errors and source are as for `VonMises`; kappa is epsilon/pi for an even number of nodes.

    Examples
    --------
    >>> from arcwise.domains import Circle
    >>> round(Purkayastha(Circle(360), epsilon=1.0).attenuation(), 3)
    0.199
    """

    __slots__ = ()

    name: ClassVar[str] = "purkayastha"

    @staticmethod
    def _decay(angle: FloatArray) -> NDArray[Any]:
        """Return the decrease of the exponent at an angle in [0, pi], in any unit: the angle."""
        return angle
