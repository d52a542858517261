-- Batches that wait for the archive.

-- Written in the transaction that counts them, and deleted when they are in a file.
CREATE TABLE staged (
    number INTEGER PRIMARY KEY,
    task   INTEGER NOT NULL REFERENCES task (number),
    epoch  INTEGER NOT NULL,
    id     BLOB NOT NULL,
    codes  BLOB NOT NULL  -- packed, as they came
);

-- Files that are being written. After a crash they are there whole, or not at all.
CREATE TABLE archive_file (
    name  TEXT PRIMARY KEY,
    task  INTEGER NOT NULL REFERENCES task (number),
    epoch INTEGER NOT NULL
) WITHOUT ROWID;

-- The random id of the folder that the batches go to; NULL: none was ever given.
ALTER TABLE state ADD COLUMN archive BLOB;
