"""Bounds on what one sender can take: rates, bodies, connections."""

from __future__ import annotations

from arcwise.server.limits.bodies import Bodies
from arcwise.server.limits.rates import Rate, address_of
from arcwise.server.limits.turns import Turns

__all__ = ["Bodies", "Rate", "Turns", "address_of"]
