"""The rulebook: rules and models of libraries as data, the files and cases of rules, and the pages about them."""
