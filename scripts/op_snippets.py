"""The snippets of scripts/op_snippets.yaml, and the state that they run on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
import yaml

FILE = Path(__file__).resolve().with_suffix(".yaml")
GROUPS = ("atlas", "extra", "more")


@dataclass(frozen=True, slots=True)
class Catalogue:
    steps: Mapping[str, str]
    "The source of each snippet by name, in the order of the file."
    parts: Mapping[str, str]
    "The expression that makes each attribute of `s`."
    varied: Mapping[str, str]
    "The expressions for their next values."


def catalogue() -> Catalogue:
    data = yaml.safe_load(FILE.read_text(encoding="utf-8"))
    steps = {name: step for group in GROUPS for name, step in data[group].items()}
    return Catalogue(steps, {**data["tensors"], **data["host"], **data["objects"]}, data["varied"])


class State:
    """What a snippet calls `s`. A part is made when first asked for, and is the same in every state."""

    def __init__(self, catalogue: Catalogue, device: torch.device) -> None:
        self._catalogue = catalogue
        self._device = device

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name not in self._catalogue.parts:
            raise AttributeError(name)
        torch.manual_seed(0)
        value = eval(self._catalogue.parts[name], {"torch": torch, "np": np, "s": self, "dev": self._device})
        setattr(self, name, value)
        return value

    def refresh(self, number: int) -> None:
        """Give `varied` the values of step `number`, the same ones in every state."""
        torch.manual_seed(number)
        for name, expression in self._catalogue.varied.items():
            value = eval(expression, {"torch": torch})
            getattr(self, name).copy_(value)

    def run(self, code: Any) -> torch.Tensor:
        scope = {"torch": torch, "F": F, "np": np, "dev": self._device, "s": self}
        exec(code, scope)
        out: torch.Tensor = scope["out"]
        return out
