"""What earlier scans of a project still answer, from the cache."""
