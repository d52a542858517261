-- Tasks, batch ids and counts.

-- The tasks that were ever served, by a short number that the other tables use.
CREATE TABLE task (
    number     INTEGER PRIMARY KEY,
    id         BLOB NOT NULL UNIQUE,  -- SHA-256 of the canonical bytes
    definition BLOB NOT NULL,         -- the canonical bytes
    open_from  INTEGER NOT NULL DEFAULT 0  -- batch ids of earlier epochs are forgotten: such batches are refused
);

-- The batches that are in the counts. Random ids: the primary key is the only index.
CREATE TABLE batch (
    task  INTEGER NOT NULL REFERENCES task (number),
    id    BLOB NOT NULL,
    epoch INTEGER NOT NULL,
    PRIMARY KEY (task, id)
) WITHOUT ROWID;

-- Reports per code: K little-endian signed 64-bit integers in one row, so that a commit rewrites one small
-- row per task and epoch however many codes a group of batches touches.
CREATE TABLE counts (
    task  INTEGER NOT NULL REFERENCES task (number),
    epoch INTEGER NOT NULL,
    codes BLOB NOT NULL,
    PRIMARY KEY (task, epoch)
);
