"""Side streams, and copies on them."""
