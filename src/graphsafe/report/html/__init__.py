"""The output format `html`: one page that loads no script, no font and nothing from the network."""
