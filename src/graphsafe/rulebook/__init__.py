"""The rulebook: rules and library models as data, the rule files with their test cases, and the pages about rules."""
