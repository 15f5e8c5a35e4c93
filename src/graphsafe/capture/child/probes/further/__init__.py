"""Further steps: the step that is compared, counters that are moved ahead, and what the host gives to a step."""
