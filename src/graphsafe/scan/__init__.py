"""Reads source and predicts. A call of the package runs `graphsafe.api.scan`."""
