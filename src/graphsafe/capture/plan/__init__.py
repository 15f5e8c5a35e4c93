"""Plans a step that cannot be captured as a whole. Some statements run eagerly (the breaks), and the code between them
is captured (the segments)."""
