"""Steps of s5, colt5_attention, perceiver, tft, memcnn, lycoris, torchcvnn, frame averaging and torchao: networks."""

import torch
import torch.nn.functional as F
from torch import nn


def _train(device, model, loss_of, arguments, rate=1e-3):
    optimizer = torch.optim.Adam(model.parameters(), lr=rate)

    def step(*inputs):
        optimizer.zero_grad()
        loss = loss_of(*inputs)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step, arguments


def states_training(device):
    from s5 import S5Block

    model = nn.Sequential(S5Block(16, 16, False), S5Block(16, 16, True)).to(device)
    x = torch.randn(2, 24, 16, device=device)
    return _train(device, model, lambda a, b: F.mse_loss(model(a), b), (x, torch.randn_like(x)))


def states_inference(device):
    from s5 import S5

    model = S5(16, 16).to(device).eval()

    def step(x):
        with torch.no_grad():
            return model(x)

    return step, (torch.randn(2, 24, 16, device=device),)


def states_liquid(device):
    from s5 import S5

    model = S5(16, 16, liquid=True, bcInit="dense").to(device)

    def step(x, scale):
        return model(x, step_scale=scale)

    return step, (torch.randn(2, 24, 16, device=device), torch.ones(2, device=device))


def states_streaming(device):
    """A few samples of one sequence at a time; the state is kept."""
    from s5 import S5

    model = S5(16, 16).to(device).eval()

    def step(x, state):
        outputs = []
        with torch.no_grad():
            for sample in x:
                y, state = model.seq.forward_rnn(sample, state)
                outputs.append(y)
        return torch.stack(outputs), state

    return step, (torch.randn(6, 16, device=device), torch.zeros(16, dtype=torch.complex64, device=device))


def routed_block(device):
    from colt5_attention import ConditionalRoutedTransformerBlock

    model = ConditionalRoutedTransformerBlock(
        32, num_heavy_attn_tokens_q=8, num_heavy_attn_tokens_kv=8, num_heavy_ff_tokens=8, light_window_size=8,
        light_heads=2, heavy_heads=2, light_dim_head=16, heavy_dim_head=16,
    ).to(device)  # fmt: skip
    mask = torch.ones(2, 32, dtype=torch.bool, device=device)
    mask[:, 28:] = False
    x = torch.randn(2, 32, 32, device=device)
    return _train(device, model, lambda a, m: model(a, mask=m).square().mean(), (x, mask))


def routed_feedforward(device):
    from colt5_attention import ConditionalRoutedFeedForward

    model = ConditionalRoutedFeedForward(32, num_heavy_tokens=8).to(device).eval()

    def step(x):
        with torch.no_grad():
            return model(x)

    return step, (torch.randn(2, 32, 32, device=device),)


def routed_causal_training(device):
    from colt5_attention import ConditionalRoutedAutoregressiveAttention

    model = ConditionalRoutedAutoregressiveAttention(
        32, num_heavy_tokens_q=8, num_heavy_tokens_kv=8, light_window_size=8, heavy_window_size=16, light_heads=2,
        heavy_heads=2, light_dim_head=16, heavy_dim_head=16,
    ).to(device)  # fmt: skip
    x = torch.randn(2, 64, 32, device=device)
    return _train(device, model, lambda a: model(a).square().mean(), (x,))


def routed_vision(device):
    from colt5_attention.vit import ConditionalRoutedViT

    model = ConditionalRoutedViT(
        image_size=32, patch_size=8, num_classes=5, dim=32, depth=1, attn_num_heavy_tokens_q=4,
        attn_num_heavy_tokens_kv=4, attn_heavy_dim_head=16, attn_heavy_heads=2, attn_light_dim_head=16,
        attn_light_heads=2, attn_light_window_size=4, ff_num_heavy_tokens=4, ff_heavy_mult=4, ff_light_mult=2,
    ).to(device)  # fmt: skip
    x, y = torch.randn(2, 3, 32, 32, device=device), torch.tensor([1, 3], device=device)
    return _train(device, model, lambda a, b: F.cross_entropy(model(a), b), (x, y))


def perceiver_training(device):
    from perceiver_pytorch import Perceiver

    model = Perceiver(
        input_channels=3, input_axis=2, num_freq_bands=4, max_freq=10.0, depth=2, num_latents=8, latent_dim=32,
        cross_heads=1, latent_heads=2, cross_dim_head=16, latent_dim_head=16, num_classes=5,
    ).to(device)  # fmt: skip
    x, y = torch.randn(2, 16, 16, 3, device=device), torch.tensor([1, 3], device=device)
    return _train(device, model, lambda a, b: F.cross_entropy(model(a), b), (x, y))


def perceiver_queries(device):
    from perceiver_pytorch import PerceiverIO

    model = PerceiverIO(
        dim=16, queries_dim=16, logits_dim=10, depth=1, num_latents=8, latent_dim=32, cross_heads=1, latent_heads=2,
        cross_dim_head=16, latent_dim_head=16, seq_dropout_prob=0.2,
    ).to(device)  # fmt: skip
    x, q = torch.randn(2, 20, 16, device=device), torch.randn(6, 16, device=device)
    return _train(device, model, lambda a, b: model(a, queries=b).square().mean(), (x, q))


def perceiver_language(device):
    from perceiver_pytorch import PerceiverLM

    model = PerceiverLM(
        num_tokens=50, dim=16, depth=1, max_seq_len=24, num_latents=8, latent_dim=32, cross_heads=1, latent_heads=2,
        cross_dim_head=16, latent_dim_head=16,
    ).to(device)  # fmt: skip
    model.eval()
    mask = torch.ones(2, 24, dtype=torch.bool, device=device)

    def step(tokens, mask):
        with torch.no_grad():
            return model(tokens, mask=mask).argmax(-1)

    return step, (torch.randint(0, 50, (2, 24), device=device), mask)


def _fusion(device, horizon=6):
    from omegaconf import OmegaConf
    from tft_torch.tft import TemporalFusionTransformer

    model = TemporalFusionTransformer(
        OmegaConf.create(
            {
                "model": {
                    "dropout": 0.05, "state_size": 16, "output_quantiles": [0.1, 0.5, 0.9], "lstm_layers": 1,
                    "attention_heads": 2,
                },
                "task_type": "regression",
                "target_window_start": None,
                "data_props": {
                    "num_historical_numeric": 3, "num_historical_categorical": 1, "num_static_numeric": 2,
                    "num_static_categorical": 1, "num_future_numeric": 2, "num_future_categorical": 1,
                    "historical_categorical_cardinalities": [5], "static_categorical_cardinalities": [4],
                    "future_categorical_cardinalities": [5],
                },
            }
        )
    ).to(device)  # fmt: skip
    tensors = (
        torch.randn(4, 2, device=device),
        torch.randint(0, 4, (4, 1), device=device),
        torch.randn(4, 10, 3, device=device),
        torch.randint(0, 5, (4, 10, 1), device=device),
        torch.randn(4, horizon, 2, device=device),
        torch.randint(0, 5, (4, horizon, 1), device=device),
    )
    names = (
        "static_feats_numeric", "static_feats_categorical", "historical_ts_numeric", "historical_ts_categorical",
        "future_ts_numeric", "future_ts_categorical",
    )  # fmt: skip
    return model, names, tensors


def fusion_training(device):
    import tft_torch.loss as tft_loss

    model, names, tensors = _fusion(device)
    quantiles = torch.tensor([0.1, 0.5, 0.9], device=device)

    def loss_of(target, *inputs):
        out = model(dict(zip(names, inputs, strict=True)))
        loss, _, _ = tft_loss.get_quantiles_loss_and_q_risk(out["predicted_quantiles"], target, quantiles)
        return loss

    return _train(device, model, loss_of, (torch.randn(4, 6, device=device), *tensors))


def fusion_forecast(device):
    model, names, tensors = _fusion(device)
    model.eval()

    def step(*inputs):
        with torch.no_grad():
            return model(dict(zip(names, inputs, strict=True)))["predicted_quantiles"]

    return step, tensors


def fusion_scores(device):
    import tft_torch.loss as tft_loss

    quantiles = torch.tensor([0.1, 0.5, 0.9], device=device)

    def step(outputs, targets):
        return tft_loss.get_quantiles_loss_and_q_risk(outputs, targets, quantiles)

    return step, (torch.randn(4, 6, 3, device=device), torch.randn(4, 6, device=device))


def _invertible(device, coupling):
    import memcnn

    layers = [
        memcnn.InvertibleModuleWrapper(
            fn=memcnn.create_coupling(
                Fm=nn.Sequential(nn.Conv2d(4, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU()),
                Gm=nn.Sequential(nn.Conv2d(4, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU()),
                coupling=coupling,
                adapter=memcnn.AffineAdapterNaive if coupling == "affine" else None,
            ),
            keep_input=False,
        )
        for _ in range(2)
    ]
    return nn.Sequential(*layers).to(device)


def invertible_training(device):
    """The inputs of the layers are dropped and restored in the backward pass."""
    model = _invertible(device, "additive")
    stem = nn.Conv2d(3, 8, 1).to(device)
    optimizer = torch.optim.SGD([*model.parameters(), *stem.parameters()], lr=1e-3)

    def step(x):
        optimizer.zero_grad()
        loss = model(stem(x)).square().mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step, (torch.randn(2, 3, 8, 8, device=device),)


def invertible_inverse(device):
    model = _invertible(device, "affine").eval()

    def step(x):
        with torch.no_grad():
            y = model[0](x.clone())
            return model[0].inverse(y)

    return step, (torch.randn(2, 8, 8, 8, device=device),)


def invertible_random_training(device):
    """Layers with dropout, whose random state is kept."""
    import memcnn

    block = nn.Sequential(nn.Conv2d(4, 4, 3, padding=1), nn.Dropout(0.2))
    model = memcnn.InvertibleModuleWrapper(
        fn=memcnn.AdditiveCoupling(block, nn.Conv2d(4, 4, 3, padding=1)), preserve_rng_state=True
    ).to(device)
    stem = nn.Conv2d(3, 8, 1).to(device)
    optimizer = torch.optim.SGD([*model.parameters(), *stem.parameters()], lr=1e-3)

    def step(x):
        optimizer.zero_grad()
        loss = model(stem(x)).square().mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step, (torch.randn(2, 3, 8, 8, device=device),)


def _adapted(device, algo, **options):
    from lycoris import LycorisNetwork, create_lycoris

    LycorisNetwork.apply_preset({"target_module": ["Linear", "Conv2d"]})
    net = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 64, 16), nn.ReLU(),
                        nn.Linear(16, 4)).to(device)  # fmt: skip
    adapters = create_lycoris(net, 1.0, linear_dim=4, linear_alpha=2.0, algo=algo, **options)
    adapters.apply_to()
    adapters = adapters.to(device)
    optimizer = torch.optim.AdamW(adapters.parameters(), lr=1e-3)

    def step(x, y):
        optimizer.zero_grad()
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step, (torch.randn(4, 3, 8, 8, device=device), torch.tensor([0, 1, 2, 3], device=device))


def adapter_kronecker_training(device):
    return _adapted(device, "lokr", factor=4)


def adapter_hadamard_training(device):
    return _adapted(device, "loha", rank_dropout=0.2)


def adapter_convolution_training(device):
    return _adapted(device, "locon", dropout=0.1, module_dropout=0.1, weight_decompose=True)


def adapter_rotation_training(device):
    return _adapted(device, "diag-oft", constraint=1e-3)


def adapter_scaled_training(device):
    """Adapters that are trained, with their norms limited after the step."""
    from lycoris import LycorisNetwork, create_lycoris

    LycorisNetwork.apply_preset({"target_module": ["Linear"]})
    net = nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 4)).to(device)
    adapters = create_lycoris(net, 1.0, linear_dim=4, linear_alpha=2.0, algo="lora")
    adapters.apply_to()
    adapters = adapters.to(device)
    optimizer = torch.optim.AdamW(adapters.parameters(), lr=1e-3)

    def step(x, y):
        optimizer.zero_grad()
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
        adapters.apply_max_norm_regularization(1.0, device)
        return loss.detach()

    return step, (torch.randn(4, 16, device=device), torch.tensor([0, 1, 2, 3], device=device))


def complex_image_training(device):
    import torchcvnn.nn as c_nn

    model = nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1, dtype=torch.complex64), c_nn.BatchNorm2d(8), c_nn.Cardioid(),
        c_nn.AvgPool2d(2, stride=2),
        nn.Conv2d(8, 8, 3, padding=1, dtype=torch.complex64), c_nn.modReLU(), nn.Flatten(),
        nn.Linear(8 * 16, 5, dtype=torch.complex64), c_nn.Mod(),
    ).to(device)  # fmt: skip
    x = torch.randn(4, 1, 8, 8, dtype=torch.complex64, device=device)
    y = torch.tensor([0, 1, 2, 3], device=device)
    return _train(device, model, lambda a, b: F.cross_entropy(model(a), b), (x, y))


def complex_transformer(device):
    import torchcvnn.nn as c_nn

    model = c_nn.TransformerEncoderLayer(d_model=16, nhead=2, dim_feedforward=32).to(device)
    x = torch.randn(6, 3, 16, dtype=torch.complex64, device=device)
    return _train(device, model, lambda a: model(a).abs().mean(), (x,))


def complex_pooling(device):
    import torchcvnn.nn as c_nn

    pool, norm, drop = c_nn.MaxPool2d(2), c_nn.LayerNorm([4, 4]).to(device), c_nn.Dropout2d(0.2).to(device)

    def step(x):
        return drop(norm(pool(x)))

    return step, (torch.randn(2, 3, 8, 8, dtype=torch.complex64, device=device),)


def complex_unpooling(device):
    import torchcvnn.nn as c_nn

    up, rms = c_nn.Upsample(scale_factor=2, mode="bilinear"), c_nn.RMSNorm([8, 8]).to(device)
    loss_of = c_nn.ComplexMSELoss()

    def step(x, y):
        return loss_of(rms(up(x)), y)

    z = torch.randn(2, 3, 4, 4, dtype=torch.complex64, device=device)
    return step, (z, torch.randn(2, 3, 8, 8, dtype=torch.complex64, device=device))


def frames(device):
    from frame_averaging_pytorch import FrameAverage

    net = FrameAverage(nn.Sequential(nn.Linear(3, 16), nn.ReLU(), nn.Linear(16, 3)), dim=3).to(device)

    def step(points, mask):
        return net(points, frame_average_mask=mask)

    return step, (torch.randn(2, 12, 3, device=device), torch.ones(2, 12, dtype=torch.bool, device=device))


def frames_random_training(device):
    from frame_averaging_pytorch import FrameAverage

    net = FrameAverage(
        nn.Sequential(nn.Linear(3, 16), nn.ReLU(), nn.Linear(16, 4)), dim=3, stochastic=True, invariant_output=True
    ).to(device)
    return _train(device, net, lambda a: net(a).square().mean(), (torch.randn(2, 12, 3, device=device),))


def _quantized(device, config):
    from torchao.quantization import quantize_

    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 32)).to(device)
    quantize_(model.eval(), config)

    def step(x):
        with torch.no_grad():
            return model(x)

    return step, (torch.randn(32, 64, device=device),)


def quantized_weights(device):
    from torchao.quantization import Int8WeightOnlyConfig

    return _quantized(device, Int8WeightOnlyConfig(set_inductor_config=False))


def quantized_activations(device):
    from torchao.quantization import Int8DynamicActivationInt8WeightConfig

    return _quantized(device, Int8DynamicActivationInt8WeightConfig(set_inductor_config=False))


def quantized_aware_training(device):
    from torchao.quantization import quantize_
    from torchao.quantization.qat import IntxFakeQuantizeConfig, QATConfig

    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 32)).to(device)
    activation = IntxFakeQuantizeConfig(torch.int8, "per_token", is_symmetric=False)
    weight = IntxFakeQuantizeConfig(torch.int4, group_size=32)
    quantize_(model, QATConfig(activation_config=activation, weight_config=weight, step="prepare"))
    x = torch.randn(16, 64, device=device)
    return _train(device, model, lambda a: model(a).square().mean(), (x,))


def primitives(device):
    from torchao.quantization.quant_primitives import (
        MappingType,
        choose_qparams_affine,
        dequantize_affine,
        quantize_affine,
    )

    def step(x):
        block = (1, x.shape[-1])
        scale, zero = choose_qparams_affine(x, MappingType.ASYMMETRIC, block, torch.int8)
        q = quantize_affine(x, block, scale, zero, torch.int8)
        return dequantize_affine(q, block, scale, zero, torch.int8)

    return step, (torch.randn(16, 64, device=device),)
