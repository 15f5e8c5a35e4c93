"""Files: their paths, their source code, and syntax trees of parts of it."""
