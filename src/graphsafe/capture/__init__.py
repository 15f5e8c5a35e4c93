"""Runs a step and proves that it can be captured and replayed. The package itself is callable: calling it runs
`graphsafe.api.capture`."""
