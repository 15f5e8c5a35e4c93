"""Captures that failed: the lines that broke them, and the handlers that swallowed the errors."""
