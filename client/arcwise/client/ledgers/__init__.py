"""Where a device's spending is written down: in memory, or in a file that also holds its queue."""

__all__: list[str] = []
