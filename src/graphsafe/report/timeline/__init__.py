"""Draws the step over time as lanes of bars, for a picture in a page and for a trace for Perfetto."""
