"""Fixtures and hypothesis settings shared by all tests."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from domaincal import _tensors
from domaincal.kernels import dispatch

# The same examples on every machine, so that a failure can be repeated.
settings.register_profile(
    "domaincal",
    deadline=None,
    derandomize=True,
    max_examples=50,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
settings.load_profile("domaincal")


@pytest.fixture(params=["numpy", "compiled"])
def kernel(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Run a test with the numpy kernels and with the compiled kernels, for any size of the data."""
    monkeypatch.setattr(dispatch, "COMPILED_FROM", 0 if request.param == "compiled" else 1 << 62)
    return str(request.param)


@pytest.fixture(autouse=True)
def _unwrapped_output(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the command line print long lines and all signs, so that tests can look for sentences."""
    monkeypatch.setenv("COLUMNS", "1000")
    monkeypatch.setenv("LC_ALL", "C.UTF-8")


@pytest.fixture
def shared_data() -> Path:
    """Folder of real data beside the checkout; the test is skipped if it does not exist."""
    folder = Path(__file__).parents[2] / "shared" / "data"
    if not folder.is_dir():
        pytest.skip("the real data are not beside this checkout")
    return folder


@pytest.fixture(params=["cpu", "elsewhere", "cuda"])
def device(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Device of tensors: the CPU, the CPU treated as a device that numpy cannot read, or CUDA."""
    torch = pytest.importorskip("torch")
    if request.param == "cuda" and not torch.cuda.is_available():
        pytest.skip("there is no CUDA device")
    if request.param == "elsewhere":
        monkeypatch.setattr(_tensors, "is_host", lambda device: False)
    return "cuda" if request.param == "cuda" else "cpu"
