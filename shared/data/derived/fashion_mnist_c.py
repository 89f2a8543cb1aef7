"""Fashion-MNIST with 15 corruptions at 5 severities, in the style of CIFAR-10-C.

`test_KIND_SEVERITY_images`: all 10,000 test images at severity 5, the first 2,500 at the others,
where curves over the severity need no more. `train_KIND_5_images`: the first 10,000 training
images, for methods that adapt on other images than they are tested on. Labels: the first entries
of `test_labels` and `train_labels`.
"""

from __future__ import annotations

from shared.data.corruptions import CORRUPTIONS, SEVERITIES, corrupt
from shared.data.formats import Arrays
from shared.data.load import PreparedData

NUM_MILD = 2_500
NUM_TRAIN = 10_000
TRAIN_KINDS = ("gaussian_noise", "defocus_blur", "fog", "jpeg_compression")  # one of each group


def make(source: PreparedData) -> Arrays:
    """The corrupted images and their labels."""
    test_NHW = source.array("test_images")[:, 0]
    train_NHW = source.array("train_images")[:NUM_TRAIN, 0]
    arrays = {
        "test_labels": source.array("test_labels"),
        "train_labels": source.array("train_labels")[:NUM_TRAIN],
    }
    for kind in CORRUPTIONS:
        for severity in SEVERITIES:
            images_NHW = test_NHW if severity == 5 else test_NHW[:NUM_MILD]
            made_NHW = corrupt(images_NHW, kind, severity)
            arrays[f"test_{kind}_{severity}_images"] = made_NHW[:, None]
    for kind in TRAIN_KINDS:
        # Another key: the noise on training images is not that on the test images.
        arrays[f"train_{kind}_5_images"] = corrupt(train_NHW, kind, 5, 1)[:, None]
    num_classes = source.manifest.num_classes
    assert num_classes is not None
    return Arrays(arrays, num_classes, source.manifest.classes)
