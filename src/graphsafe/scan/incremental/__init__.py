"""What earlier scans can still answer."""
