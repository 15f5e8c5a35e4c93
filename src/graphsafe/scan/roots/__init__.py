"""Where hot code begins, and how far calls are followed from there."""
