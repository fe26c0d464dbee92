"""Where the rows of an experiment come from: a file, Digits-C, or a function of the user's."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from domaincal._specs import Spec
from domaincal._typing import Track
from domaincal.data import CalibrationData
from domaincal.data.fingerprint import checksums
from domaincal.errors import InputError
from domaincal.experiments.tiny_imagenet_c import tiny_imagenet_c, training_and_shown_images
from domaincal.experiments.user_code import file_digest, from_file
from domaincal.experiments.versions import versions
from domaincal.io import read
from domaincal.vision import load_digits_c

_SHIPPED: dict[str, Callable[..., CalibrationData]] = {
    "digits-c": partial(load_digits_c, n_jobs=-1),
    "tiny-imagenet-c": tiny_imagenet_c,
}
# Arguments that the runner gives to those who take them.
_GIVEN = ("seed", "folder", "made", "track")
# What networks that are trained on the spot, and images that are corrupted, depend on.
_MAKERS = ("numpy", "scipy", "scikit-learn", "imagecorruptions-imaug")
# Sources that keep what they make, wherever and with whatever versions they made it: their rows
# depend on what is in the folder of the data.
_KEPT: dict[str, Callable[[Path], dict[str, str]]] = {"tiny-imagenet-c": training_and_shown_images}


@dataclass(frozen=True)
class DataSource:
    """The rows of one network.

    Parameters
    ----------
    network : str
    written : str or mapping
        The path of a file of logits, or ``{"source": ..., option: value}`` where the source is
        ``"digits-c"`` or ``"mine.py:load"``, a function that gives CalibrationData. If it takes a
        ``seed``, it is called again for each repeat; if it takes a ``folder``, it gets that of the
        data; if it takes ``made``, a folder where it may keep what it makes; if it takes ``track``,
        it may wrap a list of steps to show how far it is.
    folder : Path
        Where data files are.
    code_folder : Path
        Where Python files are.
    """

    network: str
    written: str | Mapping[str, Any]
    folder: Path
    code_folder: Path

    @property
    def path(self) -> Path | None:
        """The file, if it is one."""
        return self.folder / self.written if isinstance(self.written, str) else None

    @property
    def missing(self) -> bool:
        """Whether there is no such file."""
        return self.path is not None and not self.path.exists()

    @property
    def varies(self) -> bool:
        """Whether every repeat has rows of its own."""
        return self.path is None and "seed" in inspect.signature(self._function()).parameters

    def load(self, seed: int, made: Path, track: Track = iter) -> CalibrationData:
        """The rows; for a file, the same for all seeds."""
        if self.path is not None:
            return read(self.path)
        function = self._function()
        parameters = inspect.signature(function).parameters
        given = {"seed": seed, "folder": self.folder, "made": made, "track": track}
        own = {key: value for key, value in given.items() if key in parameters}
        data = function(**own, **self._options())
        if not isinstance(data, CalibrationData):
            raise InputError(
                f"the source of {self.network!r} gives {type(data).__name__}; it must give "
                "domaincal.CalibrationData."
            )
        return data

    def identity(self, seed: int) -> dict[str, Any]:
        """What tells these rows from others, without making them where they are made."""
        if self.path is not None:
            return dict(checksums(read(self.path)))
        assert not isinstance(self.written, str)
        source = str(self.written["source"])
        parameters = inspect.signature(self._function()).parameters
        if source in _KEPT:
            return {**self.written, "images": _KEPT[source](self.folder)}
        is_code = Spec.parse(source).is_code
        return {
            **self.written,
            "code": file_digest(source, self.code_folder) if is_code else None,
            "code folder": str(self.code_folder.resolve()) if is_code else None,
            "seed": seed if "seed" in parameters else None,
            "folder": str(self.folder.resolve()) if "folder" in parameters else None,
            "versions": versions(*_MAKERS),
        }

    def _options(self) -> dict[str, Any]:
        assert not isinstance(self.written, str)
        return {key: value for key, value in self.written.items() if key != "source"}

    def _function(self) -> Callable[..., CalibrationData]:
        assert not isinstance(self.written, str)
        source = self.written.get("source")
        if isinstance(source, str) and Spec.parse(source).is_code:
            function = from_file(source, self.code_folder)
        elif source in _SHIPPED:
            function = _SHIPPED[source]
        else:
            raise InputError(
                f"the data of {self.network!r} have the source {source!r}; write the path of a "
                f"file, or a source: {', '.join(_SHIPPED)}, or mine.py:load."
            )
        parameters = inspect.signature(function).parameters
        for key in self._options():
            if key not in parameters or key in _GIVEN:
                own = [name for name in parameters if name not in _GIVEN]
                raise InputError(
                    f"the source {source!r} of {self.network!r} has no option {key!r}; it has "
                    f"{', '.join(own) or 'none'}."
                )
        needed = [
            name
            for name, parameter in parameters.items()
            if parameter.default is parameter.empty
            and parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
            and name not in (*_GIVEN, *self._options())
        ]
        if needed:
            raise InputError(
                f"the source {source!r} of {self.network!r} needs the option {needed[0]!r}; write "
                f"{{source = {source!r}, {needed[0]} = ...}}."
            )
        return function  # type: ignore[no-any-return]

    def check(self) -> None:
        """Refuse what is wrong before any work is done."""
        if isinstance(self.written, Mapping):
            self._function()
        elif not isinstance(self.written, str):
            raise InputError(
                f"the data of {self.network!r} must be the path of a file or a table with a "
                f"source, got {self.written!r}."
            )
