"""Speculative decoding: draft, verify, accept."""
