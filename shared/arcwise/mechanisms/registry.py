"""The mechanisms by name: what a task's bytes may name, and how its kernel is read back.

A name with its version never changes its meaning and is never removed; a change is a new version. A new
mechanism is one file and its class in the list below (docs/adding-a-mechanism.md).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from arcwise.errors import ParameterError
from arcwise.mechanisms.additive import (
    BoundedLaplaceMechanism,
    DiscreteStaircaseMechanism,
    GaussianMechanism,
    GeometricMechanism,
    LaplaceMechanism,
    StaircaseMechanism,
    TruncatedLaplaceMechanism,
    UniformAtomMechanism,
)
from arcwise.mechanisms.designed import DesignedCircular, DesignedTable
from arcwise.mechanisms.directional import Purkayastha, VonMises
from arcwise.mechanisms.duchi import Duchi
from arcwise.mechanisms.hybrid import Hybrid
from arcwise.mechanisms.optimal import OptimalCircular, OptimalPiecewise
from arcwise.mechanisms.piecewise import Piecewise, PiecewiseOpt, PiecewiseSub
from arcwise.mechanisms.randomized_response import RandomizedResponse
from arcwise.mechanisms.square_wave import SquareWave
from arcwise.mechanisms.three_outputs import ThreeOutputs
from arcwise.mechanisms.transformation import PiecewiseTransformation, UnbiasedOptimalPiecewise

if TYPE_CHECKING:
    from arcwise.domains import Domain
    from arcwise.mechanisms.base import Mechanism

__all__ = ["MECHANISMS", "mechanism_from_fields", "mechanism_to_fields"]

_CLASSES: tuple[type[Mechanism], ...] = (
    OptimalPiecewise,
    OptimalCircular,
    DesignedTable,
    DesignedCircular,
    LaplaceMechanism,
    BoundedLaplaceMechanism,
    GeometricMechanism,
    StaircaseMechanism,
    DiscreteStaircaseMechanism,
    TruncatedLaplaceMechanism,
    UniformAtomMechanism,
    GaussianMechanism,
    Piecewise,
    PiecewiseSub,
    PiecewiseOpt,
    SquareWave,
    PiecewiseTransformation,
    UnbiasedOptimalPiecewise,
    Duchi,
    ThreeOutputs,
    Hybrid,
    RandomizedResponse,
    VonMises,
    Purkayastha,
)

MECHANISMS: dict[tuple[str, int], type[Mechanism]] = {(cls.name, cls.version): cls for cls in _CLASSES}
"""Every mechanism by its name and version."""


def mechanism_to_fields(mechanism: Mechanism) -> list[Any]:
    """Return ``[name, version, [kind, placement, ...]]``: the sampler, resolved to integers.

    ========== =====================================================
    kind       the rest
    ========== =====================================================
    window     K, N, W, b, g
    table      K, N, rows, output values on the unit interval
    circulant  K, the row of node 0
    ========== =====================================================
    """
    kernel = [mechanism.kind, mechanism.placement, *mechanism.kernel_fields()]
    return [mechanism.name, mechanism.version, kernel]


def mechanism_from_fields(fields: Any, domain: Domain, epsilon: float) -> Mechanism:
    """Return the mechanism that `mechanism_to_fields` described, with its very integers.

    Raises
    ------
    ParameterError
        When the fields do not describe a known mechanism on this domain.
    """
    try:
        name, version, (kind, placement, *kernel) = fields
        cls = MECHANISMS.get((name, version))
    except (TypeError, ValueError):
        raise ParameterError("mechanism must be [name, version, [kind, placement, ...]]") from None
    if cls is None or kind != cls.kind:
        known = ", ".join(f"{n} version {v}" for n, v in MECHANISMS)
        raise ParameterError(
            f"mechanism {name!r} version {version!r} ({kind!r}) is not known; known are {known}"
        )
    try:
        return cls.from_fields(domain, epsilon, placement, kernel)
    except ParameterError:
        raise
    except (TypeError, ValueError) as error:  # too few or too many fields
        raise ParameterError(f"the kernel of mechanism {name!r} has other fields: {error}") from None
