-- Sessions, the audit log, keys for metrics, and numbers of the server that ran last.

-- SQLite changes no CHECK of a table that is there.
CREATE TABLE api_key_6 (
    id      TEXT PRIMARY KEY,
    digest  BLOB NOT NULL,
    scope   TEXT NOT NULL CHECK (scope IN ('ingest', 'read', 'metrics', 'admin')),
    tasks   TEXT,  -- JSON array of task ids in hex; NULL: good for all tasks
    label   TEXT NOT NULL,
    created INTEGER NOT NULL,  -- Unix seconds
    revoked INTEGER  -- Unix seconds; NULL while the key is good
) WITHOUT ROWID;
INSERT INTO api_key_6 (id, digest, scope, tasks, label, created, revoked)
SELECT id, digest, scope, tasks, label, created, revoked FROM api_key;
DROP TABLE api_key;
ALTER TABLE api_key_6 RENAME TO api_key;

-- Who is logged in. Nothing in this table lets anybody in: tokens have 256 random bits.
CREATE TABLE session (
    digest  BLOB PRIMARY KEY,  -- SHA-256 of the token
    api_key TEXT NOT NULL,  -- id of the key that it was begun with
    created INTEGER NOT NULL,  -- Unix seconds, as the other two
    seen    INTEGER NOT NULL,  -- when it was last used
    ends    INTEGER NOT NULL  -- the absolute end
) WITHOUT ROWID;

-- What was changed by whom.
CREATE TABLE action (
    number  INTEGER PRIMARY KEY AUTOINCREMENT,  -- never used again: readers page by it
    time    INTEGER NOT NULL,  -- Unix seconds
    api_key TEXT NOT NULL,  -- id of a key; empty: a command on the store
    action  TEXT NOT NULL,
    subject TEXT NOT NULL,
    outcome TEXT NOT NULL
);

-- Settings of the server that ran last, for commands that read the store by themselves.
CREATE TABLE remembered (
    name  TEXT PRIMARY KEY,
    value INTEGER NOT NULL
) WITHOUT ROWID;
