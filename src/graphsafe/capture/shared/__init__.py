"""Code that the parent and its children both use. Nothing here imports code of the parent or of a child."""
