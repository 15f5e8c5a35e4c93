"""graphsafe.lock: the proof of each target, kept beside the code, and what has become worse since."""
