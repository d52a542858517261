"""The person who looks at a page, and what they may see on it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from arcwise.server.access.gate import require

if TYPE_CHECKING:
    from starlette.requests import Request

    from arcwise.server.access.gate import Actor
    from arcwise.server.runtime import Runtime


class Viewer(NamedTuple):
    """The person who looks at a page, and what they may see and do.

    `session` says whether they logged in and so can log out, `operates` whether they may see the operator
    page, and `writes` whether they may change something there. `logs_in` says whether they see the page
    without a key although a key would show more. Their results use the share of computing time of `reader`.
    """

    actor: Actor
    session: bool
    operates: bool
    writes: bool
    logs_in: bool
    reader: str

    @property
    def shown(self) -> tuple[object, ...]:
        """The parts of the viewer that a page depends on, for its entity tag."""
        return self.session, self.operates, self.writes, self.logs_in

    def readable(self, runtime: Runtime) -> list[str]:
        """Return the ids of the tasks that the viewer may see.

        Raises a 403 `Problem` when the viewer's key may not read any task.
        """
        if self.actor.key is not None:
            require(self.actor, "read", (self.actor.key.tasks or (None,))[0])
        return self.actor.readable(runtime.catalogue.tasks)

    @classmethod
    def of(cls, runtime: Runtime, request: Request) -> Viewer:
        """Return the viewer who sent a request; raises as `Gate.actor` does."""
        actor, settings = runtime.gate.actor(request.scope), runtime.settings
        writes = actor.may("admin") and not runtime.read_only
        # The operator page has live figures: without a key it is shown only if all counts are shown live.
        alone = actor.key is None and settings.open is None and settings.min_reports <= 1
        alone = alone and runtime.releasing.all_live(runtime.catalogue.tasks.values())
        return cls(
            actor,
            session=actor.session is not None,
            operates=writes or (alone and not runtime.read_only),
            writes=writes,
            logs_in=actor.key is None and settings.open is True and not runtime.read_only,
            reader=actor.reader(request.scope),
        )
