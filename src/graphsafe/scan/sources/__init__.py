"""From bytes to trees: which files there are, their text, and the syntax of parts of it."""
