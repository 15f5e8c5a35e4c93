"""What becomes of a graph's results: who keeps them, which replay overwrites them, who looks at them afterwards."""
