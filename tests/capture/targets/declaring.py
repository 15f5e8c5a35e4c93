"""Attention-like steps whose classes declare how far they support CUDA graphs, truly and not."""

import enum

import torch
from torch import nn

MIXED = [3, 1, 2]


class AttentionCGSupport(enum.Enum):
    NEVER = 0
    UNIFORM_SINGLE_TOKEN_DECODE = 1
    UNIFORM_BATCH = 2
    ALWAYS = 3


class Builder:
    """As vLLM's base class: an attribute, and the method through which it is to be read."""

    _cudagraph_support = AttentionCGSupport.NEVER

    @classmethod
    def get_cudagraph_support(cls, vllm_config, kv_cache_spec):
        return cls._cudagraph_support


class DecodeBuilder(Builder):
    _cudagraph_support = AttentionCGSupport.UNIFORM_SINGLE_TOKEN_DECODE  # line: declared_decode


class UniformBuilder(Builder):
    _cudagraph_support = AttentionCGSupport.UNIFORM_BATCH  # line: declared_uniform


class AlwaysBuilder(Builder):
    _cudagraph_support = AttentionCGSupport.ALWAYS


class AskedBuilder(AlwaysBuilder):
    """What it supports depends on the configuration that the engine gives to its builders."""

    def __init__(self, vllm_config):
        self.vllm_config = vllm_config

    @classmethod
    def get_cudagraph_support(cls, vllm_config, kv_cache_spec):  # line: asked
        if vllm_config["context_parallel"]:
            return AttentionCGSupport.UNIFORM_SINGLE_TOKEN_DECODE
        return super().get_cudagraph_support(vllm_config, kv_cache_spec)


class Attention(nn.Module):
    """Any number of tokens a request, equal or not, without a look at device values."""

    def __init__(self, builder):
        super().__init__()
        self.builder = builder
        self.scale = nn.Linear(8, 8, bias=False)

    def forward(self, q):
        return torch.softmax(self.scale(q), -1)


class SingleTokenAttention(Attention):
    """Its way for more than one token a request reads the device."""

    def forward(self, q, lengths):
        if q.shape[0] > lengths.shape[0]:
            longest = int(lengths.max())  # line: reads
            return torch.softmax(self.scale(q), -1) * longest
        return torch.softmax(self.scale(q), -1)


def tokens(batch, q_len):
    return sum(MIXED) if q_len == "mixed" else batch * q_len


def build(device, kind, batch, q_len):
    """`kind`: which builder declares, and of what."""
    torch.manual_seed(0)
    builder = {
        "decode": DecodeBuilder(),
        "uniform": UniformBuilder(),
        "always": AlwaysBuilder(),
        "asked": AskedBuilder({"context_parallel": True}),
    }[kind]
    return Attention(builder).to(device), (torch.randn(tokens(batch, q_len), 8, device=device),)


def declared_decode(device, batch=2, q_len=1):
    return build(device, "decode", batch, q_len)


def declared_asked(device, batch=2, q_len=1):
    return build(device, "asked", batch, q_len)


def declared_always(device, batch=2, q_len=1):
    return build(device, "always", batch, q_len)


def declared_uniform(device, batch=2, q_len=1):
    torch.manual_seed(0)
    module = SingleTokenAttention(UniformBuilder()).to(device)
    lengths = torch.tensor([q_len + 4] * batch, device=device)
    return module, (torch.randn(tokens(batch, q_len), 8, device=device), lengths)


def limited(device, batch=2, q_len=1):
    """A limit declared by an explicit error."""
    if q_len > 2:
        raise ValueError("more than one speculative token is not supported")
    return build(device, "uniform", batch, q_len)
