"""The language server, which reports findings in open files to an editor."""
