"""Steps of speechbrain: features, augmentation, recognisers, speakers, separation, decoding and metrics."""

import torch
import torch.nn.functional as F
from torch import nn


def waves(device, batch=2, samples=8000):
    return torch.randn(batch, samples, device=device), torch.tensor([1.0, 0.8], device=device)


def normalized_features(device):
    from speechbrain.lobes.features import Fbank
    from speechbrain.processing.features import InputNormalization

    features, normalize = Fbank(n_mels=20).to(device), InputNormalization(norm_type="sentence").to(device)

    @torch.no_grad()
    def step(samples, lengths):
        return normalize(features(samples), lengths)

    return step, waves(device)


def speaker_training(device):
    """Classifies speakers with a margin loss, on features that are normalised by running statistics."""
    from speechbrain.lobes.features import Fbank
    from speechbrain.lobes.models.ECAPA_TDNN import ECAPA_TDNN, Classifier
    from speechbrain.nnet.losses import AdditiveAngularMargin, LogSoftmaxWrapper
    from speechbrain.processing.features import InputNormalization

    features, normalize = Fbank(n_mels=20).to(device), InputNormalization(norm_type="global").to(device)
    model = ECAPA_TDNN(
        20, device, lin_neurons=16, channels=[16] * 4 + [48], attention_channels=8, res2net_scale=4, se_channels=8
    )
    model, head = model.to(device), Classifier(16, device=device, out_neurons=5).to(device)
    criterion = LogSoftmaxWrapper(AdditiveAngularMargin(margin=0.2, scale=30)).to(device)
    optimizer = torch.optim.Adam([*model.parameters(), *head.parameters()], lr=1e-3)

    def step(samples, lengths, speakers):
        inputs = normalize(features(samples), lengths, epoch=0)
        loss = criterion(head(model(inputs, lengths)), speakers, lengths)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss.detach()

    return step, (*waves(device), torch.randint(0, 5, (2, 1), device=device))


def recognition_training(device):
    """A conformer trained by its alignments and its next tokens."""
    from speechbrain.lobes.models.transformer.TransformerASR import TransformerASR
    from speechbrain.nnet.losses import ctc_loss, kldiv_loss

    model = TransformerASR(
        tgt_vocab=12,
        input_size=20,
        d_model=16,
        nhead=2,
        num_encoder_layers=1,
        num_decoder_layers=1,
        d_ffn=32,
        encoder_module="conformer",
        attention_type="RelPosMHAXL",
        normalize_before=True,
        causal=False,
    ).to(device)
    aligned, following = nn.Linear(16, 12).to(device), nn.Linear(16, 12).to(device)
    optimizer = torch.optim.Adam([*model.parameters(), *aligned.parameters(), *following.parameters()], lr=1e-3)

    def step(frames, lengths, tokens, token_lengths):
        encoded, decoded = model(frames, tokens, lengths, pad_idx=0)
        loss = 0.3 * ctc_loss(aligned(encoded).log_softmax(-1), tokens, lengths, token_lengths, blank_index=0)
        loss = loss + 0.7 * kldiv_loss(
            following(decoded).log_softmax(-1), tokens, length=token_lengths, label_smoothing=0.1, pad_idx=0
        )
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    frames, lengths = torch.randn(2, 40, 20, device=device), torch.tensor([1.0, 0.8], device=device)
    return step, (frames, lengths, torch.randint(1, 12, (2, 6), device=device), lengths)


def recurrent_recognizer(device):
    from speechbrain.lobes.models.CRDNN import CRDNN

    model = CRDNN(
        input_shape=[None, None, 20],
        cnn_blocks=1,
        cnn_channels=[4],
        time_pooling=True,
        rnn_layers=1,
        rnn_neurons=16,
        dnn_blocks=1,
        dnn_neurons=16,
    )
    model = model.to(device).eval()

    @torch.no_grad()
    def step(frames):
        return model(frames)

    return step, (torch.randn(2, 40, 20, device=device),)


def damaged_waves(device):
    """The augmentations of a recipe: speed, missing frequencies and chunks, clipping."""
    from speechbrain.augment.augmenter import Augmenter
    from speechbrain.augment.time_domain import DoClip, DropChunk, DropFreq, SpeedPerturb

    augment = Augmenter(
        concat_original=True,
        min_augmentations=4,
        max_augmentations=4,
        augmentations=[
            SpeedPerturb(orig_freq=16000, speeds=[95, 100, 105]),
            DropFreq(),
            DropChunk(drop_length_low=100, drop_length_high=400),
            DoClip(),
        ],
    )

    @torch.no_grad()
    def step(samples, lengths):
        return augment(samples, lengths)

    return step, waves(device)


def dropped_spectrogram(device):
    from speechbrain.augment.freq_domain import SpectrogramDrop, Warping

    warp, drop = Warping(), SpectrogramDrop(drop_length_low=2, drop_length_high=5, dim=1)

    @torch.no_grad()
    def step(frames):
        return drop(warp(frames))

    return step, (torch.randn(2, 60, 20, device=device),)


def separation_training(device):
    """Two speakers separated; the loss is that of the better order."""
    from speechbrain.lobes.models.conv_tasnet import MaskNet
    from speechbrain.lobes.models.dual_path import Decoder, Encoder
    from speechbrain.nnet.losses import get_si_snr_with_pitwrapper

    encode = Encoder(kernel_size=16, out_channels=16).to(device)
    decode = Decoder(in_channels=16, out_channels=1, kernel_size=16, stride=8, bias=False).to(device)
    masks = MaskNet(16, 8, 16, 3, 2, 1, C=2, norm_type="gLN", causal=False, mask_nonlinear="relu").to(device)
    optimizer = torch.optim.Adam([*encode.parameters(), *masks.parameters(), *decode.parameters()], lr=1e-3)

    def step(mixture, sources):
        encoded = encode(mixture)
        separated = torch.stack([decode(one) for one in encoded.unsqueeze(0) * masks(encoded)], dim=-1)
        length = min(separated.shape[1], sources.shape[1])
        loss = get_si_snr_with_pitwrapper(sources[:, :length], separated[:, :length]).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    sources = torch.randn(2, 800, 2, device=device)
    return step, (sources.sum(-1), sources)


def greedy_alignment(device):
    from speechbrain.decoders.ctc import ctc_greedy_decode

    return (lambda scores, lengths: ctc_greedy_decode(scores, lengths, blank_id=0)), (
        torch.randn(2, 30, 12, device=device).log_softmax(-1),
        torch.tensor([1.0, 0.8], device=device),
    )


def beam_search(device):
    """Attention over encoded frames, eight steps of four beams."""
    from speechbrain.decoders.seq2seq import S2SRNNBeamSearcher
    from speechbrain.nnet.embedding import Embedding
    from speechbrain.nnet.linear import Linear
    from speechbrain.nnet.RNN import AttentionalRNNDecoder

    embed = Embedding(num_embeddings=12, embedding_dim=8).to(device)
    decoder = AttentionalRNNDecoder(
        rnn_type="gru", attn_type="content", hidden_size=8, attn_dim=8, num_layers=1, enc_dim=16, input_size=8
    ).to(device)
    searcher = S2SRNNBeamSearcher(
        embedding=embed,
        decoder=decoder,
        linear=Linear(input_size=8, n_neurons=12).to(device),
        bos_index=1,
        eos_index=2,
        min_decode_ratio=0,
        max_decode_ratio=0.4,
        beam_size=4,
    )

    @torch.no_grad()
    def step(encoded, lengths):
        return searcher(encoded, lengths)

    return step, (torch.randn(2, 20, 16, device=device), torch.tensor([1.0, 0.8], device=device))


def speaker_metrics(device):
    """Appends the results of a validation step to metrics, and computes the summary."""
    from speechbrain.utils.Accuracy import AccuracyStats
    from speechbrain.utils.metric_stats import BinaryMetricStats

    accuracy, verification = AccuracyStats(), BinaryMetricStats()

    @torch.no_grad()
    def step(scores, targets, lengths, similarity):
        verification.clear()
        accuracy.append(scores, targets, lengths)
        verification.append(list(range(8)), similarity, (similarity.cumsum(0) > 1).float())
        return accuracy.summarize(), verification.summarize("DER")

    scores, targets = torch.randn(2, 10, 6, device=device).log_softmax(-1), torch.randint(0, 6, (2, 10), device=device)
    return step, (scores, targets, torch.tensor([1.0, 0.8], device=device), torch.rand(8, device=device))


def beamforming(device):
    from speechbrain.processing.features import ISTFT, STFT
    from speechbrain.processing.multi_mic import Covariance, DelaySum, GccPhat

    there, back = STFT(16000).to(device), ISTFT(16000).to(device)
    covariance, delays, add = Covariance().to(device), GccPhat().to(device), DelaySum().to(device)

    @torch.no_grad()
    def step(samples):
        spectrum = there(samples)
        return back(add(spectrum, delays(covariance(spectrum))))

    return step, (torch.randn(1, 8000, 4, device=device),)


def duration_model(device):
    """Text to spectrogram, the length of each phoneme predicted."""
    from speechbrain.lobes.models.FastSpeech2 import upsample

    predict = nn.Linear(8, 1).to(device)

    @torch.no_grad()
    def step(phonemes):
        durations = F.softplus(predict(phonemes)).squeeze(-1).mul(3).round().clamp(min=1).long()
        return upsample(phonemes, durations)

    return step, (torch.randn(2, 7, 8, device=device),)
