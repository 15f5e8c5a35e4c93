"""Results of calls inside a capture, if the code of the called function is not known.

Captured code works on device tensors, because its inputs were copied to the device before.
"""

from __future__ import annotations

from graphsafe.scan.domain.arguments import Arguments
from graphsafe.scan.domain.frozen import replace
from graphsafe.scan.domain.values import Tensor, Unknown, Value, confidence_of, holds_device
from graphsafe.scan.execution.frame import Frame


def of_unknown(frame: Frame, result: Value, arguments: Arguments) -> Value:
    """Return the result of an unknown callable. The result may contain device tensors if the callable receives an
    unknown value."""
    if not frame.captured or type(result) is not Unknown or result.host:
        return result
    given = arguments.further is not None or any(
        type(value) is Unknown and not value.host for value in arguments.values()
    )
    return replace(result, device=True) if given else result


def of_module(frame: Frame, result: Value, arguments: Arguments) -> Value:
    """Return the result of a torch module. It is a device tensor if the module certainly receives a tensor that is not
    on the host."""
    if not frame.captured or not isinstance(result, (Unknown, Tensor)) or not holds_device(result):
        return result
    is_known = isinstance(result, Tensor) and result.certain
    given = [value for value in arguments.values() if isinstance(value, Tensor) and value.where != "host"]
    is_sure = any(confidence_of(value, True) == "likely" for value in given)
    return Tensor(step=result.step, fresh=True) if is_sure and not is_known else result


def may_hold_device(arguments: Arguments) -> bool:
    """Return whether the inputs of a model, as far as they are known, may be on the device."""
    values = [*arguments.values()]
    is_open = any(type(value) is Unknown and not value.host for value in values)
    return is_open and not any(type(value) is Tensor and value.where == "host" and value.certain for value in values)
