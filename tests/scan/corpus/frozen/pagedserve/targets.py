import torch
from pagedserve import batch, blocks, runner, sampling
from pagedserve.config import EngineConfig

CONFIG = EngineConfig()


def other_tokens(args, kwargs, k):
    args[0].copy_((args[0] + k) % CONFIG.vocab)


CHANGE = {"build_used_vocab": other_tokens}


def keys(device, rows=4):
    return torch.randn(rows, CONFIG.hidden, device=device)


def logits(device):
    return torch.randn(4, CONFIG.vocab, device=device)


def tokens(device):
    return torch.tensor([3, 5, 5, 9], device=device)


def of(device, kind, *options):
    return kind(CONFIG, device, *options).execute_model, (tokens(device),)


def build_table_rows(device):
    return blocks.PagedReader(CONFIG, device).decode_step, (keys(device),)


def build_ring_slots(device):
    return blocks.RingWriter(CONFIG, device).write, (keys(device)[0],)


def build_free_list(device):
    return blocks.FreeListWriter(CONFIG, device).write, (keys(device, 1),)


def slots(device):
    return torch.tensor([3, -1, 5, 2], device=device)


def build_store_valid(device):
    return blocks.store_valid, (torch.zeros(12, CONFIG.hidden, device=device), keys(device), slots(device))


def build_store_padded(device):
    return blocks.store_padded, (torch.zeros(12, CONFIG.hidden, device=device), keys(device), slots(device))


def build_table_upload(device):
    return blocks.TableUploader(CONFIG, device).prepare_inputs, (keys(device, 12),)


def build_table_upload_async(device):
    return blocks.AsyncTableUploader(CONFIG, device).prepare_inputs, (keys(device, 12),)


def build_declared_backend(device):
    return blocks.FlatBackend().run, (torch.randn(4, 8, device=device), lens(device))


def build_host_rows(device):
    return blocks.ScatterWriter(keys(device, 12), [3, 0, 7, 5]).write, (keys(device),)


def build_host_rows_moved(device):
    return blocks.MovedScatterWriter(keys(device, 12), [3, 0, 7, 5]).write, (keys(device),)


def build_growing_lens(device):
    runner = batch.ScoringRunner(batch.Scheduler([1, 2, 1, 3]))
    return runner.execute_model, (torch.randn(4, 64, device=device),)


def build_swap_in(device):
    return blocks.SwapSpace(CONFIG, device).restore, (keys(device),)


def lens(device):
    return torch.tensor([3, 5, 2, 6], device=device)


def build_batch_longest(device):
    return batch.visible_scores, (torch.randn(4, 8, device=device), lens(device))


def build_batch_longest_host(device):
    held = batch.HostBatch(torch.zeros(4, 8, device=device), [3, 5, 2, 6])
    return lambda scores: batch.visible_scores_host(held, scores), (torch.randn(4, 8, device=device),)


def build_inputs_to_host(device):
    return batch.log_prob_payload, (torch.randn(4, device=device), torch.randn(4, device=device))


def requests():
    return [batch.Request(3), batch.Request(5), batch.Request(2), batch.Request(6)]


def build_request_lengths(device):
    return batch.RequestPool(requests()).mask, (torch.randn(4, 8, device=device),)


def build_request_lengths_static(device):
    return batch.StaticRequestPool(requests(), device).mask, (torch.randn(4, 8, device=device),)


def build_ragged_last(device):
    return batch.ragged_last, (keys(device, 16), lens(device))


def build_ragged_last_gather(device):
    return batch.ragged_last_gather, (keys(device, 16), lens(device))


def build_nucleus(device):
    return sampling.Sampler("top_p").sample, (logits(device),)


def build_nucleus_masked(device):
    return sampling.Sampler("top_p_masked", p=0.8).sample, (logits(device),)


def build_widest_k(device):
    return sampling.Sampler("top_k_each", top_k=torch.tensor([1, 3, 2, 2], device=device)).sample, (logits(device),)


def build_seeded_rows(device):
    return sampling.SeededSampler({0: 7, 2: 11}, device).sample, (logits(device),)


def build_unseeded_rows(device):
    return sampling.UnseededSampler().sample, (logits(device),)


def build_cooling(device):
    return sampling.CoolingSampler(period=1.0).sample, (logits(device),)


def processed(device, *processors):
    return sampling.ProcessorChain(*processors).process, (logits(device), tokens(device))


def build_repetition(device):
    return processed(device, sampling.RepetitionPenalty(CONFIG.vocab))


def build_banned_words(device):
    return processed(device, sampling.BannedWords({1, 4}))


def build_min_length(device):
    return processed(device, sampling.MinLength(CONFIG.eos, 3))


def build_all_stopped(device):
    return of(device, runner.StoppingRunner)


def build_stop_flags(device):
    return of(device, runner.FlaggingRunner)


def build_token_event(device):
    return of(device, runner.EventedRunner)


def build_offset_entry(device):
    return of(device, runner.OffsetRunner)


def build_offset_tensor(device):
    return of(device, runner.OffsetTensorRunner)


def build_last_draft(device):
    return of(device, runner.LookaheadRunner)


def build_last_draft_kept(device):
    return of(device, runner.LookaheadBufferRunner)


def build_workspaces(device):
    return of(device, runner.WorkspaceRunner)


def build_used_vocab(device):
    return of(device, runner.VocabRunner)


def build_host_lengths(device):
    return of(device, runner.MixedRunner, "top_p_masked")
