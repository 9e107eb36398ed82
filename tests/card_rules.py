"""What the Hub accepts in a card's metadata, as data: a refusal is found before any request.

Sources: huggingface/hub-docs, `datasetcard.md`, `docs/hub/repositories-licenses.md` and
`docs/hub/datasets-manual-configuration.md`; huggingface/huggingface.js, `packages/tasks`
(`pipelines.ts`). The Hub's own check follows, which may know more.
"""

from collections.abc import Iterator
from typing import Annotated, Literal

import yaml
from pydantic import AfterValidator, BaseModel, Field, ValidationError

from ruler_data.names import quote

#: Identifiers of licences: those that RULER's sources can have, besides `other`.
Licence = Literal[
    "apache-2.0", "mit", "cc0-1.0", "cc-by-2.0", "cc-by-3.0", "cc-by-4.0", "cc-by-sa-3.0",
    "cc-by-sa-4.0", "cc-by-nc-4.0", "cc-by-nc-sa-4.0", "pddl", "odc-by", "odbl", "unknown", "other",
]  # fmt: skip
Size = Literal[
    "n<1K", "1K<n<10K", "10K<n<100K", "100K<n<1M", "1M<n<10M", "10M<n<100M", "100M<n<1B", "n>1B",
]  # fmt: skip
Category = Literal[
    "question-answering", "text-generation", "text-retrieval", "multiple-choice", "other"
]
Creator = Literal["crowdsourced", "found", "expert-generated", "machine-generated", "no-annotation"]
Language = Annotated[str, Field(pattern=r"^([a-z]{2,3}(-[A-Za-z0-9]+)*|multilingual|code)$")]
#: A file of the repo has to have one of two names; anything else is an address.
Link = Annotated[str, Field(pattern=r"^(LICENSE|LICENSE\.md|https://[^/\s]+/\S*)$")]
Tag = Annotated[str, Field(min_length=1, max_length=100, pattern=r"^[^\r\n]+$")]


class DataFile(BaseModel, strict=True):
    """The files of a split."""

    split: Annotated[str, Field(pattern=r"^\w+(\.\w+)*$")]
    path: Annotated[str, Field(pattern=r"^[^/\s][^\s]*$")]


class Config(BaseModel, strict=True):
    """An item of `configs`."""

    config_name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][\w.-]*$")]
    data_files: Annotated[list[DataFile], Field(min_length=1)]
    default: bool = False


def _check_names(configs: list[Config]) -> list[Config]:
    names = [one.config_name for one in configs]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        msg = f"{twice[0]} occurs twice"
        raise ValueError(msg)
    if sum(one.default for one in configs) > 1:
        msg = "only one config can be the default"
        raise ValueError(msg)
    return configs


class Metadata(BaseModel, strict=True):
    """The YAML at the head of a dataset card; keys that it does not list are free."""

    pretty_name: str
    language: list[Language]
    license: list[Licence]
    license_name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9.-]*$")] | None = None
    license_link: Link | None = None
    source_datasets: list[str] = []
    task_categories: list[Category]
    annotations_creators: list[Creator]
    tags: list[Tag]
    size_categories: list[Size]
    configs: Annotated[list[Config], AfterValidator(_check_names)]


def card_faults(text: str) -> Iterator[str]:
    """Yield what the Hub would refuse in a card, e.g. `license_link: ...`."""
    head, _, rest = text.removeprefix("---\n").partition("\n---\n")
    if not (text.startswith("---\n") and rest):
        yield "its metadata does not stand between two lines `---`"
        return
    try:
        body = yaml.load(head, getattr(yaml, "CSafeLoader", yaml.SafeLoader))
        metadata = Metadata.model_validate(body)
    except yaml.YAMLError as error:
        yield f"YAML: {' '.join(str(error).split())}"
    except ValidationError as error:
        for one in error.errors():
            place = ".".join(map(str, one["loc"]))
            yield f"{place}: {quote(str(one['input']))}: {one['msg']}"
    else:
        if "other" in metadata.license and metadata.license_name is None:
            yield "license_name: is needed where the license is `other`"
