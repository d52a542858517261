-- Sessions, the audit log, keys for metrics, and numbers of the server that ran last.

ALTER TABLE api_key DROP CONSTRAINT api_key_scope_check;
ALTER TABLE api_key ADD CONSTRAINT api_key_scope_check CHECK (scope IN ('ingest', 'read', 'metrics', 'admin'));

-- Who is logged in. Nothing in this table lets anybody in: tokens have 256 random bits.
CREATE TABLE session (
    digest  bytea PRIMARY KEY,  -- SHA-256 of the token
    api_key text NOT NULL,  -- id of the key that it was begun with
    created bigint NOT NULL,  -- Unix seconds, as the other two
    seen    bigint NOT NULL,  -- when it was last used
    ends    bigint NOT NULL  -- the absolute end
);

-- What was changed by whom.
CREATE TABLE action (
    number  bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    time    bigint NOT NULL,  -- Unix seconds
    api_key text NOT NULL,  -- id of a key; empty: a command on the store
    action  text NOT NULL,
    subject text NOT NULL,
    outcome text NOT NULL
);

-- Settings of the server that ran last, for commands that read the store by themselves.
CREATE TABLE remembered (
    name  text PRIMARY KEY,
    value bigint NOT NULL
);
