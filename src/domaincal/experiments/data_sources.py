"""Sources of data: a file of logits, a source that comes with domaincal, or a user's function."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from domaincal._specs import Spec
from domaincal._typing import Track
from domaincal._version import versions
from domaincal.data import CalibrationData
from domaincal.data.fingerprint import checksums
from domaincal.errors import InputError
from domaincal.experiments.tiny_imagenet_c import image_fingerprints, tiny_imagenet_c
from domaincal.experiments.user_code import code_digest, load_object
from domaincal.io import read
from domaincal.vision import load_digits_c


def _digits_c(random_state: int, track: Track, n_images: int | None = None) -> CalibrationData:
    # A file does not choose the number of processes.
    return load_digits_c(random_state, n_images=n_images, n_jobs=-1, track=track)


#: Sources that come with domaincal, by name.
SHIPPED_SOURCES: dict[str, Callable[..., CalibrationData]] = {
    "digits-c": _digits_c,
    "tiny-imagenet-c": tiny_imagenet_c,
}
# Arguments that the runner passes to the functions that have them.
_RUNNER_ARGUMENTS = ("random_state", "folder", "cache_folder", "track")
# Packages on which the results of training and of corruption depend.
_PACKAGES = ("numpy", "scipy", "scikit-learn", "imagecorruptions-imaug")
# Sources whose rows are identified by their images alone: they keep the rows in the cache folder,
# and these count wherever and with whatever package versions they were made.
_IMAGE_FINGERPRINTS: dict[str, Callable[[Path], dict[str, str]]] = {
    "tiny-imagenet-c": image_fingerprints
}


@dataclass(frozen=True)
class DataSource:
    """The data of one network.

    Parameters
    ----------
    network : str
    entry : str or mapping
        The path of a file of logits, or ``{"source": ..., option: value}``. The source is
        ``"digits-c"``, ``"tiny-imagenet-c"``, or ``"mine.py:load"``: a function that returns
        CalibrationData. The function may have these parameters: ``random_state`` (the function is
        then called for each repeat), ``folder`` (of the data), ``cache_folder`` (where it may keep
        files) and ``track`` (to show progress). Its other parameters are the options.
    folder : Path
        Folder of data files.
    code_folder : Path, optional
        Folder of Python files. Default: no code may run.
    max_memory : int or str, optional
        Memory that reading the file may take; see :func:`domaincal.read`.
    """

    network: str
    entry: str | Mapping[str, Any]
    folder: Path
    code_folder: Path | None = None
    max_memory: float | str | None = None

    @property
    def path(self) -> Path | None:
        """Path of the file, or None where a function makes the data."""
        return self.folder / self.entry if isinstance(self.entry, str) else None

    @property
    def is_missing(self) -> bool:
        """Whether the file does not exist."""
        return self.path is not None and not os.path.exists(self.path)

    @property
    def varies(self) -> bool:
        """Whether each repeat has its own data."""
        return self.path is None and "random_state" in self._parameters()

    def load(self, random_state: int, cache_folder: Path, track: Track = iter) -> CalibrationData:
        """The data; for a file, the same for every ``random_state``."""
        if self.path is not None:
            return read(self.path, max_memory=self.max_memory)
        values = (random_state, self.folder, cache_folder, track)
        given = dict(zip(_RUNNER_ARGUMENTS, values, strict=True))
        parameters = self._parameters()
        accepted = {key: value for key, value in given.items() if key in parameters}
        data = self._function()(**accepted, **self._options())
        if not isinstance(data, CalibrationData):
            raise InputError(
                f"the source of {self.network!r} returns {type(data).__name__}; it must return "
                "domaincal.CalibrationData."
            )
        return data

    def identity(self, random_state: int) -> dict[str, Any]:
        """What distinguishes these data from others, found without making them."""
        if self.path is not None:
            return dict(checksums(read(self.path, max_memory=self.max_memory)))
        source, options = self._source(), self._options()
        if source in _IMAGE_FINGERPRINTS:
            images = _IMAGE_FINGERPRINTS[source](self.folder)
            return {"source": source, **options, "images": images}
        parameters = self._parameters()
        is_code = Spec.parse(source).is_code
        code_folder = self.code_folder if is_code else None
        recorded = {
            "source": source,
            "code": code_digest(source, code_folder) if is_code else None,
            "code folder": None if code_folder is None else str(code_folder.resolve()),
            "random_state": random_state if "random_state" in parameters else None,
            "folder": str(self.folder.resolve()) if "folder" in parameters else None,
            "versions": versions(*_PACKAGES),
        }
        # An option may have the name of one of these entries, e.g. "code".
        named = {f"option {k}" if k in recorded else k: v for k, v in options.items()}
        return {**named, **recorded}

    def check(self) -> None:
        """Fail early on an invalid entry."""
        if isinstance(self.entry, Mapping):
            self._require_options()
        elif not isinstance(self.entry, str):
            raise InputError(
                f"the data of {self.network!r} must be the path of a file or a table with a "
                f"source, got {self.entry!r}."
            )

    def _source(self) -> str:
        assert not isinstance(self.entry, str)
        source = self.entry.get("source")
        if isinstance(source, str) and (source in SHIPPED_SOURCES or Spec.parse(source).is_code):
            return source
        raise InputError(
            f"the data of {self.network!r} have the unknown source {source!r}; write the path of a "
            f"file, or one of the sources {', '.join(SHIPPED_SOURCES)}, mine.py:load."
        )

    def _options(self) -> dict[str, Any]:
        assert not isinstance(self.entry, str)
        return {key: value for key, value in self.entry.items() if key != "source"}

    def _function(self) -> Callable[..., CalibrationData]:
        source = self._source()
        if source in SHIPPED_SOURCES:
            return SHIPPED_SOURCES[source]
        return load_object(source, self.code_folder)  # type: ignore[no-any-return]

    def _parameters(self) -> Mapping[str, inspect.Parameter]:
        return inspect.signature(self._function()).parameters

    def _require_options(self) -> None:
        """Refuse unknown options, and functions that need an option that is not given."""
        parameters, options = self._parameters(), self._options()
        where = f"the source {self._source()!r} of {self.network!r}"
        if "seed" in parameters:
            raise InputError(f"{where} has the parameter 'seed'; rename it to random_state.")
        known = [name for name in parameters if name not in _RUNNER_ARGUMENTS]
        for key in options:
            if key not in known:
                raise InputError(
                    f"{where} has no option {key!r}; it has {', '.join(known) or 'none'}."
                )
        for name in known:
            parameter = parameters[name]
            variadic = parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
            if parameter.default is parameter.empty and not variadic and name not in options:
                raise InputError(
                    f"{where} needs the option {name!r}; write "
                    f"{{source = {self._source()!r}, {name} = ...}}."
                )
