"""Steps of gluonts, mambapy, torchnlp and torchlibrosa: series, sequences, words and sounds."""

import torch
from torch import nn


def described(model, device):
    """Random arguments of the shapes that a model of gluonts asks for, and those of its loss."""
    inputs = {}
    for name, spec in model.describe_inputs(batch_size=2).items():
        if spec.dtype == torch.long:
            inputs[name] = torch.zeros(spec.shape, dtype=torch.long, device=device)
        elif "observed" in name:
            inputs[name] = torch.ones(spec.shape, device=device)
        else:
            inputs[name] = torch.rand(spec.shape, device=device) + 0.5
    return inputs


def forecast(make, prediction=3, training=True, **more):
    def build(device):
        model = make().to(device)
        inputs = described(model, device)
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

        def step(inputs, future, observed):
            if not training:
                with torch.no_grad():
                    return model(**inputs, **more)
            loss = model.loss(**inputs, future_target=future, future_observed_values=observed).mean()
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 10.0)
            optimizer.step()
            return loss.detach()

        return step, (inputs, torch.rand(2, prediction, device=device), torch.ones(2, prediction, device=device))

    return build


def recurrent_model():
    from gluonts.torch.model.deepar.module import DeepARModel

    return DeepARModel(
        freq="D", context_length=6, prediction_length=3, num_layers=1, hidden_size=8, lags_seq=[1, 2], cardinality=[3]
    )


def dense_model():
    from gluonts.torch.model.simple_feedforward.module import SimpleFeedForwardModel

    return SimpleFeedForwardModel(prediction_length=3, context_length=6, hidden_dimensions=[8])


def patched_model():
    from gluonts.torch.model.patch_tst.module import PatchTSTModel

    return PatchTSTModel(
        prediction_length=3,
        context_length=8,
        patch_len=4,
        stride=2,
        padding_patch="end",
        d_model=8,
        nhead=2,
        dim_feedforward=16,
        num_feat_dynamic_real=0,
        dropout=0.1,
        activation="relu",
        norm_first=False,
        num_encoder_layers=1,
        scaling="std",
    )


recurrent_forecast_training = forecast(recurrent_model)
recurrent_forecast = forecast(recurrent_model, training=False, num_parallel_samples=2)
dense_forecast_training = forecast(dense_model)
patched_forecast_training = forecast(patched_model)


def selective_training(**options):
    """A small language model of selective state spaces."""

    def build(device):
        from mambapy.mamba import Mamba, MambaConfig

        table, head = nn.Embedding(16, 8), nn.Linear(8, 16)
        model = nn.Sequential(table, Mamba(MambaConfig(d_model=8, n_layers=2, **options)), head).to(device)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

        def step(tokens, targets):
            loss = nn.functional.cross_entropy(model(tokens).flatten(0, 1), targets.flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            return loss.detach()

        return step, (torch.randint(0, 16, (2, 7), device=device), torch.randint(0, 16, (2, 7), device=device))

    return build


scanned_training = selective_training()
stepwise_training = selective_training(pscan=False)
both_ways_training = selective_training(inner_layernorms=True, bias=True)


def selective_decoding(device):
    """A token after another, with caches."""
    from mambapy.mamba import Mamba, MambaConfig

    config = MambaConfig(d_model=8, n_layers=2)
    model = Mamba(config).to(device).eval()

    def step(x):
        caches = [
            (None, torch.zeros(2, config.d_inner, config.d_conv - 1, device=x.device)) for _ in range(config.n_layers)
        ]
        with torch.no_grad():
            for token in x.unbind(1):
                out, caches = model.step(token, caches)
        return out

    return step, (torch.randn(2, 4, 8, device=device),)


def attentive_words_training(device):
    from torchnlp.nn import Attention, CNNEncoder, LockedDropout, WeightDropLSTM

    table, drop = nn.Embedding(20, 8).to(device), LockedDropout(0.3)
    recurrent = WeightDropLSTM(8, 8, weight_dropout=0.2).to(device)
    attention = Attention(8).to(device)
    encoder = CNNEncoder(embedding_dim=8, num_filters=3, ngram_filter_sizes=(2, 3), output_dim=4).to(device)
    parts = nn.ModuleList([table, recurrent, attention, encoder])
    optimizer = torch.optim.Adam(parts.parameters(), lr=1e-3)

    def step(words, mask, y):
        parts.train()
        seen = drop(table(words))
        hidden, _ = recurrent(seen.transpose(0, 1))
        mixed, _weights = attention(hidden[-1:].transpose(0, 1), hidden.transpose(0, 1).contiguous())
        logits = encoder(seen, mask) + mixed.squeeze(1)[:, :4]
        loss = nn.functional.cross_entropy(logits, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step, (
        torch.randint(0, 20, (3, 6), device=device),
        torch.ones(3, 6, device=device),
        torch.randint(0, 4, (3,), device=device),
    )


def stacked_words(device):
    """Sequences of several lengths are put into a batch, and moved to the device."""
    from torchnlp.encoders.text import stack_and_pad_tensors
    from torchnlp.utils import lengths_to_mask, tensors_to

    def step(sequences):
        batch = stack_and_pad_tensors(sequences)
        return (
            batch.tensor,
            lengths_to_mask(batch.lengths, device=batch.tensor.device),
            tensors_to(batch, device=batch.tensor.device),
        )

    return step, ([torch.randint(1, 9, (n,), device=device) for n in (2, 4, 3)],)


def mel_spectrogram(device):
    """The front of an audio network: a log-mel spectrogram with masks on times and frequencies."""
    from torchlibrosa.augmentation import SpecAugmentation
    from torchlibrosa.stft import LogmelFilterBank, Spectrogram

    spectrogram = Spectrogram(n_fft=64, hop_length=16).to(device)
    mel = LogmelFilterBank(sr=8000, n_fft=64, n_mels=8, fmin=50, fmax=4000, top_db=80.0).to(device)
    augmented = SpecAugmentation(time_drop_width=2, time_stripes_num=2, freq_drop_width=2, freq_stripes_num=2)

    def step(sound):
        return augmented(mel(spectrogram(sound)))

    return step, (torch.randn(2, 400, device=device),)


def inverted_sound(device):
    from torchlibrosa.stft import ISTFT, STFT, magphase

    forward = STFT(n_fft=64, hop_length=16).to(device)
    backward = ISTFT(n_fft=64, hop_length=16).to(device)

    def step(sound):
        real, imag = forward(sound)
        magnitude, cos, sin = magphase(real, imag)
        return backward(magnitude * cos, magnitude * sin, sound.shape[1])

    return step, (torch.randn(2, 400, device=device),)
