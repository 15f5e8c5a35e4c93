"""Metrics that are updated batch by batch."""
