"""Mechanisms on a circle: what they share, whatever their kernel."""

from __future__ import annotations

from typing import ClassVar

from arcwise.domains import Circle
from arcwise.errors import ParameterError
from arcwise.mechanisms.base import Mechanism


class CircularMechanism(Mechanism):
    """A mechanism on a `Circle` that commutes with turning: K nodes, K codes, moments that only shrink."""

    __slots__ = ()

    domain_type: ClassVar[type[Circle]] = Circle

    domain: Circle

    @property
    def placement(self) -> str:
        """Always "wrap"."""
        return "wrap"

    @property
    def default_goal(self) -> str:
        """The goal "direction"."""
        return "direction"

    @property
    def unbiased(self) -> bool:
        """False: on a circle a single report has no unbiased decoding; moments are corrected instead."""
        return False

    def attenuation(self, order: int = 1) -> float:
        """Return rho_k of the integer rows, by which ``E exp(2 pi i k x)`` of the decoded reports shrinks."""
        raise NotImplementedError


def check_circle(domain: object, name: str) -> Circle:
    """Return the domain, or raise `ParameterError` when it is no `Circle`."""
    if not isinstance(domain, Circle):
        raise ParameterError(f"domain must be a Circle, got {domain!r}: {name} supports no other domain")
    return domain
