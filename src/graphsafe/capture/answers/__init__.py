"""The data that children answer with: made in a child, read in the parent."""
