"""Files: their paths, their text, and syntax trees of parts of it."""
