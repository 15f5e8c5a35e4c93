"""What is computed: abstract values and their joins, events, and the record of them; imports nothing else of scan."""
