"""The child's side of planning: searches a plan, captures it in pieces and emits its code."""
