"""Published mean absolute errors of predicted accuracies, in points, as they were published."""

import pandas as pd

#: "Model performance prediction" table of the paper on multi-domain temperature scaling: MAE on the
#: InD and the OOD domains.
PAPER = pd.DataFrame(
    [
        ("ImageNet-C", "ResNet-50", "5.88 / 5.15", "4.74 / 3.96", "1.28 / 1.70"),
        ("ImageNet-C", "BiT-M-R50", "6.08 / 4.97", "6.16 / 5.23", "1.33 / 1.66"),
        ("RxRx1", "ResNet-50", "33.65 / 26.20", "9.61 / 13.66", "1.61 / 4.76"),
        ("RxRx1", "ResNeXt-50", "25.32 / 20.72", "8.55 / 12.88", "1.39 / 4.78"),
        ("GLDv2", "ResNet-50", "9.60 / 9.72", "9.17 / 9.40", "7.11 / 8.08"),
        ("GLDv2", "BiT-M-R50", "12.67 / 12.30", "7.18 / 7.34", "4.64 / 6.37"),
    ],
    columns=["data", "network", "plain confidence", "TS", "MD-TS"],
)
#: Garg et al. 2022, DenseNet. GDE compares two networks, which rows of one network do not allow.
ATC_PAPER = pd.DataFrame(
    [
        ("ImageNet-200, synthetic shifts", 13.35, 12.38, 5.41, 3.09, 2.68),
        ("RxRx1", 4.84, 5.98, 6.03, 4.56, 4.47),
    ],
    columns=["data", "plain confidence", "DoC", "GDE", "ATC-MC", "ATC-NE"],
)
