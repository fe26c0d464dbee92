"""Zip files with structured damage."""

import io
import random
import struct
import zipfile
from collections.abc import Callable

from fuzzing.damage import damaged, deflate_bomb, name

_DATE = (1980, 1, 1, 0, 0, 0)
#: Offsets and sizes of the fields of a local header and of an entry of the directory.
_LOCAL = {4: 2, 6: 2, 8: 2, 14: 4, 18: 4, 22: 4, 26: 2, 28: 2}
_ENTRY = {6: 2, 8: 2, 10: 2, 16: 4, 20: 4, 24: 4, 28: 2, 30: 2, 32: 2, 42: 4}
_METHODS = (
    zipfile.ZIP_STORED, zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2,
    zipfile.ZIP_LZMA,
)  # fmt: skip
_WORDS = (0, 1, 8, 9, 12, 14, 99, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0xFFFFFFFF)


def zip_bytes(members: dict[str, bytes], method: int = zipfile.ZIP_STORED) -> bytes:
    """A zip file, the same bytes for the same members."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as archive:
        for key, content in members.items():
            archive.writestr(zipfile.ZipInfo(key, _DATE), content, method)
    return file.getvalue()


def altered_zip(
    rng: random.Random,
    members: dict[str, bytes],
    alter: Callable[[random.Random, str, bytes], bytes],
) -> bytes:
    """A valid zip file with altered members, or one with damaged headers."""
    members = dict(members)
    action = rng.random()
    key = rng.choice(list(members))
    if action < 0.55:
        members[key] = alter(rng, key, members[key])
    elif action < 0.65:
        renamed = rng.choice(
            (name(rng).replace("\ud800", "?"), rng.choice(list(members)), f"../{key}")
        )
        members[renamed or "x"] = members.pop(key)
    elif action < 0.7:
        del members[key]
    elif action < 0.75:
        return _bomb(rng, members, key)
    method = rng.choice(_METHODS)
    content = zip_bytes(members, method)
    return _with_field(rng, content) if action > 0.75 else content


def _with_field(rng: random.Random, content: bytes) -> bytes:
    """Set a field of one header: flags, method, checksum, sizes, offset."""
    mark, fields = rng.choice(((b"PK\3\4", _LOCAL), (b"PK\1\2", _ENTRY)))
    places = [k for k in range(len(content)) if content.startswith(mark, k)]
    if not places:
        return damaged(rng, content)
    place = rng.choice(places)
    offset, size = rng.choice(list(fields.items()))
    at = place + offset
    word = struct.pack("<I", rng.choice(_WORDS))[:size]
    return content[:at] + word + content[at + size :]


def _bomb(rng: random.Random, members: dict[str, bytes], key: str) -> bytes:
    """A zip file whose member unpacks to 300 MB or 3 GB of zeros after its own header."""
    megabytes = rng.choice((300, 3000))
    prefix = members[key][: rng.choice((0, 128))]
    stored = b"\0" + struct.pack("<HH", len(prefix), len(prefix) ^ 0xFFFF) + prefix
    stream = stored + deflate_bomb(megabytes)
    content = bytearray(zip_bytes({**members, key: stream}))
    size = megabytes * (1 << 20) + len(prefix) if rng.random() < 0.8 else 100
    # The member is stored so far: say that it is deflated, and how long it is.
    start = 0
    while (start := content.find(key.encode(), start + 1)) >= 0:
        for mark, length, method, unpacked in ((b"PK\3\4", 30, 8, 22), (b"PK\1\2", 46, 10, 24)):
            if content[start - length : start - length + 4] == mark:
                struct.pack_into("<H", content, start - length + method, 8)
                struct.pack_into("<I", content, start - length + unpacked, size)
    return bytes(content)
