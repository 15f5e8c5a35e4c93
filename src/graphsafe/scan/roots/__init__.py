"""Where hot code begins, and which files may lead there."""
