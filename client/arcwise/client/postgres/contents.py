"""What an account holds, as JSON: the largest time seen, what was spent, and the answers that were given.

All numbers are whole: micro-epsilon, delta in units of 2**-64, seconds, and nodes and codes. PostgreSQL's
``jsonb`` keeps integers of any length exactly.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from arcwise.client.memory.contents import Account, Contents, KeptAnswers

if TYPE_CHECKING:
    from collections.abc import Mapping


def to_json(contents: Contents) -> dict[str, Any]:
    """Return what JSON keeps of the contents."""
    return {
        "now": None if contents.now == float("-inf") else contents.now,
        "accounts": {name: _account_to_json(account) for name, account in contents.accounts.items()},
        "memos": {
            task: {
                "draw": memo.draw,
                "paid": memo.paid,
                "answers": {str(node): code for node, code in memo.items()},
            }
            for task, memo in contents.memos.items()
        },
    }


def _account_to_json(account: Account) -> dict[str, Any]:
    balance = account.balance
    return {
        "epsilon": balance.epsilon,
        "delta": balance.delta,
        "window": balance.window,
        "recent_epsilon": balance.recent_epsilon,
        "recent_delta": balance.recent_delta,
        "entries": [list(entry) for entry in account.entries],
    }


def from_json(kept: Mapping[str, Any]) -> Contents:
    """Return the contents; anything but what `to_json` returns raises KeyError, TypeError or ValueError."""
    contents = Contents()
    if kept["now"] is not None:
        contents.now = float(kept["now"])
    for name, there in kept["accounts"].items():
        account = contents.accounts[name] = Account()
        for attribute in ("epsilon", "delta", "window", "recent_epsilon", "recent_delta"):
            setattr(account.balance, attribute, _count(there[attribute]))
        account.entries.extend(
            (_integer(second), _count(epsilon), _count(delta)) for second, epsilon, delta in there["entries"]
        )
    for task, there in kept["memos"].items():
        memo = contents.memos[task] = KeptAnswers(_count(there["draw"]), _count(there["paid"]))
        memo.update((int(node), _count(code)) for node, code in there["answers"].items())
    return contents


def _integer(value: object) -> int:
    if type(value) is not int:
        raise ValueError("not an integer")
    return value


def _count(value: object) -> int:
    if _integer(value) < 0:
        raise ValueError("negative")
    return _integer(value)
