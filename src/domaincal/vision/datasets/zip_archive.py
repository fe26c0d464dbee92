"""Members of a zip file, whose sizes are checked before they are unpacked."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path

from domaincal._files import decoding, open_file
from domaincal.errors import FileFormatError
from domaincal.vision.image_decoding import require_memory

_CURE = "the file is damaged or has changed: get it again"
# Flags of members that are encrypted, wholly or in their names.
_ENCRYPTED = 0x1 | 0x40 | 0x2000


class ZipArchive:
    """A zip file that is open for reading. Whatever is wrong with it is a FileFormatError."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        with open_file(path) as file:  # refuses pipes, for which zipfile would wait
            self._size = os.fstat(file.fileno()).st_size
        with decoding(path, _CURE):
            self._archive = zipfile.ZipFile(path)

    def close(self) -> None:
        """Close the file."""
        self._archive.close()

    def names(self) -> list[str]:
        """Names of all members."""
        return self._archive.namelist()

    def compressed_size(self, name: str) -> int:
        """Bytes of a member in the file. A false number in the header cannot exceed the file."""
        return min(self._member(name).compress_size, self._size)

    def read(self, name: str, *, copies: int = 2) -> bytes:
        """Content of a member that takes, with all that is made of it, ``copies`` its size.

        At least two: while it is read, the content is there twice.
        """
        member = self._member(name)
        if member.flag_bits & _ENCRYPTED:
            raise FileFormatError(f"{self.path}:{name} is encrypted; unpack it, and pack it again.")
        # Other methods unpack without a limit: 1 kB of bzip2 can become a gigabyte.
        if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise FileFormatError(
                f"{self.path}:{name} is compressed by the method {member.compress_type}, which is "
                "not supported; pack it again without options."
            )
        title, needed = f"{self.path}:{name}", max(2, copies) * member.file_size
        require_memory(needed, title, self.compressed_size(name), _CURE)
        with decoding(title, _CURE), self._archive.open(member) as file:
            content = file.read(member.file_size)
            if len(content) < member.file_size:
                raise EOFError(f"{member.file_size - len(content)} bytes are missing")
        return content

    def _member(self, name: str) -> zipfile.ZipInfo:
        try:
            return self._archive.getinfo(name)
        except KeyError as error:
            raise FileFormatError(f"{self.path} has no member {name}; {_CURE}.") from error
