"""What may be published of a value that users give: no secret, no address, no folder of a path."""

import hashlib
import re
from typing import Any

_SECRET = re.compile(
    r"\b(?:hf_|sk-|gh[a-z]_|github_pat_|glpat-)[A-Za-z0-9_-]{8,}|(?i:bearer\s+)\S+"
)
_ADDRESS = re.compile(r"\b[a-z][a-z0-9+.-]*://\S+", re.IGNORECASE)
#: The folders of a text that is a path, spaces included, or of paths in a text.
_FOLDERS = re.compile(
    r"\A(?:~|\.{0,2}[/\\]|[A-Za-z]:)(?s:.*)[/\\]"
    r"|(?<![\w.])(?:~[^\s/\\]*|\.{1,2}|[A-Za-z]:)?[/\\](?:[^\s/\\]+[/\\])+"
)


def redact(value: Any, *, distinct: bool = False) -> Any:  # noqa: ANN401 - any JSON value
    """Return a JSON value without secrets, addresses and the folders of paths.

    With `distinct`, a text that loses something ends in a hash of the whole.

    >>> redact({"model": "/home/ann/llama", "url": "http://gpu7:8000/v1", "dtype": "bfloat16"})
    {'model': 'llama', 'url': '[address]', 'dtype': 'bfloat16'}
    >>> redact(["/home/ann/llama", "org/llama"], distinct=True)
    ['llama#473538d928910c9d', 'org/llama']
    """
    if isinstance(value, dict):
        return {str(key): redact(item, distinct=distinct) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [redact(item, distinct=distinct) for item in value]
    if not isinstance(value, str):
        return value
    text = _FOLDERS.sub("", _ADDRESS.sub("[address]", _SECRET.sub("[secret]", value)))
    whole = hashlib.sha256(value.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{text}#{whole[:16]}" if distinct and text != value else text
