"""The mechanisms by name: what a task's bytes may name, and how its kernel is read back.

A name with its version never changes its meaning and is never removed; a change is a new version.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from arcwise.errors import ParameterError
from arcwise.kernels.window import WindowKernel
from arcwise.mechanisms.optimal import OptimalCircular, OptimalPiecewise

if TYPE_CHECKING:
    from arcwise.domains import Domain
    from arcwise.mechanisms.base import Mechanism

__all__ = ["MECHANISMS", "mechanism_from_fields", "mechanism_to_fields"]

MECHANISMS: dict[tuple[str, int], type[OptimalPiecewise] | type[OptimalCircular]] = {
    (cls.name, cls.version): cls for cls in (OptimalPiecewise, OptimalCircular)
}


def mechanism_to_fields(mechanism: Mechanism) -> list[Any]:
    """Return ``[name, version, [kind, placement, K, N, W, b, g]]``: the sampler, resolved to integers."""
    k = mechanism.kernel
    kernel = ["window", mechanism.placement, k.codes, k.nodes, k.window, k.background, k.extra]
    return [mechanism.name, mechanism.version, kernel]


def mechanism_from_fields(fields: Any, domain: Domain, epsilon: float) -> Mechanism:
    """Return the mechanism that `mechanism_to_fields` described, with its very integers.

    Raises
    ------
    ParameterError
        When the fields do not describe a known mechanism on this domain.
    """
    try:
        name, version, (kind, placement, codes, nodes, window, background, extra) = fields
        cls = MECHANISMS.get((name, version))
    except (TypeError, ValueError):
        raise ParameterError(
            "mechanism must be [name, version, [kind, placement, codes, nodes, window, background, extra]]"
        ) from None
    if cls is None or kind != "window":
        known = ", ".join(f"{n} version {v}" for n, v in MECHANISMS)
        raise ParameterError(
            f"mechanism {name!r} version {version!r} ({kind!r}) is not known; known are {known}"
        )
    kernel = WindowKernel(codes, nodes, window, background, extra, circular=placement == "wrap")
    return cls.from_kernel(domain, epsilon, placement, kernel)  # type: ignore[arg-type]
