"""Oblivious HTTP: a relay sees addresses but no content, a gateway sees content but no addresses.

Needs ``arcwise[oblivious]``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from arcwise.extras import check_extra
from arcwise.lazy import lazy_names

if TYPE_CHECKING:
    from arcwise.oblivious.messages import GatewayKey, KeyConfig, decode_key_configs, encode_key_configs

__all__ = ["GatewayKey", "KeyConfig", "decode_key_configs", "encode_key_configs"]

check_extra("oblivious", "cryptography", user="an oblivious path")

if not TYPE_CHECKING:
    __getattr__ = lazy_names(__name__, {"messages": tuple(__all__)})
