"""The question that this app asks, and what a device may spend on it. All of it ships with the app."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from arcwise.tasks import Caps, Group

# Made once, with:
#   arcwise group new ride --task heading=circle:360 --task minutes=0:240 --clip --epsilon 2 \
#       --rolling-cap 20 --lifetime-cap 2000 -o ride.json
# The same file goes to the server. Its id is pinned here, so that a replaced file is refused.
RIDE_ID: Final = "48c63a4bb76b1049f8617404fea089821c1429fe386a2be98291c6cdc6b30035"

RIDE: Final = Group.load(Path(__file__).with_name("ride.json"))
if RIDE.id != RIDE_ID:
    raise SystemExit(f"ride.json is not what this app was written for: its id is {RIDE.id}")

MAX_EPSILON: Final = 2.0
"""No version of ride.json may ask for more in one ride."""

DEVICE_CAPS: Final = Caps(lifetime=5000.0)
"""A changed question has its own new budget; these caps hold for all versions together, for ever."""
