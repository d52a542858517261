"""The command line of the app: ``python -m ride_logger consent yes``, ``status``, ``run``."""

from __future__ import annotations

import argparse
import logging
import sys
from contextlib import ExitStack
from typing import TYPE_CHECKING, TextIO

from arcwise.client import Outcome
from arcwise.errors import LedgerError

from .places import state_folder
from .question import RIDE
from .rides import read_rides, simulated_rides, until_stopped
from .telemetry import Telemetry

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from arcwise.client import Client

    from .rides import Ride

_log = logging.getLogger(__name__)

_MESSAGES = {
    Outcome.ACCEPTED: "its report is on its way",
    Outcome.CAPPED: "not reported: this device has used up its lifetime budget",
    Outcome.FULL: "not reported: too many reports wait to be sent",
    Outcome.OPTED_OUT: "not reported: you have opted out",
    Outcome.FAILED: "not reported: the ledger cannot be written",
    Outcome.NO_RANDOMNESS: "not reported: the system has no random bytes",
}


def main() -> int:
    """Run one command; return its exit code."""
    chosen = _parser().parse_args()
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(message)s")
    logging.getLogger("httpx").setLevel(logging.WARNING)
    folder = state_folder()
    telemetry = Telemetry(folder, chosen.url)
    try:
        if chosen.command == "run":
            _run(folder, telemetry, chosen)
        elif chosen.command == "consent":
            (telemetry.agree if chosen.answer == "yes" else telemetry.decline)()
            print(telemetry.status())
        else:
            print(telemetry.status())
    except LedgerError as error:  # lost or damaged: the spending is unknown, so nothing may be reported
        _log.debug("%s", error)
        print("Telemetry is off: its ledger cannot be used. Nothing about your rides leaves this device.")
        return 1 if chosen.command == "consent" and chosen.answer == "yes" else 0
    return 0


def _run(folder: Path, telemetry: Telemetry, chosen: argparse.Namespace) -> None:
    """Log rides for the user, which must work even if telemetry fails."""
    folder.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        rides: Iterator[Ride]
        if chosen.simulate is None:
            rides = read_rides(stack.enter_context(chosen.rides))
        else:
            rides = simulated_rides(chosen.simulate)
        log = stack.enter_context((folder / "rides.csv").open("a", encoding="ascii"))
        client = None
        if telemetry.asked:
            try:
                client = stack.enter_context(telemetry.client())
            except LedgerError as error:
                _log.warning("continuing without telemetry: %s", error)
        for ride in until_stopped(rides):
            _log_ride(ride, log, client)
    _log.info("stopped")


def _log_ride(ride: Ride, log: TextIO, client: Client | None) -> None:
    log.write(f"{ride.heading:g},{ride.minutes:g}\n")
    log.flush()
    if client is None:
        _log.info("logged a ride")
    else:
        _log.info("logged a ride; %s", _MESSAGES[client.report(RIDE.name, ride._asdict())])


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="ride_logger", description="Log rides, and report them if you agree."
    )
    parser.add_argument("--url", default="http://127.0.0.1:8000", help="the server that receives the reports")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    consent = commands.add_parser("consent", help="agree to telemetry, or opt out of it")
    consent.add_argument("answer", choices=["yes", "no"])
    commands.add_parser("status", help="show what was reported, and how much may still be reported")
    run = commands.add_parser("run", help="log rides until they end, or until SIGTERM or Ctrl-C")
    run.add_argument(
        "--rides",
        type=argparse.FileType("r"),
        default="-",
        metavar="FILE",
        help="lines of heading,minutes; by default standard input",
    )
    run.add_argument(
        "--simulate", type=float, metavar="SECONDS", help="simulate a ride every SECONDS seconds"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
