"""What the lab gives a command, and how it decides that there is no GPU."""

from pathlib import Path

import pytest

from hicachectl.lab import environment, gpu

STORE = {"MOONCAKE_MASTER": "127.0.0.1:1", "MOONCAKE_GLOBAL_SEGMENT_SIZE": "0"}


@pytest.fixture
def with_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine whose device nodes say that a GPU is there."""
    monkeypatch.setattr(gpu, "DEVICE_NODES", ("null",))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)


@pytest.fixture
def without_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine on which no device node of a GPU is there."""
    monkeypatch.setattr(gpu, "DEVICE_NODES", ("no-such-device[0-9]*",))


@pytest.mark.usefixtures("with_gpu")
def test_a_device_node_is_a_gpu_unless_it_is_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    """CUDA_VISIBLE_DEVICES of nothing, or -1, hides it; a list of devices does not."""
    assert gpu.present()
    for hidden in ("", "-1"):
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", hidden)
        assert not gpu.present()
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    assert gpu.present()


@pytest.mark.usefixtures("without_gpu")
def test_without_a_gpu_the_engine_is_told_to_run_on_the_cpu() -> None:
    """The switches of the contract, and the lab's own; a setting that the user made for speed stays."""
    inner = environment.for_command({"TORCHDYNAMO_DISABLE": "0"}, STORE, Path("/m"))
    expected = {
        "SGLANG_USE_CPU_ENGINE": "1",
        "TRITON_INTERPRET": "1",
        "HICACHECTL_LAB": "1",
        "HICACHECTL_LAB_MODEL": "/m",
    }
    assert {name: inner.get(name) for name in expected} == expected
    assert inner["TORCHDYNAMO_DISABLE"] == "0"
    assert environment.for_command({}, STORE, Path("/m"))["TORCHDYNAMO_DISABLE"] == "1"


@pytest.mark.usefixtures("with_gpu")
def test_with_a_gpu_only_store_and_model_are_given() -> None:
    """Nothing makes an engine leave the GPU; what the lab set can be told from what the user set."""
    inner = environment.for_command({"PATH": "/bin"}, STORE, Path("/m"))
    assert inner.pop("HICACHECTL_LAB_PROVIDES").splitlines() == [
        "MOONCAKE_MASTER=127.0.0.1:1",
        "MOONCAKE_GLOBAL_SEGMENT_SIZE=0",
    ]
    assert inner == {"PATH": "/bin", **STORE, "HICACHECTL_LAB": "1", "HICACHECTL_LAB_MODEL": "/m"}


def test_settings_that_name_another_store_are_dropped_and_named() -> None:
    """A lab run must not reach a production store, whichever way that one is configured."""
    outer = {
        "MOONCAKE_MASTER": "production:1",
        "MOONCAKE_CLIENT": "x",
        "SGLANG_HICACHE_MOONCAKE_CONFIG_PATH": "y",
        "HOME": "/h",
    }
    inner = environment.for_command(outer, STORE, Path("/m"))
    assert inner["MOONCAKE_MASTER"] == "127.0.0.1:1"
    assert inner["HOME"] == "/h"
    assert environment.dropped(outer) == ["SGLANG_HICACHE_MOONCAKE_CONFIG_PATH", "MOONCAKE_CLIENT"]
    assert not set(environment.dropped(outer)) & set(inner)


@pytest.mark.usefixtures("without_gpu")
def test_a_filter_that_keeps_the_stand_ins_out_is_remarked() -> None:
    """An engine without them would fail for want of a driver; no filter, or one with them, is no remark."""
    assert len(environment.remarks({"SGLANG_PLUGINS": "hicachectl, other"})) == 1
    assert environment.remarks({"SGLANG_PLUGINS": "other, hicachectl_lab"}) == []
    assert environment.remarks({"SGLANG_PLUGINS": ""}) == []


@pytest.mark.usefixtures("with_gpu")
def test_with_a_gpu_the_filter_does_not_matter() -> None:
    """Nothing is replaced there."""
    assert environment.remarks({"SGLANG_PLUGINS": "hicachectl"}) == []


@pytest.mark.usefixtures("without_gpu")
def test_kernels_that_refuse_a_machine_without_a_gpu_get_a_stand_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """SGLang 0.5.23 finds the stand-in for sgl_kernel first on PYTHONPATH, before what is there; 0.5.14 does not get it."""
    monkeypatch.setattr(environment.metadata, "version", lambda _: "0.5.23")
    inner = environment.for_command({"PYTHONPATH": "/mine"}, STORE, Path("/m"))
    folder, mine = inner["PYTHONPATH"].split(":")
    assert (Path(folder) / "sgl_kernel" / "__init__.py").is_file()
    assert mine == "/mine"
    monkeypatch.setattr(environment.metadata, "version", lambda _: "0.5.14")
    assert environment.for_command({"PYTHONPATH": "/mine"}, STORE, Path("/m"))["PYTHONPATH"] == "/mine"
