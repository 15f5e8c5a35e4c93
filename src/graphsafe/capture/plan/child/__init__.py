"""The part of planning that runs in children: searches for a plan, captures it in segments, and emits its code."""
