"""The HTML form: one self-contained page, without script, font or network."""
