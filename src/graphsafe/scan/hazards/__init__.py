"""Hazards that a single line does not show: streams, random draws, devices written as text, captures and replays."""
