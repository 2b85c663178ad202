"""Run folders of a former version, with attention mechanisms that the short tests do without."""

import pytest
from test_checkpoints import FORMER, assert_resumes_as_then

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("name", sorted(name for name in FORMER if not name.endswith("-memory")))
def test_a_run_of_memattn_0_1_evaluates_and_resumes_as_it_did_then(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert_resumes_as_then(FORMER[name])
