from dataclasses import dataclass, field
from typing import Any, Dict, List


@dataclass
class LayerConfig:
    kind: str
    options: Dict[str, Any] = field(default_factory=dict)


@dataclass
class NetConfig:
    width: int
    layers: List[LayerConfig]

    @classmethod
    def small(cls):
        return cls(
            18,
            [
                LayerConfig("shuffle", {"groups": 3}),
                LayerConfig("gain", {"channels": 18}),
                LayerConfig("clip", {"limit": 2.5}),
            ],
        )
