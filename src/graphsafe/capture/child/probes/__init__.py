"""One module per probe. Each probe runs in a child process and returns its observations as plain data."""
