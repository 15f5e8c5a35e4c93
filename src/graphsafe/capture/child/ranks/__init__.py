"""A child's rank, and its exchange with the other ranks."""
