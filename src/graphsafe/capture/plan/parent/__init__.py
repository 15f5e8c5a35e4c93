"""The part of planning that runs in the parent: decides which planning children run, and how the report shows
the plan."""
