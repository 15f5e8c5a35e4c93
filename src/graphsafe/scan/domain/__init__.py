"""Abstract values and their joins, summaries, events, and memoised queries. Imports no other package of scan."""
