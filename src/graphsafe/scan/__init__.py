"""Reads source and predicts findings. `graphsafe.api.scan` is the public function for it."""
