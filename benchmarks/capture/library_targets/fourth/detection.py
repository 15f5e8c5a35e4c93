"""Steps of ultralytics: detectors, segmentation, poses and oriented boxes, in training and after a prediction."""

import torch


def tiny(kind, where, nc=4):
    """A model of few channels, with its arguments for losses."""
    from ultralytics.cfg import get_cfg
    from ultralytics.nn import tasks

    names = {
        "detect": ("DetectionModel", "yolov8n.yaml"),
        "segment": ("SegmentationModel", "yolov8n-seg.yaml"),
        "pose": ("PoseModel", "yolov8n-pose.yaml"),
        "obb": ("OBBModel", "yolov8n-obb.yaml"),
        "new": ("DetectionModel", "yolo26n.yaml"),
    }
    name, file = names[kind]
    more = {"data_kpt_shape": (5, 3)} if kind == "pose" else {}
    model = getattr(tasks, name)(file, ch=3, nc=nc, verbose=False, **more)
    model.args = get_cfg(
        overrides={"box": 7.5, "cls": 0.5, "dfl": 1.5, "pose": 12.0, "kobj": 1.0, "overlap_mask": True, "epochs": 3}
    )
    return model.to(where).train()


def batch(kind, where, size=64, nc=4):
    made = {
        "img": torch.rand(2, 3, size, size),
        "batch_idx": torch.tensor([0.0, 0.0, 1.0]),
        "cls": torch.tensor([[0.0], [2.0], [1.0]]),
        "bboxes": torch.tensor([[0.5, 0.5, 0.4, 0.4], [0.3, 0.3, 0.3, 0.2], [0.6, 0.5, 0.5, 0.6]]),
    }
    if kind == "segment":
        masks = torch.zeros(2, 16, 16)
        masks[0, 4:9, 4:9], masks[0, 9:12, 9:14], masks[1, 3:12, 3:12] = 1, 2, 1
        made["masks"] = masks
    if kind == "pose":
        made["keypoints"] = torch.cat([torch.rand(3, 5, 2), torch.full((3, 5, 1), 2.0)], -1)
    if kind == "obb":
        made["bboxes"] = torch.cat([made["bboxes"], torch.tensor([[0.1], [0.5], [1.0]])], -1)
    return {name: value.to(where) for name, value in made.items()}


def trained(kind):
    """One step with the losses of all heads."""

    def build(device):
        model = tiny(kind, device)
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)

        def step(data):
            loss, items = model(data)
            optimizer.zero_grad()
            loss.sum().backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm=10.0)
            optimizer.step()
            return items

        return step, (batch(kind, device),)

    return build


detector_training = trained("detect")
segmenter_training = trained("segment")
keypoints_training = trained("pose")
oriented_training = trained("obb")
end_to_end_training = trained("new")


def detected(device):
    """A prediction and its boxes, thinned; scaled to the picture."""
    from ultralytics.utils import nms, ops

    model = tiny("detect", device).eval()

    @torch.no_grad()
    def step(images, raw):
        model(images)
        kept = nms.non_max_suppression(raw, 0.25, 0.5, max_det=20, nc=4)
        return [ops.scale_boxes((64, 64), boxes[:, :4], (120, 160)) for boxes in kept]

    raw = torch.rand(2, 8, 84, device=device)
    raw[:, :4] *= 40
    return step, (torch.rand(2, 3, 64, 64, device=device), raw)


def detected_choices(device):
    """Several labels of a box, some classes only; rotated boxes."""
    from ultralytics.utils import nms, ops

    def step(raw, rotated):
        kept = nms.non_max_suppression(raw, 0.3, 0.5, classes=[0, 2], multi_label=True, agnostic=True)
        turned = nms.non_max_suppression(rotated, 0.3, 0.5, nc=3, rotated=True)
        return kept, [ops.regularize_rboxes(boxes[:, [0, 1, 2, 3, -1]]) for boxes in turned]

    raw = torch.rand(2, 8, 84, device=device)
    raw[:, :4] *= 40
    return step, (raw, torch.cat([raw[:, :7], torch.rand(2, 1, 84, device=device)], 1))


def masks_of_predictions(device):
    """Masks from prototypes, at the picture's size."""
    from ultralytics.utils import ops

    def step(protos, coefficients, boxes):
        masks = ops.process_mask(protos, coefficients, boxes, (64, 64), upsample=True)
        native = ops.process_mask_native(protos, coefficients, boxes, (80, 80))
        return masks, native, ops.masks2segments(masks)

    boxes = torch.tensor([[4.0, 4, 40, 40], [10, 20, 60, 60]], device=device)
    return step, (torch.randn(8, 16, 16, device=device), torch.randn(2, 8, device=device), boxes)


def validated(device):
    """Predictions of a batch, matched with targets; a matrix of confusion; the metrics so far."""
    from ultralytics.models.yolo.detect import DetectionValidator
    from ultralytics.utils.metrics import ConfusionMatrix, DetMetrics

    validator = DetectionValidator(
        args={
            "task": "detect",
            "conf": 0.1,
            "plots": True,
            "save_json": False,
            "save_txt": False,
            "model": "yolov8n.yaml",
        }
    )
    validator.device = device
    validator.data = {"val": "", "names": dict(enumerate("abcd"))}
    validator.training = True
    validator.init_metrics(tiny("detect", device))
    validator.metrics = DetMetrics(dict(enumerate("abcd")))
    validator.confusion_matrix = ConfusionMatrix(names=dict(enumerate("abcd")))

    def step(raw, data):
        data = validator.preprocess(dict(data))
        preds = validator.postprocess(raw)
        validator.update_metrics(preds, data)
        return validator.get_stats()

    data = batch("detect", torch.device("cpu"))
    data |= {
        "img": (data["img"] * 255).to(torch.uint8),
        "im_file": ["a", "b"],
        "ori_shape": [(64, 64)] * 2,
        "ratio_pad": [((1.0, 1.0), (0.0, 0.0))] * 2,
    }
    raw = torch.rand(2, 8, 84, device=device)
    raw[:, :4] *= 40
    return step, (raw, data)


def assigned_directly(device):
    """The assigner of targets alone, and losses of focus."""
    from ultralytics.utils.loss import DFLoss, FocalLoss, VarifocalLoss
    from ultralytics.utils.tal import TaskAlignedAssigner

    assigner = TaskAlignedAssigner(topk=5, num_classes=4, alpha=0.5, beta=6.0)
    focal, varifocal, distribution = FocalLoss(1.5, 0.25), VarifocalLoss(), DFLoss(16)

    def step(scores, boxes, anchors, labels, targets, mask):
        found = assigner(scores, boxes, anchors, labels, targets, mask)
        loss = focal(scores, found[2]) + varifocal(scores, found[2], (found[2] > 0).float())
        return loss, distribution(
            torch.randn(10, 16, device=scores.device), torch.rand(10, 1, device=scores.device) * 14
        )

    anchors = torch.rand(64, 2, device=device) * 64
    boxes = torch.cat([anchors - 8, anchors + 8], -1).repeat(2, 1, 1)
    targets = torch.tensor([[[10.0, 10, 40, 40], [5, 5, 20, 30]], [[20, 20, 60, 60], [0, 0, 0, 0]]], device=device)
    mask = (targets.sum(-1, keepdim=True) > 0).float()
    return step, (
        torch.rand(2, 64, 4, device=device),
        boxes,
        anchors,
        torch.zeros(2, 2, 1, device=device),
        targets,
        mask,
    )


def matched_queries_training(device):
    """RT-DETR's losses: predictions matched with targets, with denoising queries."""
    from ultralytics.models.utils.loss import RTDETRDetectionLoss
    from ultralytics.models.utils.ops import get_cdn_group

    criterion = RTDETRDetectionLoss(nc=4, use_vfl=True)
    embed = torch.nn.Embedding(4, 32).to(device)

    def step(boxes, scores, targets):
        found = get_cdn_group(
            targets, 4, 12, embed.weight, num_dn=10, cls_noise_ratio=0.5, box_noise_scale=1.0, training=True
        )
        meta = found[3]
        count = sum(meta["dn_num_split"][:1])
        dn = torch.rand(3, 2, count, 4, device=boxes.device), torch.randn(3, 2, count, 4, device=boxes.device)
        losses = criterion((boxes.sigmoid(), scores), targets, dn_bboxes=dn[0], dn_scores=dn[1], dn_meta=meta)
        sum(losses.values()).backward()
        return {name: value.detach() for name, value in losses.items()}

    targets = {
        "cls": torch.tensor([0, 2, 1], device=device),
        "bboxes": torch.rand(3, 4, device=device) * 0.5 + 0.2,
        "batch_idx": torch.tensor([0, 0, 1], device=device),
        "gt_groups": [2, 1],
    }
    boxes = torch.randn(3, 2, 12, 4, device=device, requires_grad=True)
    return step, (boxes, torch.randn(3, 2, 12, 4, device=device, requires_grad=True), targets)
