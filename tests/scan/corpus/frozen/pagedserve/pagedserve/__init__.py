"""A small decode engine with a paged KV cache."""
