"""timm imports torchvision, whose compiled part does not load on every build of torch.

Where the plain import fails, the operators that it looks for are declared, without a body: no
network of ours calls them. Run as a program, it hands over to the command line.
"""

import sys

_LIBRARIES = []


def declare_operators() -> None:
    """Make ``import torchvision`` work, if it does not."""
    import torch

    try:
        import torchvision
    except RuntimeError:
        for module in [name for name in sys.modules if name.startswith("torchvision")]:
            del sys.modules[module]
        library = torch.library.Library("torchvision", "DEF")
        library.define("nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        library.define("qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        _LIBRARIES.append(library)  # what it declares lives as long as it does
        import torchvision  # noqa: F401


if __name__ == "__main__":
    from domaincal.cli import main

    declare_operators()
    main()
