"""The request of a scan: its paths, its settings, and the wait for changes before the scan is repeated."""
