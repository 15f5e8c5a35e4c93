"""Files: which there are, their text, and syntax trees of parts of it."""
