"""``python -m arcwise``: the `arcwise` command of this very interpreter."""

from __future__ import annotations

from arcwise.command import main

if __name__ == "__main__":
    main()
