"""Sources of known randomness: a mechanism's result for a draw can be written down."""

from __future__ import annotations


class FixedDraw:
    """Gives the same draw for ever."""

    secure = False

    def __init__(self, r: int, u: int) -> None:
        self.r, self.u = r, u

    def draw(self) -> tuple[int, int]:
        return self.r, self.u

    def draws(self, count: int) -> bytes:
        return (self.r.to_bytes(8, "little") + self.u.to_bytes(8, "little")) * count


class Untouchable:
    """A source that nothing may be drawn from."""

    secure = False

    def draw(self) -> tuple[int, int]:
        raise AssertionError("something was drawn")

    def draws(self, count: int) -> bytes:
        raise AssertionError(f"{count} draws were taken")
