"""Reads source code and predicts findings. The public function is `graphsafe.api.scan`."""
