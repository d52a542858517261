"""The options that both uplinks take."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from arcwise.client import Uplink
from arcwise.errors import ParameterError

if TYPE_CHECKING:
    from arcwise.tasks import Task
    from tests.support.twins import Twin

URL = "http://127.0.0.1:1"


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("ftp://a.example", "http:// or https://"),
        ("a.example", "http:// or https://"),
        ("http://", "name a host"),
        ("", "http:// or https://"),
        ("http://a.example:port", "not a URL"),
        ("http://a.example?x=1", "without user, query or fragment"),
        ("http://a.example/?", "without user, query or fragment"),
        ("http://a.example#", "without user, query or fragment"),
        (" https://a.example", "begin or end with blanks"),
        ("https://a.example\n", "begin or end with blanks"),
        ("https://a.example\r\n.other", "control characters"),
        ("https://local\thost", "control characters"),
        ("http://u:p@a.example", "without user"),
        (7, "must be a string"),
    ],
)
def test_bad_urls(url: Any, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        Uplink(url)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("batch_size", 0),
        ("batch_size", 500_001),
        ("batch_size", 1.5),
        ("max_pending", 0),
        ("interval", -1),
        ("interval", float("nan")),
        ("max_age_days", 0),
        ("request_timeout", 0),
        ("request_timeout", "1"),
        ("interval", 10**400),
    ],
)
def test_bad_options(option: str, value: Any) -> None:
    with pytest.raises(ParameterError, match=f"{option} must be .* got {value!r}"):
        Uplink(URL, **{option: value})


BAD_TIMEOUTS = [None, "x", float("nan"), float("inf"), -1, True, 10**400]


@pytest.mark.parametrize("timeout", BAD_TIMEOUTS, ids=range(len(BAD_TIMEOUTS)))
def test_bad_timeouts(twin: Twin, heading: Task, timeout: Any) -> None:
    with twin.uplink(URL) as uplink, twin.client(URL, tasks=[heading]) as client:
        sharing = twin.client(uplink, tasks=[heading])
        for method in (uplink.flush, uplink.close, client.flush, client.close, sharing.close):
            with pytest.raises(ParameterError, match=r"timeout must be .* got "):
                method(timeout)
        uplink._start()  # not closed
