"""From events to findings, each with the way that leads to it."""
