"""What names mean: what each file defines, and what its imports, classes and registrations lead to."""
