"""The simulated device: real CPU tensors whose storages are tagged with the GPU that they stand for.

One mode answers questions about devices (`function_mode.py`). Another passes on the tags, notes the effects of each
operation and records a capture (`dispatch_mode.py`). `torch.cuda` answers from a `World`. A capture refuses what H200s
refused under torch 2.11, whatever version is installed; `tests/capture/sim/test_atlas.py` checks this against every
measured row.

Not simulated: how a graph's pool reuses memory, the stream on which autograd accumulates into leaves first used on
another one, compiled code (it runs uncompiled), CUDA's own list of autocast operations, what CUDA refuses in
deterministic mode. Operations that run and are not
simulated faithfully are in `unknown_operations`, which makes a verdict inconclusive.
"""

from graphsafe.capture.device.sim.device import SimDevice

__all__ = ["SimDevice"]
