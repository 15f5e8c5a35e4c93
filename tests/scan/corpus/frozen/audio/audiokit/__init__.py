"""Streaming speech recognition in small."""
