"""Where randomised codes wait until the server has them: in memory, or in the ledger's file."""

__all__: list[str] = []
