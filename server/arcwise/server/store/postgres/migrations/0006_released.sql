-- Released epochs.

-- Below which epoch it is decided what may be shown where only closed epochs are: those in `released`, no other ever.
CREATE TABLE decided (
    task    integer PRIMARY KEY,
    before  bigint NOT NULL,
    changes bigint NOT NULL  -- times that `released` changed in another way than by a decision
);

-- Frozen: the counts of these epochs never change.
CREATE TABLE released (
    task    integer NOT NULL,
    epoch   bigint NOT NULL,
    reports bigint NOT NULL,
    PRIMARY KEY (task, epoch)
);
