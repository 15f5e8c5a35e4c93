"""Hazards that span several lines: streams, random draws, fixed device names, captures and replays."""
