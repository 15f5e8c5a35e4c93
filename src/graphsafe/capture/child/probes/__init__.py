"""One module per probe. Each runs in a child and returns what it saw as plain data."""
