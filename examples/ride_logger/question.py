"""The app's question, and the limits on a device's spending. Both ship with the app."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from arcwise.tasks import Caps, Group

# Made once, with:
#   arcwise group new ride --task heading=circle:360 --task minutes=0:240 --clip --epsilon 1 \
#       --lifetime-cap 10 -o ride.json
# The same file goes to the server. Its id is pinned here, so that a replaced file is refused.
RIDE_ID: Final = "7b96a1f4f3c4eeaa8f9be6d3766f02add8cb7456a031df5ad11a3ea9a5adb987"

RIDE: Final = Group.load(Path(__file__).with_name("ride.json"))
if RIDE.id != RIDE_ID:
    raise SystemExit(f"ride.json is not what this app was written for: its id is {RIDE.id}")

MAX_EPSILON: Final = 1.0
"""No version of ride.json may spend more on one ride."""

DEVICE_CAPS: Final = Caps(lifetime=20.0)
"""Each new version of the question has a new budget; these caps hold for all versions together, for ever."""
