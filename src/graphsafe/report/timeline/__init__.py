"""The step in time, drawn: lanes of bars, as a page's picture and as a trace for Perfetto."""
