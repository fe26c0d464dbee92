"""Hostile values and damaged bytes, drawn from a seeded generator."""

import copy
import json
import random
import re
import struct
import zlib
from collections.abc import Callable
from typing import Any

from numpy.lib import format as npy

_NUMBER = re.compile(rb"[0-9]+")
_HUGE = (b"-1", b"0", b"1e9", b"2147483648", b"99999999999999999999", b"9" * 5000, b"nan", b"null")
_WORDS = (0, 1, 0x7F, 0xFF, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 1 << 63)


def damaged(rng: random.Random, content: bytes) -> bytes:
    """The bytes after one to three random changes."""
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        content = rng.choice(_DAMAGES)(rng, content)
    return content


def _flip(rng: random.Random, content: bytes) -> bytes:
    out = bytearray(content)
    for _ in range(rng.choice((1, 1, 2, 8))):
        if out:
            out[rng.randrange(len(out))] ^= 1 << rng.randrange(8)
    return bytes(out)


def _truncate(rng: random.Random, content: bytes) -> bytes:
    return content[: _place(rng, content)]


def _insert(rng: random.Random, content: bytes) -> bytes:
    at = _place(rng, content)
    return content[:at] + rng.randbytes(rng.choice((1, 4, 100))) + content[at:]


def _duplicate(rng: random.Random, content: bytes) -> bytes:
    start, stop = sorted((_place(rng, content), _place(rng, content)))
    at = _place(rng, content)
    return content[:at] + content[start:stop] + content[at:]


def _delete(rng: random.Random, content: bytes) -> bytes:
    at = _place(rng, content)
    return content[:at] + content[at + rng.choice((1, 2, 16, 200)) :]


def _fill(rng: random.Random, content: bytes) -> bytes:
    at, n = _place(rng, content), rng.choice((1, 4, 8, 64))
    return content[:at] + rng.choice((b"\0", b"\xff", b"0", b"\n"))[:1] * n + content[at + n :]


def _set_word(rng: random.Random, content: bytes) -> bytes:
    """Overwrite a binary number."""
    at, form = _place(rng, content), rng.choice(("<H", "<I", ">I", "<Q"))
    word = rng.choice(_WORDS) & ((1 << 8 * struct.calcsize(form)) - 1)
    return content[:at] + struct.pack(form, word) + content[at + struct.calcsize(form) :]


def _set_number(rng: random.Random, content: bytes) -> bytes:
    """Overwrite a number in text."""
    found = list(_NUMBER.finditer(content[:4096]))
    if not found:
        return _flip(rng, content)
    number = rng.choice(found)
    return content[: number.start()] + rng.choice(_HUGE) + content[number.end() :]


_DAMAGES: tuple[Callable[[random.Random, bytes], bytes], ...] = (
    _flip, _flip, _flip, _truncate, _insert, _duplicate, _delete, _fill, _set_word, _set_number,
)  # fmt: skip


def _place(rng: random.Random, content: bytes) -> int:
    """A place in the bytes; headers at the start and at the end are hit more often."""
    length = len(content)
    if length > 600 and rng.random() < 0.5:
        return rng.randrange(300) if rng.random() < 0.5 else length - rng.randrange(1, 300)
    return rng.randrange(length + 1)


def name(rng: random.Random) -> str:
    """A name of a class, domain, group, column or file, mostly a bad one."""
    return rng.choice((
        "", "\0", "a\0b", "\ud800", "a\r", "a\r\nb", "\n", "'", '"', "a,b", "$x$", "%s", "_", " a ",
        "nan", "1", "-1", "1e5", "None", "é" * 20, "\u202e", "\x1b[31m", "x" * 1000, "x" * 2000,
        "../up", "/etc/passwd", "a/b", "day", "🙂",
    ))  # fmt: skip


def number(rng: random.Random) -> Any:
    """A number, mostly a bad one."""
    return rng.choice((
        -1, 0, 1, 2, 7, 2**31, 2**32, 2**63, 2**64, 10**30, -(2**63), True, 0.0, -0.0, 0.5, -1.5,
        1e300, 1e-300, 5e-324, float("nan"), float("inf"), float("-inf"),
    ))  # fmt: skip


#: Texts of JSON (and TOML) that cannot be written from Python objects.
RAW = (
    "9" * 5000, "-" + "9" * 5000, "1e999", "[" * 3000 + "]" * 3000, "[" * 100_000,
    '{"a":' * 2000 + "1" + "}" * 2000, '"\\ud800"', '"\\u0000"', "[" + "0," * 5_000 + "0]", "NaN",
)  # fmt: skip


def value(rng: random.Random) -> Any:
    """A value of JSON, mostly a bad one."""
    return rng.choice((
        lambda: None,
        lambda: name(rng),
        lambda: number(rng),
        lambda: number(rng),
        list,
        dict,
        lambda: [name(rng) for _ in range(rng.choice((1, 3)))],
        lambda: [number(rng) for _ in range(rng.choice((1, 3, 300)))],
        lambda: {name(rng): number(rng)},
        lambda: _Raw(rng.choice(RAW)),
    ))()  # fmt: skip


class _Raw(str):
    """Text that goes into JSON as it is."""


def altered(rng: random.Random, document: Any, draw: Callable[[random.Random], Any] = value) -> Any:
    """A JSON document with some of its nodes replaced, removed or renamed."""
    document = copy.deepcopy(document)
    for _ in range(rng.choice((1, 1, 2))):
        nodes = list(_nodes(document))
        if not nodes:
            return draw(rng)
        parent, key = rng.choice(nodes)
        action = rng.random()
        if action < 0.7:
            parent[key] = copy.deepcopy(draw(rng))
        elif action < 0.8:
            del parent[key]
        elif action < 0.9:  # the value of another node
            source, other = rng.choice(nodes)
            parent[key] = copy.deepcopy(source[other])
        elif isinstance(parent, dict):
            parent[name(rng)] = parent.pop(key)
        else:
            parent.append(copy.deepcopy(parent[key]))
    return document


def json_text(document: Any) -> str:
    """Text of a document of :func:`altered`."""
    raw: list[str] = []

    def mark(node: Any) -> Any:
        if isinstance(node, _Raw):
            raw.append(str(node))
            return f"@raw{len(raw) - 1}@"
        if isinstance(node, dict):
            return {key: mark(part) for key, part in node.items()}
        return [mark(part) for part in node] if isinstance(node, list) else node

    text = json.dumps(mark(document))
    for k, content in enumerate(raw):
        text = text.replace(f'"@raw{k}@"', content)
    return text


def _nodes(document: Any) -> Any:
    """Parent and key of every node."""
    entries = (
        document.items()
        if isinstance(document, dict)
        else enumerate(document)
        if isinstance(document, list)
        else ()
    )
    for key, part in list(entries):
        yield document, key
        yield from _nodes(part)


_SHAPES = (
    "()", "(0,)", "(-1,)", "(1000000000,)", "(40,)", "(40, 3)", "(3, 40)", "(1, 120)", "None",
    "(2147483648, 2147483648)", "(4611686018427387904, 4)", "(0, 4611686018427387904)",
    "(" + "1," * 70 + ")", "(40.0, 3)", "(True, 3)", "('a',)", "[40, 3]", "(40, 3, 1, 1)",
    "(9999999999999999999999,)", "(" * 300 + ")" * 300,
)  # fmt: skip
_DTYPES = (
    "'<f8'", "'<f4'", "'<f2'", "'>f8'", "'<f16'", "'<i8'", "'>i2'", "'|u1'", "'|b1'", "'<c16'",
    "'|O'", "'<U5'", "'<U2000'", "'<U100000000'", "'<U0'", "'|S5'", "'|S0'", "'|V8'", "'|V0'",
    "'<M8[s]'", "'<m8[ns]'", "'<M8'", "[('a', '<f8')]", "'float'", "('<f8', (3,))", "7", "None",
)  # fmt: skip


def npy_bytes(rng: random.Random, content: bytes) -> bytes:
    """An ``.npy`` file with another shape or dtype in its header."""
    length = struct.unpack("<H", content[8:10])[0]
    header, rows = content[10 : 10 + length].decode("latin1"), content[10 + length :]
    if rng.random() < 0.6:
        header = re.sub(r"'shape': \(.*?\)", f"'shape': {rng.choice(_SHAPES)}", header)
    if rng.random() < 0.6:
        header = re.sub(r"'descr': '[^']*'", f"'descr': {rng.choice(_DTYPES)}", header)
    if rng.random() < 0.1:
        header = header.replace("False", rng.choice(("True", "None", "7")))
    if rng.random() < 0.5:  # as many bytes as a small array of this dtype and shape would have
        rows = rng.randbytes(rng.choice((0, 40, 120, 480, 960)))
    header = header.strip() + "\n"
    text = header.encode("latin1")
    major = rng.choice((1, 1, 1, 2, 3))
    size = struct.pack("<H" if major == 1 else "<I", len(text))
    return npy.MAGIC_PREFIX + bytes((major, 0)) + size + text + rows


def deflate_bomb(megabytes: int) -> bytes:
    """A raw deflate stream of so many megabytes of zeros, about a thousandth of their size."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    block = packer.compress(bytes(1 << 20)) + packer.flush(zlib.Z_FULL_FLUSH)
    return block * megabytes + b"\x03\x00"
