"""The simulated device: real CPU tensors whose storages are tagged with the GPU that they stand for.

One mode answers for devices (`function_mode.py`), one passes on the tags, notes what each operation does and records a
capture (`dispatch_mode.py`); `torch.cuda` answers from a `World`. What is legal in a capture follows what H200s did
under torch 2.11, whatever version is installed; `tests/capture/sim/test_atlas.py` holds it against every measured row.

Not simulated: how a graph's pool reuses memory, the stream on which autograd accumulates into leaves first used on
another one, compiled code (it runs uncompiled), CUDA's own list of autocast operations. What runs and cannot be
vouched for is in `unknown_operations`, which makes a verdict inconclusive.
"""

from graphsafe.capture.device.sim.device import SimDevice

__all__ = ["SimDevice"]
