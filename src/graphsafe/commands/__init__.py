"""The commands with many options, one module each, and what they share."""
