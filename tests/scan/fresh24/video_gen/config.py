from dataclasses import dataclass


@dataclass(frozen=True)
class ModelConfig:
    channels: int = 4
    width: int = 32
    heads: int = 2
    layers: int = 2
    text_len: int = 10
    text_dim: int = 16
    steps: int = 6


@dataclass
class Job:
    prompt: str
    frames: int
    size: int
    guidance: float
    seed: int
