"""The request of a scan: its paths, its settings, and the wait for changes before it is made again."""
