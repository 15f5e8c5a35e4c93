"""Vectorised actor for on-device environments."""
from .actor import Actor
from .policy import Policy, PolicyConfig
from .weights import Mailbox

__all__ = ["Actor", "Mailbox", "Policy", "PolicyConfig"]
