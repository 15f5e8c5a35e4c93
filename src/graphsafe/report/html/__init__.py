"""The output format HTML: one self-contained page that loads no script, no font and nothing from the network."""
