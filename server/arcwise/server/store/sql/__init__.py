"""What the stores with tables share: each statement that both databases understand stands here, once."""

__all__: list[str] = []
