"""Detection and video in small."""
