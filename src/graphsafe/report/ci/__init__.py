"""The forms that CI systems read: annotations, code-quality reports, test results."""
