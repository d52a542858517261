"""The options that both uplinks take."""

from __future__ import annotations

from typing import Any

import pytest

from arcwise.client import Uplink
from arcwise.errors import ParameterError

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
    ],
)
def test_bad_options(option: str, value: Any) -> None:
    with pytest.raises(ParameterError, match=f"{option} must be .* got {value!r}"):
        Uplink(URL, **{option: value})
