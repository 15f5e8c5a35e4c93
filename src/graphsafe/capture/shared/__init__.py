"""Code that the parent and its children both use. It imports neither of them."""
