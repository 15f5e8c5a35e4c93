"""The simulated device: real CPU tensors whose storages are tagged with the GPU that they stand for.

One mode answers questions about devices (`function_mode.py`). Another (`dispatch_mode.py`) passes the tags on to
results, notes the effects of each operation and records a capture. Calls of `torch.cuda` are answered from a `World`. A
capture refuses what H200s refused under torch 2.11, whatever version is installed; `tests/capture/sim/test_atlas.py`
checks this against every measured row.

Not simulated: how a graph's pool reuses memory, the stream on which autograd accumulates the gradients of leaves,
compiled code (it runs uncompiled), CUDA's own list of autocast operations, CUDA's refusals in deterministic mode. An
operation that runs here and is not simulated faithfully is listed in `unknown_operations`, and the verdict is then
inconclusive.
"""

from graphsafe.capture.device.sim.device import SimDevice

__all__ = ["SimDevice"]
