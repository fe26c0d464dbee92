"""Change the JSON files of a store, with right checksums: what somebody could write on purpose."""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

META, SHARD = "meta.json", "shard.json"


def change_meta(store: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change the entries of ``meta.json``, of any version, and its checksum."""
    meta = json.loads((store / META).read_text())
    change(meta)
    rest = {key: meta[key] for key in meta if key not in ("format", "version", "sha256")}
    if "sha256" in meta:
        meta["sha256"] = hashlib.sha256(json.dumps(rest).encode()).hexdigest()
    (store / META).write_text(json.dumps(meta))


def change_shard(
    store: Path, change: Callable[[dict[str, Any]], object], part: str = "part-00000"
) -> None:
    """Change the entries of a ``shard.json``, and the checksums of ``meta.json``."""
    shard = json.loads((store / part / SHARD).read_text())
    change(shard)
    (store / part / SHARD).write_text(json.dumps(shard))
    seal(store)


def seal(store: Path) -> None:
    """Write the digest of all ``shard.json`` to ``meta.json``."""
    digest = json.loads((store / META).read_text())["earlier"] or ""
    for path in sorted(store.glob(f"part-*/{SHARD}")):
        digest = hashlib.sha256(digest.encode() + path.read_bytes()).hexdigest()
    change_meta(store, lambda meta: meta.update(digest=digest))
