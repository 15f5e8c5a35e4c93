"""Many replays of one graph: what grows, slows down, drifts and fails late."""
