"""Plans a step that cannot be captured whole: which statements run eagerly (the breaks), and which code is captured
between them (the segments)."""
