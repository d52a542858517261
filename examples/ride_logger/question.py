"""What this app asks of a device, and what a device may spend on it: all of it ships with the app."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from arcwise.tasks import Caps, Group

# Made once, with:
#   arcwise group new ride --task heading=circle:360 --task minutes=0:240 --clip --epsilon 2 \
#       --rolling-cap 20 --lifetime-cap 2000 -o ride.json
# The same file goes to the server. Its id stands here too, so that a file that was exchanged is refused.
RIDE_ID: Final = "48c63a4bb76b1049f8617404fea089821c1429fe386a2be98291c6cdc6b30035"

RIDE: Final = Group.load(Path(__file__).with_name("ride.json"))
if RIDE.id != RIDE_ID:
    raise SystemExit(f"ride.json is not what this app was written for: its id is {RIDE.id}")

MAX_EPSILON: Final = 2.0
"""No version of ride.json may ask for more in one ride."""

DEVICE_CAPS: Final = Caps(lifetime=5000.0)
"""A changed question has a new budget of its own; this one holds over all of them, for ever."""
