"""A small radiance field that is trained with one step function."""
