"""Several buckets of one step: what of them is supported, and what they do to each other in one pool."""
