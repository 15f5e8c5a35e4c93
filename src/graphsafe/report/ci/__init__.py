"""The output formats that CI systems read: annotations, code-quality reports, test results."""
