"""Runs a step and proves that it can be captured and replayed. A call of the package runs `graphsafe.api.capture`."""
