"""Reads code as if it ran: what each construct of Python does to abstract values, by syntax."""
