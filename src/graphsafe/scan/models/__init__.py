"""What libraries do when they are called: Python itself, torch, and those of the rulebook."""
