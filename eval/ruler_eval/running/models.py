"""Models: name, identity and context window, read from a folder or a Hub repo without loading.

The second half reads the window from a model's config, and applies overrides to the config as the
engines do.
"""

import hashlib
import os
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from ruler_data.errors import RulerError, UsageError
from ruler_data.files import open_file, read_bytes, read_json
from ruler_data.names import check_name, quote
from ruler_data.tokenizers import PromptTokenizer
from ruler_data.tokenizers.hf import FILES, Origin
from ruler_data.tokenizers.registry import load_folder, load_tokenizer_of
from ruler_eval.running.config import EvalConfig

#: Engines that need no files of the model.
SERVED = {"openai", "oracle", "python"}

#: A weight file is identified by so many blocks, evenly spaced.
BLOCKS = 16
#: Bytes of a block.
BLOCK = 65_536

#: Names the weight files of a checkpoint and their size; checkpoints of one file have none.
WEIGHTS_INDEX = "model.safetensors.index.json"

#: Files of a model on the Hub that are read before it is loaded; the first must exist.
HUB_FILES = ("config.json", WEIGHTS_INDEX, *FILES)


@dataclass(frozen=True)
class Model:
    """A model as its files describe it."""

    name: str  # as runs record it; never a path
    source: str  # for the engine: a folder, a Hub id or a server's name
    hub_revision: str | None = None  # commit on the Hub; None for a folder or a server
    folder: Path | None = None  # of its files; None for a server's model
    config: Mapping[str, Any] = field(default_factory=dict)  # its `config.json`; {} without one
    limit: int | None = None  # on the window, set by an option

    @cached_property
    def revision(self) -> str | None:
        """The commit, or the sha256 of a folder's weights; None where neither is known."""
        if self.hub_revision is not None or self.folder is None:
            return self.hub_revision
        return identify(self.folder)

    @property
    def weight_bytes(self) -> int | None:
        """Bytes of the weights as they are stored; None if no file says."""
        if self.folder is None:
            return None
        with suppress(OSError, ValueError, TypeError, KeyError, RulerError):
            index = read_json(self.folder / WEIGHTS_INDEX)
            return int(index["metadata"]["total_size"]) or None
        files = _weight_files(self.folder)  # of which .bin may be the same weights again
        safe = [path for path in files if path.suffix == ".safetensors"]
        return sum(path.stat().st_size for path in safe or files) or None

    @property
    def window(self) -> int | None:
        """Tokens that an option or the model's positions allow; None where neither is known."""
        if self.limit is not None:
            return self.limit
        return window(self.config)

    def tokenizer(self) -> PromptTokenizer:
        """Return the model's own tokenizer."""
        if self.folder is None:
            return load_tokenizer_of(self.source)
        origin = Origin(self.source if self.hub_revision else None, self.hub_revision)
        return load_folder(self.folder, self.name.rpartition("/")[2], origin)


def open_model(config: EvalConfig) -> Model:
    """Return a model from a folder, the Hub, or by its name alone, with the options that change it.

    Raises:
        UsageError: it is not there, or `hf_overrides` cannot be applied.
    """
    options = config.settings
    overrides = options.get("hf_overrides", {})
    if not isinstance(overrides, dict):
        option = f"--option hf_overrides={quote(str(overrides))}"
        raise UsageError(option, "is not a JSON object")
    model = _described(config)
    edited = with_overrides(model.config, overrides)
    limit = options.get("max_model_len")
    if not isinstance(limit, int):
        limit = None
    return replace(model, config=edited, limit=limit)


def _described(config: EvalConfig) -> Model:
    """Return a model as its folder, its name on a server, or the Hub describes it."""
    spec = str(config.model or "python")
    name = config.model_name
    path = Path(os.path.expanduser(spec))  # noqa: PTH111 - Path's raises for unknown users
    if path.is_dir():
        path = path.resolve()
        return Model(_public(name or path.name), str(path), None, path, _config(path))
    is_path = spec.startswith((".", "/", "~"))
    if {config.engine, config.settings.get("engine")} & SERVED:
        is_path = is_path or ("/" in spec and path.parent.is_dir())
        return _of_server(spec, name, is_path=is_path)
    if is_path or spec.count("/") != 1:
        problem = "no such folder, and not a Hub id, which is OWNER/NAME"
        raise UsageError(f"--model {quote(spec)}", problem)
    return _of_hub(spec, name or spec, config.model_revision)


def _of_server(spec: str, name: str | None, *, is_path: bool) -> Model:
    """Return a model that is only a name here."""
    if is_path and not name:
        problem = "no such folder; if it is a server's name, add --model-name"
        raise UsageError(f"--model {quote(spec)}", problem)
    return Model(_public(name or spec), spec)


def _of_hub(spec: str, name: str, revision: str | None) -> Model:
    """Return a model of the Hub under a name."""
    from ruler_data.hub.client import UNREACHABLE
    from ruler_data.hub.download import fetch_files

    try:
        folder, commit = fetch_files(_public(spec), HUB_FILES, revision)
    except RulerError as error:
        remedy = "" if UNREACHABLE in str(error) else "; offline, give a folder"
        raise UsageError(f"--model {quote(spec)}", f"{error}{remedy}") from error
    return Model(_public(name), spec, commit, folder, _config(folder))


def identify(folder: Path) -> str | None:
    """Return a sha256 that identifies a folder's weights; None if it holds none.

    It covers `config.json`, and the name, the size and 16 evenly spaced blocks of 64 KiB of each
    weight file: training changes all of them. Hashing all of 140 GB would take minutes on every
    start.
    """
    weights = _weight_files(folder)
    if not weights:
        return None
    config = folder / "config.json"
    digest = hashlib.sha256()
    try:
        if config.is_file():
            digest.update(read_bytes(config))
        for path in weights:
            size = path.stat().st_size
            digest.update(f"\0{path.name}\0{size}\0".encode())
            with open_file(path) as file:
                for block in range(BLOCKS):
                    file.seek(max(0, size - BLOCK) * block // (BLOCKS - 1))
                    digest.update(file.read(BLOCK))
    except OSError as error:
        reason = f"cannot be read: {error.strerror}"
        raise RulerError("--model", error.filename, reason) from error
    return "sha256:" + digest.hexdigest()


def _weight_files(folder: Path) -> list[Path]:
    return sorted([*folder.glob("*.safetensors"), *folder.glob("*.gguf"), *folder.glob("*.bin")])


def _config(folder: Path) -> dict[str, Any]:
    option = f"--model {quote(folder.name)}"
    try:
        body = read_json(folder / "config.json")
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise UsageError(option, f"config.json cannot be read: {error}") from error
    if not isinstance(body, dict):
        raise UsageError(option, "config.json is not an object")
    return body


def _public(name: str) -> str:
    """Return a name that may be published: one word, or owner/word."""
    for piece in name.rsplit("/", 1):
        check_name("--model-name", piece)
    return name


Config = Mapping[str, Any]

#: Kinds of RoPE that `max_position_embeddings` already includes.
_COUNTED = frozenset({"default", "llama3", "longrope", "su", "mrope"})
_TEXT = "text_config"


def text_part(config: Config) -> Config:
    """Return the part of a config that describes the language model."""
    inner = config.get(_TEXT)
    return inner if isinstance(inner, dict) else config


#: Fields by which configs describe layers with a recurrent state.
_RECURRENT = re.compile(
    "mamba_|ssm_|state_size$|linear_(num_|key_|value_|attn_)|lightning_|conv_L_cache|lru_|time_mix|rwkv"
)


def is_recurrent(config: Config) -> bool:
    """Whether some layers keep a state of fixed size: linear attention, state-space, RWKV.

    >>> is_recurrent({"linear_num_key_heads": 16}), is_recurrent({"model_type": "llama"})
    (True, False)
    """
    text = text_part(config)
    names = (*text, str(text.get("model_type")), *map(str, text.get("layer_types") or ()))
    return any(_RECURRENT.search(name) or name == "linear_attention" for name in names)


def window(config: Config) -> int | None:
    """Return the tokens that a model's positions reach; None where its config does not say.

    YaRN reaches `factor` times `original_max_position_embeddings`; some configs include that in
    `max_position_embeddings`, as vLLM 0.32 and Transformers 5 expect, and many model cards do not.
    The other kinds follow vLLM's rules: `linear` and `dynamic` reach `factor` times
    `max_position_embeddings`, except in Gemma 3; for the rest it is included.

    >>> yarn = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}
    >>> window({"max_position_embeddings": 32768, "rope_parameters": yarn})
    131072
    """
    text = text_part(config)
    reach = text.get("max_position_embeddings")
    if not isinstance(reach, int):
        return None
    is_gemma = "gemma3" in str(text.get("model_type"))
    try:
        windows = [_extended(reach, rope, is_gemma=is_gemma) for rope in _ropes(text)]
    except (TypeError, ValueError, OverflowError):  # not the numbers that engines take
        return None
    return max(windows, default=reach)


def _extended(reach: int, rope: Config, *, is_gemma: bool) -> int:
    """Return the tokens that positions reach with RoPE scaling."""
    kind = _kind(rope)
    factor = float(rope.get("factor") or 1.0)
    if "yarn" in kind:
        original = rope.get("original_max_position_embeddings", reach)
        return max(reach, int(original * factor))
    if kind in _COUNTED or (is_gemma and kind == "linear"):
        return reach
    return int(reach * factor)


def trained_window(config: Config) -> int | None:
    """Return the tokens that a model was trained on before RoPE scaling extended them.

    None where its config does not say.

    >>> trained_window({"rope_scaling": {"original_max_position_embeddings": 8192}})
    8192
    """
    windows = [rope.get("original_max_position_embeddings") for rope in _ropes(text_part(config))]
    lengths = [number for number in windows if isinstance(number, int)]
    return max(lengths, default=None)


def with_overrides(config: Config, overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Return a config with overrides applied as engines apply them.

    Raises:
        UsageError: RoPE's parameters lack `rope_theta`, which engines do not fill in.
    """
    text = text_part(config)
    inner = overrides.get(_TEXT)
    if not isinstance(inner, dict):
        inner = {}
    for rope in (*_ropes(overrides), *_ropes(inner)):
        if "rope_theta" not in rope:
            places = (text, *_ropes(text))
            theta = next((p["rope_theta"] for p in places if "rope_theta" in p), "not known")
            raise UsageError(
                "--option hf_overrides",
                f"add rope_theta (the model's own is {theta}): hf_overrides replaces all of the "
                "model's rope_parameters",
            )
    edited = {**config, **_as_rope_parameters(overrides)}
    if inner:
        edited[_TEXT] = {**text, **_as_rope_parameters(inner)}
    return edited


def with_yarn_window(config: Config, overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Return overrides with the window that YaRN gives.

    vLLM 0.32 takes `max_position_embeddings` as the limit, even where YaRN reaches further.
    """
    text = text_part(config)
    if not any("yarn" in _kind(rope) for rope in _ropes(text)):
        return dict(overrides)
    longer = {"max_position_embeddings": window(config)}
    if text is config:
        return {**longer, **overrides}
    return {**overrides, _TEXT: {**longer, **overrides.get(_TEXT, {})}}


def _as_rope_parameters(section: Config) -> dict[str, Any]:
    """Return a config's values with RoPE's parameters under their current name."""
    renamed = dict(section)
    if "rope_scaling" in renamed:
        renamed["rope_parameters"] = renamed.pop("rope_scaling")
    return renamed


def _kind(rope: Config) -> str:
    return str(rope.get("rope_type", rope.get("type", "default")))


def _ropes(text: Config) -> list[Config]:
    """Return the parameters of RoPE: one set, or one for each type of layer."""
    rope = text.get("rope_parameters") or text.get("rope_scaling")
    if not isinstance(rope, dict):
        return []
    return [item for item in rope.values() if isinstance(item, dict)] or [rope]
