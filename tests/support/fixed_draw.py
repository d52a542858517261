"""A source of randomness that gives one draw for ever: what a mechanism makes of it can be written down."""

from __future__ import annotations

__all__ = ["FixedDraw"]


class FixedDraw:
    """Gives the same draw for ever."""

    secure = False

    def __init__(self, r: int, u: int) -> None:
        self.r, self.u = r, u

    def draw(self) -> tuple[int, int]:
        return self.r, self.u

    def draws(self, count: int) -> bytes:
        return (self.r.to_bytes(8, "little") + self.u.to_bytes(8, "little")) * count
