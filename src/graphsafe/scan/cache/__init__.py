"""The results that one scan keeps for the next: the whole report, and the index of each file."""
