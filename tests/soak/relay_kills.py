"""SIGKILLs of gateways, and of the relays before them, under load: each acknowledged report is counted once.

As `tests.soak.kill_server`, with senders that know only relays, one before each worker: what is tried again
is encrypted anew. Exits with 1 when anything is lost or counted twice, or a relay acknowledges a batch.

    python -m tests.soak.relay_kills --kills 50 --store sqlite|postgresql|both
"""

from __future__ import annotations

import sys

from tests.soak.kill_server import Setting, arguments, passes

SETTINGS = {"sqlite": Setting("SQLite", 1), "postgresql": Setting("PostgreSQL", 2)}


def main() -> None:
    given = arguments(__doc__, kills=50, senders=24)
    results = [
        passes(SETTINGS[store], given.kills, given.seed, given.senders, oblivious=True)
        for store in given.stores
    ]
    sys.exit(0 if all(results) else 1)


if __name__ == "__main__":
    main()
