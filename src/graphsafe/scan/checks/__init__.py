"""Judgements that need more than the one place that an event comes from."""
