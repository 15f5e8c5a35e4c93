"""Steps of torchebm, flowtorch, easy_tpp, esm and tensorkrowch: energies, flows, events, proteins and tensor nets."""

import functools

import torch
from torch import nn


@functools.cache
def energy_class():
    from torchebm.core import BaseModel

    class Energy(BaseModel):
        def __init__(self):
            super().__init__()
            self.net = nn.Sequential(nn.Linear(2, 32), nn.SiLU(), nn.Linear(32, 1))

        def forward(self, x):
            return self.net(x).squeeze(-1)

    return Energy


def energy_training(name, **options):
    def build(device):
        from torchebm import losses
        from torchebm.samplers import LangevinDynamics

        energy = energy_class()().to(device)
        optimizer = torch.optim.Adam(energy.parameters(), lr=1e-3)
        if "k_steps" in options:
            sampler = LangevinDynamics(model=energy, step_size=0.1, noise_scale=1.0, device=device)
            loss_fn = getattr(losses, name)(model=energy, sampler=sampler, device=device, **options)
        else:
            loss_fn = getattr(losses, name)(model=energy, device=device, **options)

        def step(data):
            loss = loss_fn(data)
            loss = loss[0] if isinstance(loss, tuple) else loss
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            return loss.detach()

        return step, (torch.randn(16, 2, device=device),)

    return build


contrastive_training = energy_training("ContrastiveDivergence", k_steps=5)
persistent_training = energy_training("ContrastiveDivergence", k_steps=5, persistent=True, buffer_size=64)
sliced_score_training = energy_training("SlicedScoreMatching", n_projections=3)
energy_matching_training = energy_training("EnergyMatchingLoss", n_langevin_steps=5)


class Field(nn.Module):
    """A velocity by place and time."""

    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(3, 32), nn.SiLU(), nn.Linear(32, 2))

    def forward(self, x, t, **kwargs):
        return self.net(torch.cat([x, t.reshape(-1, 1).expand(len(x), 1)], -1))


def flow_samples(**options):
    def build(device):
        from torchebm.samplers import FlowSampler

        sampler = FlowSampler(model=Field().to(device), device=device, **options)

        def step(noise):
            with torch.no_grad():
                return sampler.sample(x=noise, n_steps=6)

        return step, (torch.randn(16, 2, device=device),)

    return build


diffusion_samples = flow_samples(mode="sde", interpolant="vp", prediction="noise")


def chain(name, **options):
    def build(device):
        from torchebm import samplers
        from torchebm.core import GaussianModel

        covariance = torch.tensor([[1.0, 0.8], [0.8, 1.0]], device=device)
        model = GaussianModel(mean=torch.zeros(2, device=device), cov=covariance, device=device)
        sampler = getattr(samplers, name)(model=model, device=device, **options)
        return lambda x: sampler.sample(x=x, n_steps=5), (torch.randn(16, 2, device=device),)

    return build


langevin_samples = chain("LangevinDynamics", step_size=0.02, noise_scale=1.0)


def flowed(name, size=2, context=None, **options):
    """Density estimation by flowtorch, as in its introduction."""

    def build(device):
        import flowtorch.bijectors as bijectors
        import flowtorch.distributions as dist

        base = torch.distributions.Independent(
            torch.distributions.Normal(torch.zeros(size, device=device), torch.ones(size, device=device)), 1
        )
        flow = dist.Flow(base, getattr(bijectors, name)(**options)).to(device)
        optimizer = torch.optim.Adam(flow.parameters(), lr=5e-3)

        def step(data):
            optimizer.zero_grad()
            loss = -flow.log_prob(data).mean()
            loss.backward()
            optimizer.step()
            return loss.detach(), flow.sample([8])

        return step, (torch.rand(16, size, device=device),)

    return build


affine_flow_training = flowed("AffineAutoregressive")
spline_flow_training = flowed("SplineAutoregressive")


def composed_flow_training(device):
    import flowtorch.bijectors as bijectors
    import flowtorch.distributions as dist
    import flowtorch.parameters as params

    base = torch.distributions.Independent(
        torch.distributions.Normal(torch.zeros(3, device=device), torch.ones(3, device=device)), 1
    )
    bijector = bijectors.Compose(
        bijectors=[
            bijectors.AffineAutoregressive(params.DenseAutoregressive(hidden_dims=(16,))),
            bijectors.AffineAutoregressive(params.DenseAutoregressive(hidden_dims=(16,))),
        ]
    )
    flow = dist.Flow(base, bijector).to(device)
    optimizer = torch.optim.Adam(flow.parameters(), lr=5e-3)

    def step(data):
        optimizer.zero_grad()
        loss = -flow.log_prob(data).mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step, (torch.randn(16, 3, device=device),)


def flow_variational_training(device):
    """A density known up to a constant, by samples of the flow."""
    import flowtorch.bijectors as bijectors
    import flowtorch.distributions as dist

    base = torch.distributions.Independent(
        torch.distributions.Normal(torch.zeros(2, device=device), torch.ones(2, device=device)), 1
    )
    flow = dist.Flow(base, bijectors.AffineAutoregressive()).to(device)
    optimizer = torch.optim.Adam(flow.parameters(), lr=5e-3)

    def step(centre):
        optimizer.zero_grad()
        z = flow.rsample((16,))
        loss = (flow.log_prob(z) + 0.5 * (z - centre).square().sum(-1)).mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step, (torch.ones(2, device=device),)


def eventful(name, on, **options):
    from easy_tpp.config_factory import ModelConfig
    from easy_tpp.model import BaseModel

    thinning = {
        "num_seq": 4,
        "num_sample": 1,
        "num_exp": 20,
        "look_ahead_time": 10,
        "patience_counter": 5,
        "over_sample_rate": 5,
        "num_samples_boundary": 5,
        "dtime_max": 5,
        "num_step_gen": 2,
    }
    config = ModelConfig(
        model_id=name,
        hidden_size=16,
        time_emb_size=8,
        num_layers=1,
        num_heads=2,
        loss_integral_num_sample_per_step=5,
        num_event_types=3,
        num_event_types_pad=4,
        event_pad_index=3,
        thinning=thinning,
        gpu=-1 if on.type == "cpu" else on.index or 0,
        **options,
    )
    return BaseModel.generate_model_from_config(config).to(on)


def events(on):
    """Times, gaps, kinds, which are real, and which may be seen."""
    gaps = torch.rand(3, 6, device=on)
    gaps[:, 0] = 0
    seen = torch.ones(3, 6, dtype=torch.bool, device=on)
    seen[2, 4:] = False
    kinds = torch.randint(3, (3, 6), device=on).masked_fill(~seen, 3)
    ahead = torch.triu(torch.ones(6, 6, dtype=torch.bool, device=on), 1)
    return gaps.cumsum(-1), gaps, kinds, seen, ahead | ~seen[:, None]


def event_training(name, **options):
    def build(device):
        model = eventful(name, device, **options)
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

        def step(*batch):
            model.train()
            loss, number = model.loglike_loss(batch)
            optimizer.zero_grad()
            (loss / number).backward()
            optimizer.step()
            return loss.item()

        return step, events(device)

    return build


hawkes_training = event_training("NHP")
transformer_hawkes_training = event_training("THP")
attentive_events_training = event_training("SAHP")
recurrent_events_training = event_training("RMTPP")


def event_prediction(device):
    model = eventful("NHP", device).eval()

    def step(*batch):
        with torch.no_grad():
            return model.predict_one_step_at_every_event(batch)

    return step, events(device)


def event_generation(device):
    model = eventful("THP", device).eval()

    def step(*batch):
        with torch.no_grad():
            return model.predict_multi_step_since_last_event(batch)

    return step, events(device)


def protein(on):
    import esm

    return esm.model.esm2.ESM2(num_layers=2, embed_dim=16, attention_heads=2, alphabet="ESM-1b").to(on).eval()


def residues(on, alphabet):
    converter = alphabet.get_batch_converter()
    data = [("one", "MKTVRQERLKSIVRILE"), ("two", "KALTARQQEVFDLIRD<mask>ISQ"), ("three", "K A <mask> I S Q")]
    return converter(data)[2].to(on)


def protein_contacts(device):
    model = protein(device)

    def step(tokens):
        with torch.no_grad():
            results = model(tokens, repr_layers=[2], return_contacts=True)
        return results["representations"][2], results["contacts"]

    return step, (residues(device, model.alphabet),)


def protein_embedding(device):
    """A vector for each sequence, as the README has it: the mean over its residues."""
    model = protein(device)

    def step(tokens):
        lengths = (tokens != model.alphabet.padding_idx).sum(1)
        with torch.no_grad():
            representations = model(tokens, repr_layers=[2])["representations"][2]
        return [representations[i, 1 : length - 1].mean(0) for i, length in enumerate(lengths)]

    return step, (residues(device, model.alphabet),)


def protein_training(device):
    model = protein(device).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)

    def step(tokens):
        masked = tokens.masked_fill(torch.rand(tokens.shape, device=tokens.device) < 0.15, model.mask_idx)
        logits = model(masked)["logits"]
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), tokens.flatten(), ignore_index=model.padding_idx)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step, (residues(device, model.alphabet),)


def protein_alignment(device):
    """Contacts of an alignment of several sequences."""
    from argparse import Namespace

    import esm

    alphabet = esm.data.Alphabet.from_architecture("msa_transformer")
    options = Namespace(
        layers=2,
        embed_dim=16,
        ffn_embed_dim=32,
        attention_heads=2,
        dropout=0.1,
        attention_dropout=0.1,
        activation_dropout=0.1,
        max_tokens_per_msa=2**14,
        max_tokens=2**14,
        max_positions=64,
        embed_positions_msa=True,
        embed_positions_msa_dim=16,
        logit_bias=True,
        final_bias=True,
        arch="msa_transformer",
    )
    model = esm.model.msa_transformer.MSATransformer(options, alphabet).to(device).eval()
    converter = alphabet.get_batch_converter()
    tokens = converter([("one", "MKTVRQE"), ("two", "MKTVRQA"), ("three", "MK-VRQE")])[2].to(device)

    def step(tokens):
        with torch.no_grad():
            return model.predict_contacts(tokens)

    return step, (tokens,)


def tensor_chain_training(device):
    """The tutorial: a matrix product state that tells classes of pixels."""
    import tensorkrowch as tk

    mps = tk.models.MPSLayer(
        n_features=9, in_dim=3, out_dim=4, bond_dim=5, init_method="randn_eye", std=1e-3, device=device
    )

    def embedding(x):
        return tk.embeddings.poly(x, degree=2)

    mps.trace(torch.zeros(1, 8, 3, device=device))
    optimizer = torch.optim.Adam(mps.parameters(), lr=1e-3)

    def step(pixels, labels):
        loss = nn.functional.cross_entropy(mps(embedding(pixels)), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step, (torch.rand(16, 8, device=device), torch.randint(4, (16,), device=device))


def tensor_hybrid_training(device):
    import tensorkrowch as tk

    model = nn.Sequential(
        tk.models.MPSLayer(n_features=9, in_dim=3, out_dim=6, bond_dim=4, device=device), nn.ReLU(), nn.Linear(6, 2)
    ).to(device)
    model[0].trace(torch.zeros(1, 8, 3, device=device))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

    def step(data, targets):
        loss = nn.functional.mse_loss(model(data), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step, (torch.randn(16, 8, 3, device=device), torch.randn(16, 2, device=device))


def tensor_tree(device):
    import tensorkrowch as tk

    tree = tk.models.Tree(sites_per_layer=[4, 2, 1], bond_dim=[[2, 2, 3], [3, 3, 3], [3, 3, 4]]).to(device)
    data = torch.randn(6, 8, 2, device=device)
    tree.trace(data[:1])
    return lambda data: tree(data).detach(), (data,)


def tensor_canonical(device):
    """Bonds cut to what their singular values need."""
    import tensorkrowch as tk

    mps = tk.models.MPS(n_features=5, phys_dim=2, bond_dim=5, device=device)

    def step(data):
        with torch.no_grad():
            mps.canonicalize(cum_percentage=0.98)
            return mps(data)

    return step, (torch.rand(4, 5, 2, device=device),)


def tensor_decomposition(device):
    import tensorkrowch as tk

    return lambda vector: tk.decompositions.vec_to_mps(vector, n_batches=1, rank=3), (
        torch.randn(4, 2, 3, 2, device=device),
    )
