"""JSON for people to read, made quickly: every save makes some."""

from __future__ import annotations

import json
from json.encoder import encode_basestring

from gitcp.typed import Any


def indented(value: Any, line: str) -> str:
    """What `json.dumps` makes with `indent=2, sort_keys=True, ensure_ascii=False`, in half its time.

    `line` is the end of a line, with the blanks that the next begins with.
    """
    if isinstance(value, str):
        return encode_basestring(value)
    inner = line + "  "
    if isinstance(value, dict) and value:
        items = [f"{inner}{encode_basestring(key)}: {indented(value[key], inner)}" for key in sorted(value)]
        return f"{{{','.join(items)}{line}}}"
    if isinstance(value, list | tuple) and value:
        return f"[{','.join(inner + indented(item, inner) for item in value)}{line}]"
    return json.dumps(value)
