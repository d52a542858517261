"""Reports that honest devices did not send: the fit test, and what liars who stay unseen can do."""

__all__: list[str] = []
