"""The simulated device: real CPU tensors whose storages are tagged with the index of a simulated GPU.

One mode answers questions about devices (`function_mode.py`). Another mode (`dispatch_mode.py`) gives results their
tags, notes the effects of each operation and records a capture. Functions of `torch.cuda` get their results from a
`World`. A capture refuses what H200s refused under torch 2.11, whichever version is installed.
`tests/capture/sim/test_atlas.py` checks this against every measured row.

These things are not simulated:
- how a graph's pool reuses memory
- the stream on which autograd accumulates the gradients of leaves
- compiled code, which runs uncompiled
- CUDA's own list of autocast operations
- what CUDA refuses in deterministic mode

If an operation runs here but is not simulated faithfully, `unknown_operations` lists it, and the verdict is
inconclusive.
"""

from graphsafe.capture.device.sim.device import SimDevice

__all__ = ["SimDevice"]
