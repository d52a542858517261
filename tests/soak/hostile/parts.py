"""The parts of `tests/soak/hostile`: an attack each, the server's options, and how much it may grow."""

from __future__ import annotations

from tests.soak.hostile.attack import Part
from tests.soak.hostile.senders import flood, send_bodies, send_requests
from tests.soak.hostile.waits import be_idle, be_slow, take_nothing

__all__ = ["PARTS"]

_SHORT = ("--header-seconds", "1", "--body-seconds", "1")
# In which a busy machine sends what is good.
_LONGER = ("--header-seconds", "10", "--body-seconds", "3")
_QUEUE = (
    "--max-waiting-bytes",
    str(256 << 10),
    "--max-body-bytes",
    str(192 << 10),
    "--max-reading-bytes",
    str(4 << 20),
)
# Beside what is unread each of forty connections may hold an answer of 0.8 MB that waits for its turn.
_UNREAD = ("--answer-seconds", "0.5", "--max-unread-bytes", str(4 << 20))

PARTS = {
    "bodies": Part("bodies", (), 48, send_bodies),
    "requests": Part("requests", _LONGER, 48, send_requests),
    "slow": Part("slow heads and bodies", _SHORT, 48, be_slow),
    "idle": Part("idle connections", ("--header-seconds", "600"), 48, be_idle),
    "unread": Part("answers not taken", _UNREAD, 128, take_nothing),
    "flood": Part("flood", _QUEUE, 96, flood, beside=False),
}
