-- Released epochs.

-- Below which epoch it is decided what may be shown where only closed epochs are: those in `released`, no other ever.
CREATE TABLE decided (
    task    INTEGER PRIMARY KEY REFERENCES task (number),
    before  INTEGER NOT NULL,
    changes INTEGER NOT NULL  -- times that `released` changed in another way than by a decision
);

-- Frozen: the counts of these epochs never change.
CREATE TABLE released (
    task    INTEGER NOT NULL REFERENCES task (number),
    epoch   INTEGER NOT NULL,
    reports INTEGER NOT NULL,
    PRIMARY KEY (task, epoch)
) WITHOUT ROWID;
