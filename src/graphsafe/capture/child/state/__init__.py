"""Finds everything that a step can reach and change, by path, and puts it back. This includes each tensor, host value,
generator and container to which the step's callable or arguments refer.

Nothing here runs the user's code (no property, no `__getattr__`, no `__len__`, no `__repr__`), with one exception: the
inner tensors of a wrapper subclass are read through `__tensor_flatten__`.
"""

from graphsafe.capture.child.state.containers import MISSING as MISSING
from graphsafe.capture.child.state.containers import StateError as StateError
from graphsafe.capture.child.state.containers import held_at as held_at
from graphsafe.capture.child.state.containers import put_at as put_at
from graphsafe.capture.child.state.containers import put_back_host as put_back_host
from graphsafe.capture.child.state.containers import tensors_kept_by as tensors_kept_by
from graphsafe.capture.child.state.inputs import inputs_of as inputs_of
from graphsafe.capture.child.state.inputs import numbers_of as numbers_of
from graphsafe.capture.child.state.inputs import opaque_inputs_of as opaque_inputs_of
from graphsafe.capture.child.state.inputs import shared_tensor as shared_tensor
from graphsafe.capture.child.state.inputs import tensors_in_arguments as tensors_in_arguments
from graphsafe.capture.child.state.objects import defined_at as defined_at
from graphsafe.capture.child.state.reach import ReachableState as ReachableState
from graphsafe.capture.child.state.reach import moved_tensors as moved_tensors
from graphsafe.capture.child.state.reachable import generators_of as generators_of
from graphsafe.capture.child.state.reachable import objects_of as objects_of
from graphsafe.capture.child.state.reachable import reach_with_refresh as reach_with_refresh
from graphsafe.capture.child.state.reachable import reachable_state as reachable_state
from graphsafe.capture.child.state.reachable import results_in as results_in
from graphsafe.capture.child.state.reachable import tensors_of_refresh as tensors_of_refresh
from graphsafe.capture.child.state.reachable import walk as walk
from graphsafe.capture.child.state.snapshot import Bindings as Bindings
from graphsafe.capture.child.state.snapshot import Snapshot as Snapshot
from graphsafe.capture.child.state.snapshot import call_reset as call_reset
from graphsafe.capture.child.state.snapshot import copies_of as copies_of
from graphsafe.capture.child.state.snapshot import smallest as smallest
from graphsafe.capture.child.state.snapshot import undo_of as undo_of
