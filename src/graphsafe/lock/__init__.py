"""graphsafe.lock: the proof of each target, stored beside the code, and the regressions since that proof."""
