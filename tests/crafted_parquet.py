"""Parquet files made by hand, whose headers say what no writer would."""

import struct

INT32, DOUBLE, BYTE_ARRAY = 1, 5, 6  # physical types
PLAIN, RLE_DICTIONARY = 0, 8  # encodings
UNCOMPRESSED, ZSTD = 0, 6  # codecs
_I32, _I64, _BINARY, _LIST, _STRUCT = 5, 6, 8, 9, 12  # types of the compact protocol


def varint(number):
    out = b""
    while number > 127:
        out += bytes([number & 127 | 128])
        number >>= 7
    return out + bytes([number])


def _int(number):
    return varint(number << 1 if number >= 0 else (-number << 1) - 1)


def _encode(fields):
    """A struct: integers, bytes, lists and dicts by the number of their field."""
    out, last = b"", 0
    for number, value in fields.items():
        if isinstance(value, tuple):  # ("i64", 3)
            kind, content = _I64, _int(value[1])
        elif isinstance(value, int):
            kind, content = _I32, _int(value)
        elif isinstance(value, bytes):
            kind, content = _BINARY, varint(len(value)) + value
        elif isinstance(value, dict):
            kind, content = _STRUCT, _encode(value)
        else:
            kind, content = _LIST, _encode_list(value)
        out += bytes([(number - last) << 4 | kind]) + content
        last = number
    return out + b"\0"


def _encode_list(values):
    kinds = {int: (_I32, _int), bytes: (_BINARY, lambda b: varint(len(b)) + b)}
    kind, encode = kinds.get(type(values[0]), (_STRUCT, _encode))
    size = bytes([len(values) << 4 | kind]) if len(values) < 15 else b""
    return (size or bytes([0xF0 | kind]) + varint(len(values))) + b"".join(map(encode, values))


def _long(number):
    return ("i64", number)


def data_page(payload, n_values, *, encoding=PLAIN, n_bytes=None):
    details = {1: n_values, 2: encoding, 3: 3, 4: 3}
    size = len(payload) if n_bytes is None else n_bytes
    return _encode({1: 0, 2: size, 3: len(payload), 5: details}) + payload


def dictionary_page(payload, n_values):
    details = {1: n_values, 2: PLAIN}
    return _encode({1: 2, 2: len(payload), 3: len(payload), 7: details}) + payload


def zeros_by_zstd(n_bytes):
    """A frame of zstd that unpacks to so many zeros, a multiple of 128 kB: 4 bytes for each."""
    n_blocks = n_bytes >> 17
    blocks = [
        struct.pack("<I", (k == n_blocks - 1) | 1 << 1 | 1 << 20)[:3] + b"\0"
        for k in range(n_blocks)
    ]
    return b"\x28\xb5\x2f\xfd\xe0" + struct.pack("<Q", n_blocks << 17) + b"".join(blocks)


def parquet_file(columns, n_rows, group_rows=None, n_hollow=0):
    """Bytes of a file. A column is a dict: name, type, pages, and what the footer says of it.

    ``n_hollow`` columns of the row groups have no metadata, in 3 bytes each.
    """
    content = b"PAR1"
    schema, chunks = [{4: b"schema", 5: len(columns)}], []
    for column in columns:
        leaf = {1: column["type"], 3: 0, 4: column["name"].encode()}
        schema.append({**leaf, 6: 0} if column["type"] == BYTE_ARRAY else leaf)
        pages = b"".join(column["pages"])
        start = len(content)
        is_coded = len(column["pages"]) > 1
        footer = {
            1: column["type"], 2: [PLAIN, RLE_DICTIONARY], 3: [column["name"].encode()],
            4: column.get("codec", UNCOMPRESSED), 5: _long(column.get("n_values", n_rows)),
            6: _long(len(pages)), 7: _long(len(pages)),
            9: _long(start + len(column["pages"][0]) * is_coded),
        }  # fmt: skip
        if is_coded:
            footer[11] = _long(start)
        chunks.append({2: _long(start), 3: footer})
        content += pages
    chunks += [{2: _long(0)}] * n_hollow
    groups = [{1: chunks, 2: _long(len(content)), 3: _long(n)} for n in group_rows or [n_rows]]
    footer = _encode({1: 1, 2: schema, 3: _long(n_rows), 4: groups})
    return content + footer + struct.pack("<I", len(footer)) + b"PAR1"
