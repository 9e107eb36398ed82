"""Runs and manifests in `results/` are read by the version that ships with them."""

from ruler_data.manifest import FILENAME, read_manifest
from ruler_data.version import DATA_VERSION, __version__
from ruler_eval.running.run_dir import RUN_FILE, RunFolder, read_info
from tests.conftest import ROOT

RESULTS = ROOT / "results"
MANIFESTS = sorted(path.parent for path in RESULTS.rglob(FILENAME))
RUNS = sorted(path.parent for path in RESULTS.rglob(RUN_FILE))


def test_all_committed_manifests_are_read() -> None:
    assert len(MANIFESTS) == 12
    for folder in MANIFESTS:
        manifest = read_manifest(folder)
        manifest.check(str(folder))
        versions = (manifest.data_version, manifest.package_version)
        assert versions == (DATA_VERSION, __version__), folder
        for info in manifest.configs.values():
            assert info.floor is not None, folder
            assert info.question_digest, folder


def test_all_committed_runs_are_read_whole_and_their_rows_are_in_a_committed_manifest() -> None:
    digests = set[str]()
    for folder in MANIFESTS:
        digests |= {info.digest for info in read_manifest(folder).configs.values()}
    assert len(RUNS) == 16
    for folder in RUNS:
        info = read_info(folder)
        assert digests >= set(info.data.digests.values()), folder
        torn = list[str]()
        answers = RunFolder(folder).answers(torn)
        assert answers, folder
        assert torn == [], folder
        assert all(answer.question_digest for answer in answers.values()), folder
