"""SIGKILLs of servers that write an archive: each counted batch is in it once, whatever dies when.

As `tests.soak.kill_server`, with `--archive`. Wherever all workers are dead, each counted batch must be in a
file or wait for one, and in both only where the file was begun; at the end each is in one file, as it was
sent. Exits with 1 when a batch is missing, twice or another one.

    python -m tests.soak.archive_kills --kills 50 --store sqlite|postgresql|both
"""

from __future__ import annotations

import sys

from tests.soak.kill_server import Setting, arguments, passes

# Few workers, of which one writes the archive: half of the kills at least end the one that does.
SETTINGS = {"sqlite": Setting("SQLite", 1), "postgresql": Setting("PostgreSQL", 2)}


def main() -> None:
    given = arguments(__doc__, kills=50, senders=24)
    results = [
        passes(SETTINGS[store], given.kills, given.seed, given.senders, archive=True)
        for store in given.stores
    ]
    sys.exit(0 if all(results) else 1)


if __name__ == "__main__":
    main()
