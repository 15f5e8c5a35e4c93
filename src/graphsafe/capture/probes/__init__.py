"""One module a probe: each runs in a child and says what it saw as plain data."""
