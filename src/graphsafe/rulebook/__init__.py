"""The rulebook: rules and models of libraries as data, their files, their cases and their pages."""
