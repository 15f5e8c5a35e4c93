"""Plans a step that cannot be captured whole: which statements run eagerly, and what is captured between them."""
