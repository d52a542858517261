-- Keys, closed tasks, report totals, and a name for the store.

-- The definition moves to the end of the row: it may be 200 kB, and every commit reads what stands before it.
CREATE TABLE task_2 (
    number     INTEGER PRIMARY KEY,
    id         BLOB NOT NULL UNIQUE,  -- SHA-256 of the canonical bytes
    open_from  INTEGER NOT NULL DEFAULT 0,  -- batch ids of earlier epochs are forgotten: such batches are refused
    closed     INTEGER,  -- Unix seconds; NULL while the task takes reports
    definition BLOB NOT NULL  -- the canonical bytes
);
INSERT INTO task_2 (number, id, open_from, definition) SELECT number, id, open_from, definition FROM task;
DROP TABLE task;
ALTER TABLE task_2 RENAME TO task;

-- Reports counted so far: what changes whenever the counts change, in one small row.
-- `reports_in` is a function of the program that migrates: the sum of the integers in a row of counts.
CREATE TABLE total (
    task    INTEGER PRIMARY KEY REFERENCES task (number),
    reports INTEGER NOT NULL
);
INSERT INTO total (task, reports) SELECT task, sum(reports_in(codes)) FROM counts GROUP BY task;

-- Keys of the API, hashed.
CREATE TABLE api_key (
    id      TEXT PRIMARY KEY,
    digest  BLOB NOT NULL,
    scope   TEXT NOT NULL CHECK (scope IN ('ingest', 'read', 'admin')),
    tasks   TEXT,  -- JSON array of task ids in hex; NULL: good for all tasks
    label   TEXT NOT NULL,
    created INTEGER NOT NULL,  -- Unix seconds
    revoked INTEGER  -- Unix seconds; NULL while the key is good
) WITHOUT ROWID;

-- Whose reports are in the counts: this store itself under a random id, and every store that was merged into it.
CREATE TABLE origin (
    id     BLOB PRIMARY KEY,
    own    INTEGER NOT NULL,
    merged INTEGER  -- Unix seconds; NULL for the store itself
) WITHOUT ROWID;
INSERT INTO origin (id, own) VALUES (randomblob(16), 1);
