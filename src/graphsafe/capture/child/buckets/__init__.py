"""Captures and replays the buckets of a target, in a child."""
