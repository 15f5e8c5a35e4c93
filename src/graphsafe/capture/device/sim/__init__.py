"""A device that is not there: real CPU tensors whose storages say which GPU they play.

One mode lies about devices (`lie`), one carries the tags, lists what each operation does and records a capture
(`carry`); `torch.cuda` answers from a `World`. What is legal in a capture follows what H200s did under torch 2.11.
"""

from graphsafe.capture.device.sim.device import SimDevice

__all__ = ["SimDevice"]
