"""What names mean across files: definitions, imports, classes, registered operators."""
