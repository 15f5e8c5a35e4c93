"""Steps of layers and losses: soft_moe_pytorch, mixture_of_experts, nystrom_attention, linformer, siren_pytorch,
info_nce, torchbnn, sparsemax, pytorch_revgrad, axial_positional_embedding, hyper_connections, assoc_scan,
g_mlp_pytorch, bidirectional_cross_attention, recurrent_memory_transformer_pytorch, focal_loss, torch_dct, torch_tps
and memory_efficient_attention_pytorch."""

import torch
from torch import nn


def _update(model, loss_of, lr=1e-3):
    """A training step that minimises the loss."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr)

    def step(*args):
        optimizer.zero_grad()
        loss = loss_of(*args)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


def _inference(model):
    model.eval()

    def step(*args):
        with torch.no_grad():
            return model(*args)

    return step


def softmoe_training(device):
    from soft_moe_pytorch import SoftMoE

    model = SoftMoE(dim=32, seq_len=16, num_experts=4, geglu=True).to(device)
    return _update(model, lambda x: model(x).square().mean()), (torch.randn(2, 16, 32, device=device),)


def softmoe_masked(device):
    from soft_moe_pytorch import SoftMoE

    model = SoftMoE(dim=32, num_slots=2, num_experts=4).to(device)
    mask = torch.ones(2, 16, dtype=torch.bool, device=device)
    mask[1, 10:] = False
    return _inference(model), (torch.randn(2, 16, 32, device=device), mask)


def softmoe_dynamic(device):
    from soft_moe_pytorch import DynamicSlotsSoftMoE

    model = DynamicSlotsSoftMoE(dim=32, num_experts=4, geglu=True).to(device)
    return _inference(model), (torch.randn(2, 15, 32, device=device),)


def experts_training(device):
    from mixture_of_experts import MoE

    model = MoE(dim=32, num_experts=4, hidden_dim=64, second_policy_train="random").to(device)

    def loss_of(x):
        out, aux = model(x)
        return out.square().mean() + aux

    return _update(model, loss_of), (torch.randn(2, 16, 32, device=device),)


def experts_inference(device):
    from mixture_of_experts import MoE

    model = MoE(dim=32, num_experts=4, second_policy_eval="random", capacity_factor_eval=1.5).to(device)
    return _inference(model), (torch.randn(2, 16, 32, device=device),)


def experts_hierarchical(device):
    from mixture_of_experts import HeirarchicalMoE

    model = HeirarchicalMoE(dim=32, num_experts=(2, 2)).to(device)

    def loss_of(x):
        out, aux = model(x)
        return out.square().mean() + aux

    return _update(model, loss_of), (torch.randn(2, 16, 32, device=device),)


def nystrom_training(device):
    from nystrom_attention import Nystromformer

    model = Nystromformer(dim=32, depth=2, dim_head=16, heads=2, num_landmarks=8, pinv_iterations=6).to(device)
    return _update(model, lambda x: model(x).square().mean()), (torch.randn(2, 30, 32, device=device),)


def nystrom_masked(device):
    from nystrom_attention import NystromAttention

    model = NystromAttention(dim=32, dim_head=16, heads=2, num_landmarks=8).to(device)
    model.eval()
    mask = torch.ones(2, 30, dtype=torch.bool, device=device)
    mask[0, 20:] = False

    def step(x, mask):
        with torch.no_grad():
            return model(x, mask=mask)

    return step, (torch.randn(2, 30, 32, device=device), mask)


def linformer_training(device):
    from linformer import LinformerLM

    model = LinformerLM(num_tokens=100, dim=32, seq_len=32, depth=2, k=8, heads=2, share_kv=True).to(device)
    tokens = torch.randint(0, 100, (2, 32), device=device)
    loss = nn.CrossEntropyLoss()
    return _update(model, lambda t: loss(model(t).transpose(1, 2), t)), (tokens,)


def linformer_reversible(device):
    from linformer import Linformer

    body = Linformer(dim=32, seq_len=32, depth=2, k=8, heads=2, reversible=True, one_kv_head=True)
    model = nn.Sequential(nn.Linear(32, 32), body).to(device)
    return _update(model, lambda x: model(x).square().mean()), (torch.randn(2, 32, 32, device=device),)


def siren_fit(device):
    from siren_pytorch import SirenNet, SirenWrapper

    net = SirenNet(dim_in=2, dim_hidden=32, dim_out=3, num_layers=3, w0_initial=30.0)
    model = SirenWrapper(net, image_width=16, image_height=16).to(device)
    return _update(model, lambda image: model(image), 1e-4), (torch.rand(1, 3, 16, 16, device=device),)


def siren_gradient(device):
    """A fit of the values and the gradients of a function."""
    from siren_pytorch import SirenNet

    net = SirenNet(dim_in=2, dim_hidden=32, dim_out=1, num_layers=3, final_activation=nn.Identity()).to(device)

    def loss_of(x, target):
        x = x.detach().requires_grad_()
        (slope,) = torch.autograd.grad(net(x).sum(), x, create_graph=True)
        return (slope - target).square().mean()

    return _update(net, loss_of, 1e-4), (torch.rand(64, 2, device=device), torch.randn(64, 2, device=device))


def infonce_training(device):
    from info_nce import InfoNCE

    model = nn.Linear(16, 8).to(device)
    loss = InfoNCE(temperature=0.1)
    args = (torch.randn(12, 16, device=device), torch.randn(12, 16, device=device))
    return _update(model, lambda a, b: loss(model(a), model(b))), args


def infonce_paired(device):
    from info_nce import InfoNCE

    model = nn.Linear(16, 8).to(device)
    loss = InfoNCE(negative_mode="paired")
    args = (
        torch.randn(12, 16, device=device),
        torch.randn(12, 16, device=device),
        torch.randn(12, 5, 16, device=device),
    )
    return _update(model, lambda a, b, n: loss(model(a), model(b), model(n))), args


def _bayesian(device):
    import torchbnn as bnn

    return nn.Sequential(
        bnn.BayesLinear(prior_mu=0, prior_sigma=0.1, in_features=4, out_features=32),
        nn.ReLU(),
        bnn.BayesLinear(prior_mu=0, prior_sigma=0.1, in_features=32, out_features=3),
    ).to(device)


def bnn_training(device):
    import torchbnn as bnn

    model = _bayesian(device)
    kl = bnn.BKLLoss(reduction="mean", last_layer_only=False).to(device)
    cross = nn.CrossEntropyLoss()
    args = (torch.randn(16, 4, device=device), torch.randint(0, 3, (16,), device=device))
    return _update(model, lambda x, y: cross(model(x), y) + 0.01 * kl(model)), args


def bnn_frozen(device):
    """Predictions of one sample of the weights."""
    from torchbnn.utils import freeze, unfreeze

    model = _bayesian(device)

    def step(x):
        freeze(model)
        with torch.no_grad():
            first = model(x).argmax(dim=1)
        unfreeze(model)
        return first

    return step, (torch.randn(16, 4, device=device),)


def sparsemax_attention(device):
    from sparsemax import Sparsemax

    model = nn.Linear(16, 16).to(device)
    sparse = Sparsemax(dim=-1)

    def loss_of(x):
        weights = sparse(model(x) @ x.transpose(1, 2) / 4)
        return (weights @ x - x).square().mean()

    return _update(model, loss_of), (torch.randn(2, 10, 16, device=device),)


def sparsemax_gate(device):
    from sparsemax import Sparsemax

    model = nn.Sequential(nn.Linear(16, 8), Sparsemax(dim=1)).to(device)
    return _inference(model), (torch.randn(12, 16, device=device),)


def revgrad_training(device):
    """Adaptation to another domain: the classifier of the domains gets reversed gradients."""
    from pytorch_revgrad import RevGrad

    model = nn.ModuleDict(
        {
            "features": nn.Sequential(nn.Linear(16, 32), nn.ReLU()),
            "labels": nn.Linear(32, 4),
            "domains": nn.Sequential(RevGrad(alpha=0.5), nn.Linear(32, 2)),
        }
    ).to(device)

    def loss_of(x, y, domain):
        features = model["features"](x)
        loss = nn.functional.cross_entropy(model["labels"](features), y)
        return loss + nn.functional.cross_entropy(model["domains"](features), domain)

    args = (torch.randn(24, 16, device=device), torch.randint(0, 4, (24,), device=device))
    return _update(model, loss_of), (*args, torch.randint(0, 2, (24,), device=device))


def axial_positions(device):
    from axial_positional_embedding import AxialPositionalEmbedding

    model = AxialPositionalEmbedding(dim=32, axial_shape=(8, 4)).to(device)
    return _update(model, lambda x: (x + model(x)).square().mean()), (torch.randn(2, 28, 32, device=device),)


def axial_continuous(device):
    from axial_positional_embedding import ContinuousAxialPositionalEmbedding

    model = ContinuousAxialPositionalEmbedding(dim=32, num_axial_dims=2).to(device)

    def step():
        with torch.no_grad():
            return model((8, 4))

    return step, ()


def hyper_training(device):
    from hyper_connections import get_init_and_expand_reduce_stream_functions

    init, expand, reduce = get_init_and_expand_reduce_stream_functions(4)
    model = nn.ModuleList([init(dim=32, branch=nn.Linear(32, 32), layer_index=i) for i in range(3)]).to(device)

    def loss_of(x):
        x = expand(x)
        for layer in model:
            x = layer(x)
        return reduce(x).square().mean()

    return _update(model, loss_of), (torch.randn(2, 10, 32, device=device),)


def scan_gates(device):
    from assoc_scan import AssocScan

    model = nn.Linear(16, 32).to(device)
    scan = AssocScan()

    def loss_of(x):
        gates, inputs = model(x).chunk(2, dim=-1)
        return scan(gates.sigmoid(), inputs).square().mean()

    return _update(model, loss_of), (torch.randn(2, 32, 16, device=device),)


def scan_reversed(device):
    from assoc_scan import AssocScan

    scan = AssocScan(reverse=True)

    def step(gates, inputs):
        return scan(gates, inputs)

    return step, (torch.rand(2, 33, 16, device=device), torch.randn(2, 33, 16, device=device))


def gmlp_training(device):
    from g_mlp_pytorch import gMLP

    model = gMLP(
        num_tokens=100, dim=32, depth=3, seq_len=16, causal=True, circulant_matrix=True, heads=2, prob_survival=0.8
    ).to(device)
    tokens = torch.randint(0, 100, (2, 16), device=device)
    return _update(model, lambda t: nn.functional.cross_entropy(model(t).transpose(1, 2), t)), (tokens,)


def gmlp_vision(device):
    from g_mlp_pytorch import gMLPVision

    model = gMLPVision(image_size=16, patch_size=4, num_classes=5, dim=32, depth=2, attn_dim=16).to(device)
    return _inference(model), (torch.randn(2, 3, 16, 16, device=device),)


def cross_training(device):
    from bidirectional_cross_attention import BidirectionalCrossAttention

    model = BidirectionalCrossAttention(dim=32, heads=2, dim_head=16, context_dim=24, talking_heads=True).to(device)
    mask = torch.ones(2, 12, dtype=torch.bool, device=device)
    context_mask = torch.ones(2, 9, dtype=torch.bool, device=device)

    def loss_of(x, context):
        a, b = model(x, context, mask=mask, context_mask=context_mask)
        return a.square().mean() + b.square().mean()

    return _update(model, loss_of), (torch.randn(2, 12, 32, device=device), torch.randn(2, 9, 24, device=device))


def _recurrent(device, **options):
    from recurrent_memory_transformer_pytorch import RecurrentMemoryTransformer

    return RecurrentMemoryTransformer(
        dim=32, num_tokens=100, depth=2, num_memory_tokens=4, seq_len=16, dim_head=16, heads=2, **options
    ).to(device)


def memory_training(device):
    """A step over two segments, with the memories carried over."""
    model = _recurrent(device)

    def loss_of(tokens):
        logits, memories, xl = model(tokens[:, :16])
        second, _, _ = model(tokens[:, 16:], memories, xl_memories=xl)
        logits = torch.cat([logits, second], dim=1)[:, :-1]
        return nn.functional.cross_entropy(logits.transpose(1, 2), tokens[:, 1:])

    return _update(model, loss_of), (torch.randint(0, 100, (2, 32), device=device),)


def memory_generation(device):
    from recurrent_memory_transformer_pytorch import RecurrentMemoryTransformerWrapper

    model = RecurrentMemoryTransformerWrapper(_recurrent(device)).to(device)
    model.eval()

    def step(prompt):
        return model.generate(prompt, length=20)

    return step, (torch.randint(0, 100, (1, 14), device=device),)


def focal_training(device):
    from focal_loss import FocalLoss

    model = nn.Linear(16, 5).to(device)
    loss = FocalLoss(gamma=2.0, weights=torch.tensor([1.0, 2.0, 1.0, 0.5, 3.0], device=device), ignore_index=0)
    args = (torch.randn(24, 16, device=device), torch.randint(0, 5, (24,), device=device))
    return _update(model, lambda x, y: loss(model(x).softmax(dim=-1), y)), args


def focal_segmentation(device):
    from focal_loss import FocalLoss

    model = nn.Conv2d(3, 1, 3, padding=1).to(device)
    loss = FocalLoss(gamma=0.7)
    args = (torch.randn(2, 3, 12, 12, device=device), torch.randint(0, 2, (2, 12, 12), device=device))
    return _update(model, lambda x, y: loss(model(x).sigmoid().flatten(), y.flatten())), args


def dct_compression(device):
    import torch_dct

    def step(image):
        spectrum = torch_dct.dct_2d(image, norm="ortho")
        return torch_dct.idct_2d(spectrum * (spectrum.abs() > 0.1), norm="ortho")

    return step, (torch.rand(2, 3, 16, 16, device=device),)


def dct_training(device):
    import torch_dct

    model = torch_dct.LinearDCT(16, "dct", norm="ortho").to(device)
    head = nn.Linear(16, 16).to(device)
    return _update(head, lambda x: (model(head(x)) - torch_dct.dct(x, norm="ortho")).square().mean()), (
        torch.randn(8, 16, device=device),
    )


def tps_warp(device):
    from torch_tps import ThinPlateSpline

    tps = ThinPlateSpline(alpha=0.5, device=device)

    def step(source, target, points):
        tps.fit(source, target)
        return tps.transform(points)

    return step, tuple(torch.rand(count, 2, device=device) for count in (12, 12, 100))


def tps_transform(device):
    from torch_tps import ThinPlateSpline

    tps = ThinPlateSpline(alpha=0.1, order=1, device=device)
    tps.fit(torch.rand(12, 2, device=device), torch.rand(12, 3, device=device))

    def step(points):
        return tps.transform(points)

    return step, (torch.rand(100, 2, device=device),)


def efficient_training(device):
    from memory_efficient_attention_pytorch import Attention

    model = Attention(
        dim=32, dim_head=16, heads=2, causal=True, memory_efficient=True, q_bucket_size=8, k_bucket_size=8
    ).to(device)
    return _update(model, lambda x: model(x).square().mean()), (torch.randn(2, 24, 32, device=device),)


def efficient_masked(device):
    from memory_efficient_attention_pytorch import Attention

    model = Attention(dim=32, dim_head=16, heads=2, memory_efficient=True, q_bucket_size=8, k_bucket_size=8).to(device)
    mask = torch.ones(2, 24, dtype=torch.bool, device=device)
    mask[0, 16:] = False

    def step(x):
        with torch.no_grad():
            return model(x, mask=mask)

    return step, (torch.randn(2, 24, 32, device=device),)
