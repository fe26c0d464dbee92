"""The kernels of Triton, in its interpreter where there is no GPU."""

import os
import subprocess
import sys
from pathlib import Path

import pytest


def test_fused_kernels_are_the_plain_ones():
    torch = pytest.importorskip("torch", reason="torch is not installed")
    pytest.importorskip("triton", reason="triton is not installed")
    on_gpu = torch.cuda.is_available()
    done = subprocess.run(
        [sys.executable, str(Path(__file__).parents[1] / "fused_kernels.py")],
        env={**os.environ, "TRITON_INTERPRET": "0" if on_gpu else "1"},
        capture_output=True, text=True, timeout=600,
    )  # fmt: skip
    assert "the fused kernels agree on " + ("cuda" if on_gpu else "cpu") in done.stdout, done.stderr
