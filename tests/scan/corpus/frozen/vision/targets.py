import torch
from visionkit import boxes, images, video


def some_boxes(device):
    corner = torch.rand(6, 2, device=device)
    return torch.cat([corner, corner + torch.rand(6, 2, device=device)], 1)


def some_scores(device):
    return torch.rand(6, device=device)


def picture(device):
    return torch.rand(2, 3, 4, 4, device=device)


def keep_sizes(args, kwargs, k):
    args[0].uniform_()


CHANGE = dict.fromkeys(["build_stretched_grid", "build_patch_lengths"], keep_sizes)


def build_greedy_nms(device):
    return boxes.GreedyNms(), (some_boxes(device), some_scores(device))


def build_matrix_nms(device):
    return boxes.MatrixNms(), (some_boxes(device), some_scores(device))


def build_confident_scores(device):
    return boxes.Confident(0.2), (some_scores(device), some_boxes(device))


def build_level_rows(device):
    return boxes.LevelPooler(3).to(device), (some_boxes(device),)


def build_anchor_cache(device):
    return boxes.Anchors().to(device), (picture(device), torch.tensor([64.0, 48.0], device=device))


def build_host_matcher(device):
    return boxes.Matcher(), (torch.rand(4, 2, device=device), torch.rand(3, 2, device=device))


def build_homography(device):
    return boxes.Rectify().to(device), (torch.rand(5, 3, device=device),)


def build_homography_unchecked(device):
    return boxes.RectifyUnchecked().to(device), (torch.rand(5, 3, device=device),)


def build_faint_keypoints(device):
    return boxes.Keypoints(), (torch.rand(2, 4, 4, device=device),)


def build_image_mean(device):
    return images.Normalize(), (picture(device),)


def build_image_mean_buffer(device):
    return images.NormalizeBuffer().to(device), (picture(device),)


def build_stretched_grid(device):
    return images.PositionGrid().to(device), (picture(device), torch.tensor([[5, 6], [5, 6]], device=device))


def build_patch_lengths(device):
    sizes = torch.tensor([[1, 2, 2], [1, 2, 3]], device=device)
    return images.PatchLengths(), (torch.rand(10, 4, device=device), sizes)


def build_window_regions(device):
    return images.ShiftedWindows().to(device), (torch.rand(6, 6, 4, device=device),)


def build_window_regions_static(device):
    return images.StaticWindows(6, 6).to(device), (torch.rand(6, 6, 4, device=device),)


def build_channel_order(device):
    return images.ChannelOrder(), (picture(device),)


def build_channel_flip(device):
    return images.ChannelFlip(), (picture(device),)


def build_drop_path(device):
    return images.DropPath(), (picture(device),)


def build_drop_path_tensor(device):
    return images.DropPathTensor(), (torch.rand(16, 3, 4, 4, device=device),)


def build_mixup(device):
    return images.Augmented(images.NormalizeBuffer().to(device), images.mixup), (picture(device),)


def build_random_pixels(device):
    return images.RandomPixels(), (picture(device),)


def build_learned_scale(device):
    return images.Rescale().to(device), (picture(device),)


def build_alternating_frames(device):
    return video.AlternatingFrames((2, 4), device), (torch.rand(2, 4, device=device),)


def build_swapped_frames(device):
    return video.SwappedFrames((2, 4), device), (torch.rand(2, 4, device=device),)


def build_swapped_frames_copied(device):
    return video.CopiedFrames((2, 4), device), (torch.rand(2, 4, device=device),)


def build_background_model(device):
    return video.Background((2, 4), device), (torch.rand(2, 4, device=device),)


def build_key_frames(device):
    return video.KeyFrames(4, device).to(device), (torch.rand(2, 4, device=device),)
