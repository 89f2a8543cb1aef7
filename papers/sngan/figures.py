"""The figures of the page: pictures of the runs, and charts of the metrics table."""

from __future__ import annotations

import polars as pl

from shared.reporting.figures import Figure, arms_present, figure, seed_band, sweep
from shared.reporting.generated import distance_in_training, distances, samples
from shared.reporting.pictures import Pictures, pictures

NAMES = {
    "sn": "spectral norm",
    "wn": "weight norm",
    "wgan_gp": "WGAN-GP",
    "none": "no norm",
    "clip": "weight clipping",
    "gan_gp": "GAN-GP",
    "ln": "layer norm",
    "bn": "batch norm",
    "sn_hinge": "spectral norm, hinge",
    "orthonormal": "orthonormal",
    "resnet_sn": "spectral norm, ResNet",
    "resnet_orthonormal": "orthonormal, ResNet",
}
METHODS = tuple(NAMES.values())


def figures(metrics: pl.DataFrame, scale: str) -> list[Figure | Pictures]:
    """The figures for which there are runs: not every experiment is run at every scale."""
    main = "cifar10" if scale == "full" else "methods"
    shown = ("sn", "wn", "none", "clip", "gan_gp", "ln", "bn")
    in_training = {arm: NAMES[arm] for arm in shown}
    drawn = [
        samples("sngan", metrics, scale, experiment=main, arms=NAMES, seeds=(0, 1, 2)),
        distances(metrics, "at the end", experiment=main, arms=NAMES, methods=METHODS),
        distance_in_training(metrics, experiment=main, arms=in_training, methods=METHODS),
        _score_of_settings(metrics),
        _spectral_norms(metrics, main),
        _spectra(metrics, main),
        _samples_of_settings(scale),
        _noise(metrics),
    ]
    return [shown for shown in drawn if shown]


def _samples_of_settings(scale: str) -> Pictures | None:
    arms = {
        f"{method}-{setting}": f"{NAMES[method]}, {setting.upper()}"
        for setting in "def"
        for method in ("sn", "wgan_gp")
    }
    return pictures(
        "sngan",
        scale,
        experiment="settings_harsh",
        arms=arms,
        seeds=(0, 1, 2),
        title="Samples at the settings D, E and F",
        caption="At the end of the short trainings, with the same noise in every picture.",
    )


def _score_of_settings(metrics: pl.DataFrame) -> Figure | None:
    name = "settings"
    together = metrics.with_columns(
        experiment=pl.col("experiment").str.replace("^settings_(mild|harsh)$", name)
    )
    points = {
        f"{method}-{setting}": (NAMES[method], float(place))
        for method in ("sn", "wgan_gp")
        for place, setting in enumerate("abcdef", 1)
    }
    points = arms_present(together, name, points)
    if not points:
        return None
    return Figure(
        "Classifier score at the settings A (1) to F (6)",
        "Score after the short trainings: 1 is what equal samples get, 10 the most; below 1.5 a "
        "run counts as failed. D to F (4 to 6) have a learning rate of 0.001, ten times that of A "
        "and B; A and D to F have five critic steps a generator step. One small dot a seed.",
        sweep(
            together,
            experiment=name,
            metric="classifier_score",
            points=points,
            methods=METHODS,
            x_title="setting",
            log_x=False,
        ),
    )


def _spectral_norms(metrics: pl.DataFrame, experiment: str) -> Figure | None:
    """One line a layer, of the arm with spectral norm."""
    layers = {f"spectral_norm_{layer}": f"layer {layer}" for layer in range(1, 9)}
    rows = metrics.filter(
        (pl.col("experiment") == experiment)
        & (pl.col("arm") == "sn")
        & pl.col("metric").is_in(list(layers))
    )
    if rows.is_empty():
        return None
    # Each layer takes the place of an arm, so that the helper draws a line for each.
    by_layer = rows.with_columns(
        arm=pl.col("metric").str.replace("spectral_norm_", "layer-"), metric=pl.lit("spectral_norm")
    )
    arms = {name.replace("spectral_norm_", "layer-"): label for name, label in layers.items()}
    return Figure(
        "Spectral norms of the normalised weights",
        "By SVD, of each layer of the critic, from input to output (8 is the dense layer). One "
        "step of the power iteration in each update follows the weights; mean and range over the "
        "seeds.",
        seed_band(
            by_layer,
            experiment=experiment,
            metric="spectral_norm",
            split="train",
            arms=arms_present(by_layer, experiment, arms),
            methods=tuple(layers.values()),
            x_title="generator step",
        ),
    )


def _spectra(metrics: pl.DataFrame, experiment: str) -> Figure | None:
    shown = ("sn", "wn", "clip")
    arms = arms_present(metrics, experiment, {arm: NAMES[arm] for arm in shown})
    if len(arms) < len(shown):
        return None
    return Figure(
        "Singular values of the critic's fifth layer, at the end",
        "Each over the largest, mean and range over the seeds. A flat curve uses many directions "
        "of the features, a steep one few.",
        seed_band(
            metrics,
            experiment=experiment,
            metric="relative_singular_value_5",
            split="spectrum",
            arms=arms,
            methods=METHODS,
            x_title="index of the singular value",
        ),
    )


def _noise(metrics: pl.DataFrame) -> Figure | None:
    return figure(
        "What the distance says of real images, by number of images",
        "FID of two disjoint sets of real test images: it falls with their number, so only "
        "distances with equal numbers can be compared.",
        seed_band,
        metrics,
        experiment="measures",
        metric="fid_count",
        split="none",
        arms={"real": "real test images"},
        methods=("real test images",),
        x_title="images in each set",
        log_y=True,
    )
