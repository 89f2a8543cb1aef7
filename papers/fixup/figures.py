"""The figures of the page, drawn from the metrics table alone."""

from __future__ import annotations

import polars as pl

from shared.reporting.figures import Figure, dots_by_arm, figure, seed_band, sweep

NAMES = {
    "batchnorm": "BatchNorm",
    "fixup": "Fixup",
    "zero_init": "zero-init, not scaled",
    "he": "He",
    "xavier": "Xavier",
    "scalar_lr": "Fixup, scalars at full rate",
    "per_channel": "Fixup, per channel",
}
METHODS = tuple(NAMES.values())


def figures(metrics: pl.DataFrame, scale: str) -> list[Figure]:
    """The figures for which the table has runs: not every arm is run at every scale."""
    drawn = [
        _error_against_depth(metrics),
        _update_against_depth(metrics),
        _signal_through_blocks(metrics),
        _error_of_resnet(metrics),
        _loss_of_resnet(metrics),
        _error_on_imagenet(metrics),
    ]
    return [shown for shown in drawn if shown]


def _error_against_depth(metrics: pl.DataFrame) -> Figure | None:
    return figure(
        "Error after a short training against depth",
        "The same number of steps at the same learning rate for every arm, as in Figure 3. "
        "90 percent is chance.",
        sweep,
        metrics,
        experiment="depth_sweep",
        metric="test_error_percent",
        points={
            f"{method}-{depth}": (NAMES[method], float(depth))
            for method in ("batchnorm", "fixup", "zero_init", "he")
            for depth in (10, 100, 1000)
        },
        methods=METHODS,
        x_title="depth (weight layers)",
    )


def _update_against_depth(metrics: pl.DataFrame) -> Figure | None:
    return figure(
        "How far the second step of SGD moves the logits",
        "The first step moves only the classifier. In the second the branches follow: with rule 2 "
        "by the same amount at any depth, without it by more the deeper the network is. "
        "Unnormalised He is not shown, it overflows.",
        sweep,
        metrics,
        experiment="update_size",
        metric="second_logit_change",
        split="none",
        points={
            f"{method}-{num_blocks}": (NAMES[method], float(num_blocks))
            for method in ("fixup", "zero_init")
            for num_blocks in (10, 100, 1000, 10000)
        },
        methods=METHODS,
        x_title="residual blocks",
        log_y=True,
    )


def _signal_through_blocks(metrics: pl.DataFrame) -> Figure | None:
    return figure(
        "Variance of the signal through a network at initialisation",
        "The unnormalised network gains one bit, a factor of two, in each block, as the theory "
        "says. Fixup's branches start at zero and leave the signal alone.",
        seed_band,
        metrics,
        experiment="signal_growth",
        metric="log2_variance",
        split="none",
        arms={m: NAMES[m] for m in ("batchnorm", "fixup", "he")},
        methods=METHODS,
        x_title="residual block",
    )


def _error_of_resnet(metrics: pl.DataFrame) -> Figure | None:
    return figure(
        "Test error of the convolutional ResNet",
        "One dot a seed; Table 1 with two ablations of the public code's choices.",
        dots_by_arm,
        metrics,
        experiment="small_resnet",
        metric="test_error_percent",
        arms=NAMES,
        methods=METHODS,
    )


def _loss_of_resnet(metrics: pl.DataFrame) -> Figure | None:
    return figure(
        "Training loss of the convolutional ResNet",
        "Mean and range over the seeds.",
        seed_band,
        metrics,
        experiment="small_resnet",
        metric="train_loss",
        split="train",
        arms=NAMES,
        methods=METHODS,
    )


def _error_on_imagenet(metrics: pl.DataFrame) -> Figure | None:
    names = {
        "batchnorm": "BatchNorm",
        "batchnorm_mixup": "BatchNorm",
        "fixup": "Fixup",
        "fixup_mixup": "Fixup",
    }
    return figure(
        "Test error of ResNet-50 on ImageNet",
        "One dot a seed, with and without mixup; Table 2.",
        dots_by_arm,
        metrics,
        experiment="imagenet_resnet50",
        metric="test_error_percent",
        arms=names,
        methods=METHODS,
    )
