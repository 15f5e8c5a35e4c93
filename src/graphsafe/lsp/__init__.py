"""The language server: reports findings to an editor for its open files."""
