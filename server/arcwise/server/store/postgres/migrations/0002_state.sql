-- A secret, and the time that servers believe.

-- What belongs to the store itself; neither leaves it with an export.
CREATE TABLE state (
    one    integer PRIMARY KEY CHECK (one = 1),  -- a single row
    secret bytea NOT NULL,  -- 32 bytes, 244 bits of them random: the key of what readers see of hashed counts
    clock  bigint  -- the latest time that a server believed, in Unix seconds; NULL: none has run
);
INSERT INTO state (one, secret) VALUES (1, uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()));
