"""Several ranks of one target: which processes they are, how they keep in step, and what they tell of each other."""
