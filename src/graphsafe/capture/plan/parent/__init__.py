"""The parent's part of planning: decides which planning children run, and how the report shows the plan."""
