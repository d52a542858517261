"""The tables of the ledgers in a PostgreSQL database, in a separate schema."""

from __future__ import annotations

from typing import Final

VERSION: Final = 1

LOCK_QUEUE: Final = "LOCK TABLE state IN EXCLUSIVE MODE"
"""Taken before any change of the queue and before an account's row is locked, to prevent deadlocks."""

SCHEMA: Final = """
-- One row. A change of the queue locks the table: processes seal and settle batches one at a time.
CREATE TABLE state (
    only_row boolean PRIMARY KEY CHECK (only_row),
    version integer NOT NULL,
    sent bigint NOT NULL CHECK (sent >= 0)
);
INSERT INTO state VALUES (true, 1, 0);

CREATE TABLE dropped (reason text PRIMARY KEY, reports bigint NOT NULL CHECK (reports > 0));

-- Spending and answers, see ledger.py. A report holds its account's row until its transaction ends.
CREATE TABLE accounts (
    number bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    account text NOT NULL UNIQUE,
    opted_out boolean NOT NULL DEFAULT false,
    contents jsonb NOT NULL
);

CREATE TABLE tasks (
    number bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    id text NOT NULL UNIQUE CHECK (id ~ '^[0-9a-f]{64}$'),
    name text NOT NULL,
    width integer NOT NULL CHECK (width IN (1, 2))
);

-- Waiting codes. Times are wall-clock times; "ready" is the end of a random delay. The account is needed for
-- opting out; it is deleted when the code is sealed into a batch.
CREATE TABLE reports (
    number bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    account bigint NOT NULL REFERENCES accounts ON DELETE CASCADE,
    task bigint NOT NULL REFERENCES tasks,
    epoch bigint NOT NULL,
    code integer NOT NULL CHECK (code BETWEEN 0 AND 65535),
    created double precision NOT NULL,
    ready double precision NOT NULL
);
CREATE INDEX reports_by_batch ON reports (task, epoch, number);
CREATE INDEX reports_by_account ON reports (account);

-- Sealed batches: exactly these bytes are sent until they are acknowledged or dropped.
CREATE TABLE batches (
    number bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    task bigint NOT NULL REFERENCES tasks,
    reports integer NOT NULL CHECK (reports > 0),
    first_report bigint NOT NULL,
    created double precision NOT NULL,
    leased_until double precision NOT NULL DEFAULT 0,
    leased_by bigint NOT NULL DEFAULT 0,
    owner bigint NOT NULL DEFAULT 0,
    body bytea NOT NULL
);

-- Waits between attempts, for everything ('') and for single tasks; the times are wall-clock end times.
CREATE TABLE waits (
    scope text PRIMARY KEY,
    failures integer NOT NULL,
    own double precision NOT NULL,
    asked double precision NOT NULL
);
"""

BY_READY: Final = "CREATE INDEX reports_by_ready ON reports (task, epoch, ready)"
"""Created with the tables, or when `create=True` opens tables of an earlier version."""
