"""Draws the step over time as lanes of bars, for an HTML page and for a trace that Perfetto shows."""
