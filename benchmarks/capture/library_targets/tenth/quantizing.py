"""Steps of compressed_tensors, mct_quantizers and tomesd: fewer bits and fewer tokens."""

import torch
import torch.nn.functional as F
from torch import nn


def _network(device, width=32):
    return nn.Sequential(nn.Linear(width, 64), nn.ReLU(), nn.Linear(64, width)).to(device)


def _set_scales(model):
    from compressed_tensors.quantization.utils import calculate_qparams

    for module in model.modules():
        scheme = getattr(module, "quantization_scheme", None)
        if scheme is None:
            continue
        size = scheme.weights.group_size or module.weight.shape[1]
        groups = module.weight.detach().unflatten(1, (-1, size))
        scale, zero = calculate_qparams(groups.amin(-1), groups.amax(-1), scheme.weights)
        module.weight_scale.data.copy_(scale)
        if hasattr(module, "weight_zero_point"):
            module.weight_zero_point.data.copy_(zero)


def _compressed(device, weights, activations=None):
    from compressed_tensors.quantization import (
        QuantizationArgs,
        QuantizationConfig,
        QuantizationScheme,
        apply_quantization_config,
    )

    scheme = QuantizationScheme(
        targets=["Linear"],
        weights=QuantizationArgs(**weights),
        input_activations=QuantizationArgs(**activations) if activations else None,
    )
    model = _network(device)
    apply_quantization_config(model, QuantizationConfig(config_groups={"group_0": scheme}), show_progress=False)
    _set_scales(model)
    return model


def compressed_groups(device):
    model = _compressed(device, {"num_bits": 4, "symmetric": False, "strategy": "group", "group_size": 16})

    def step(x):
        with torch.no_grad():
            return model(x)

    return step, (torch.randn(4, 32, device=device),)


def compressed_dynamic_training(device):
    """A training step with rounded weights and activations; the scales of the activations follow the data."""
    model = _compressed(
        device,
        {"num_bits": 8, "strategy": "channel"},
        {"num_bits": 8, "strategy": "token", "dynamic": True, "symmetric": False},
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)

    def step(x, y):
        optimizer.zero_grad()
        loss = F.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step, (torch.randn(4, 32, device=device), torch.randn(4, 32, device=device))


def compressed_floats(device):
    model = _compressed(
        device,
        {"num_bits": 8, "type": "float", "strategy": "channel"},
        {"num_bits": 8, "type": "float", "strategy": "token", "dynamic": True},
    )

    def step(x):
        with torch.no_grad():
            return model(x)

    return step, (torch.randn(4, 32, device=device),)


def compressed_calibration(device):
    from compressed_tensors.quantization import QuantizationArgs
    from compressed_tensors.quantization.lifecycle.forward import dequantize, fake_quantize, quantize
    from compressed_tensors.quantization.utils import calculate_qparams

    args = QuantizationArgs(num_bits=8, symmetric=False, strategy="tensor")

    def step(x, low, high):
        low, high = torch.minimum(low, x.amin()), torch.maximum(high, x.amax())
        scale, zero = calculate_qparams(low, high, args)
        integers = quantize(x, scale, zero, args, dtype=torch.int8)
        return fake_quantize(x, scale, zero, args), dequantize(integers, scale, zero, args)

    return step, (torch.randn(16, 32, device=device), torch.zeros((), device=device), torch.zeros((), device=device))


def compressed_packing(device):
    from compressed_tensors.compressors import pack_to_int32, unpack_from_int32

    def step(x):
        packed = pack_to_int32(x, 4)
        return packed, unpack_from_int32(packed, 4, x.shape)

    return step, (torch.randint(-8, 8, (16, 32), device=device, dtype=torch.int8),)


def compressed_rotation(device):
    """Layers whose inputs and weights are turned by a matrix of Hadamard."""
    from compressed_tensors.transform import TransformArgs, TransformConfig, TransformScheme, apply_transform_config

    model = _network(device)
    scheme = TransformScheme(
        type="hadamard",
        apply=[
            TransformArgs(targets=["Linear"], location="input"),
            TransformArgs(targets=["Linear"], location="weight_input", inverse=True),
        ],
    )
    apply_transform_config(model, TransformConfig(config_groups={"group_0": scheme}))

    def step(x):
        with torch.no_grad():
            return model(x)

    return step, (torch.randn(4, 32, device=device),)


def _wrapped(device, quantizer, activation=None):
    from mct_quantizers import PytorchActivationQuantizationHolder, PytorchQuantizationWrapper

    layer = PytorchQuantizationWrapper(nn.Conv2d(3, 8, 3, padding=1), {"weight": quantizer})
    layers = [layer] if activation is None else [layer, nn.ReLU(), PytorchActivationQuantizationHolder(activation)]
    model = nn.Sequential(*layers).to(device).eval()

    def step(x):
        with torch.no_grad():
            return model(x)

    return step, (torch.randn(2, 3, 8, 8, device=device),)


def wrapped_symmetric(device):
    from mct_quantizers import pytorch_quantizers as q

    weights = q.WeightsSymmetricInferableQuantizer(
        num_bits=8, threshold=[0.5 + 0.1 * i for i in range(8)], per_channel=True, channel_axis=0
    )
    return _wrapped(device, weights, q.ActivationSymmetricInferableQuantizer(num_bits=8, threshold=[2.0], signed=False))


def wrapped_uniform(device):
    from mct_quantizers import pytorch_quantizers as q

    weights = q.WeightsUniformInferableQuantizer(
        num_bits=4, min_range=[-0.5] * 8, max_range=[0.25 + 0.1 * i for i in range(8)], per_channel=True, channel_axis=0
    )
    activation = q.ActivationUniformInferableQuantizer(num_bits=4, min_range=[-0.5], max_range=[3.0])
    return _wrapped(device, weights, activation)


def wrapped_powers(device):
    from mct_quantizers import pytorch_quantizers as q

    weights = q.WeightsPOTInferableQuantizer(num_bits=8, threshold=[1.0], per_channel=False)
    return _wrapped(device, weights, q.ActivationPOTInferableQuantizer(num_bits=8, threshold=[4.0], signed=True))


def wrapped_tables(device):
    """Values from a table instead of equal steps."""
    from mct_quantizers import pytorch_quantizers as q

    weights = q.WeightsLUTSymmetricInferableQuantizer(
        num_bits=3, lut_values=[-100.0, -35.0, -8.0, 0.0, 12.0, 40.0, 90.0], threshold=[1.0] * 8, per_channel=True,
        channel_axis=0, input_rank=4,
    )  # fmt: skip
    activation = q.ActivationLutPOTInferableQuantizer(
        num_bits=3, lut_values=[-60.0, -20.0, 0.0, 25.0, 70.0], threshold=[2.0], signed=True
    )
    return _wrapped(device, weights, activation)


class _Attention(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.attention = nn.MultiheadAttention(width, 2, batch_first=True)

    def forward(self, x, context=None):
        context = x if context is None else context
        return self.attention(x, context, context, need_weights=False)[0]


class BasicTransformerBlock(nn.Module):
    """The block of latent diffusion."""

    def __init__(self, width):
        super().__init__()
        self.attn1, self.attn2 = _Attention(width), _Attention(width)
        self.ff = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))
        self.norm1, self.norm2, self.norm3 = nn.LayerNorm(width), nn.LayerNorm(width), nn.LayerNorm(width)

    def forward(self, x, context=None):
        return self._forward(x, context)

    def _forward(self, x, context=None):
        x = self.attn1(self.norm1(x)) + x
        x = self.attn2(self.norm2(x), context=context) + x
        return self.ff(self.norm3(x)) + x


class _Denoiser(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.first, self.last = nn.Conv2d(4, width, 3, padding=1), nn.Conv2d(width, 4, 3, padding=1)
        self.block = BasicTransformerBlock(width)

    def forward(self, x, context):
        x = self.first(x)
        tokens = self.block(x.flatten(2).transpose(1, 2), context)
        return self.last(tokens.transpose(1, 2).reshape(x.shape))


def _merged(device, **options):
    import tomesd

    pipeline = nn.Module()
    pipeline.model = nn.Module()
    pipeline.model.diffusion_model = _Denoiser().to(device).eval()
    tomesd.apply_patch(pipeline, **options)

    def step(x, context):
        with torch.no_grad():
            return pipeline.model.diffusion_model(x, context)

    return step, (torch.randn(2, 4, 16, 16, device=device), torch.randn(2, 5, 16, device=device))


def merged_tokens(device):
    return _merged(device, ratio=0.5)


def merged_everywhere(device):
    return _merged(device, ratio=0.4, max_downsample=2, use_rand=False, merge_crossattn=True, merge_mlp=True)


def merged_matching(device):
    from tomesd.merge import bipartite_soft_matching_random2d

    def step(x):
        merge, unmerge = bipartite_soft_matching_random2d(x, 8, 8, 2, 2, 24, no_rand=True)
        return unmerge(F.gelu(merge(x)))

    return step, (torch.randn(2, 64, 16, device=device),)
