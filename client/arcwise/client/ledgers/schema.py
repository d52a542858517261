"""The tables of a ledger's file."""

from __future__ import annotations

from typing import Final

__all__ = ["APPLICATION_ID", "SCHEMA", "VERSION"]

APPLICATION_ID: Final = 0x61726377
"""What SQLite's header says of the file: "arcw"."""

VERSION: Final = 1

SCHEMA: Final = """
-- One row. The time is the largest that was ever seen.
CREATE TABLE state (
    only INTEGER PRIMARY KEY CHECK (only = 1),
    now REAL NOT NULL,
    opted_out INTEGER NOT NULL CHECK (opted_out IN (0, 1)),
    pending INTEGER NOT NULL CHECK (pending >= 0),
    sent INTEGER NOT NULL CHECK (sent >= 0)
);
INSERT INTO state VALUES (1, 0, 0, 0, 0);

CREATE TABLE dropped (reason TEXT PRIMARY KEY, reports INTEGER NOT NULL CHECK (reports > 0)) WITHOUT ROWID;

-- What was spent: micro-epsilon, and delta in units of 2**-64 as a decimal, since sums exceed 64 bits.
-- An account is a task's id, a group's id, or '' for everything; "recent" is about the rolling window.
CREATE TABLE accounts (
    account TEXT PRIMARY KEY,
    name TEXT NOT NULL,
    epsilon INTEGER NOT NULL CHECK (epsilon >= 0),
    delta TEXT NOT NULL,
    window INTEGER NOT NULL CHECK (window >= 0),
    recent_epsilon INTEGER NOT NULL CHECK (recent_epsilon BETWEEN 0 AND epsilon),
    recent_delta TEXT NOT NULL
) WITHOUT ROWID;

-- The charges that a rolling cap still counts, by the whole second at which they were made.
CREATE TABLE entries (
    account TEXT NOT NULL,
    second INTEGER NOT NULL,
    epsilon INTEGER NOT NULL,
    delta TEXT NOT NULL,
    PRIMARY KEY (account, second)
) WITHOUT ROWID;

CREATE TABLE tasks (
    number INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    name TEXT NOT NULL,
    width INTEGER NOT NULL CHECK (width IN (1, 2))
);

-- Codes that wait. Times are the wall clock's; "ready" is the end of a random delay.
CREATE TABLE reports (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    task INTEGER NOT NULL REFERENCES tasks,
    epoch INTEGER NOT NULL,
    code INTEGER NOT NULL,
    created REAL NOT NULL,
    ready REAL NOT NULL
);
CREATE INDEX reports_by_batch ON reports (task, epoch);

-- Sealed batches: these bytes, and no others, are sent until they are acknowledged or dropped.
CREATE TABLE batches (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    task INTEGER NOT NULL REFERENCES tasks,
    reports INTEGER NOT NULL CHECK (reports > 0),
    first_report INTEGER NOT NULL,
    created REAL NOT NULL,
    leased_until REAL NOT NULL DEFAULT 0,
    leased_by INTEGER NOT NULL DEFAULT 0,
    body BLOB NOT NULL
);

-- Waits between attempts, of everything ('') and of single tasks; wall-clock times until which they last.
CREATE TABLE waits (
    scope TEXT PRIMARY KEY,
    failures INTEGER NOT NULL,
    own REAL NOT NULL,
    asked REAL NOT NULL
) WITHOUT ROWID;

-- Memoised tasks: the draw that rounds their values, how many answers are paid for, and the answers.
CREATE TABLE memos (task TEXT PRIMARY KEY, draw TEXT NOT NULL, paid INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE answers (
    task TEXT NOT NULL,
    node INTEGER NOT NULL,
    code INTEGER NOT NULL,
    PRIMARY KEY (task, node)
) WITHOUT ROWID;
"""
