"""The parent's side of planning: which plan children run, and how the report shows the plan."""
