"""Judges the buckets of one target together."""
