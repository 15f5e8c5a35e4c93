"""Captures and replays all buckets of a target in one process."""
