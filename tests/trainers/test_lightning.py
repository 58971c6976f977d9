"""The callback and the checkpoint plugin for Lightning, with the real Trainer on random data."""

from __future__ import annotations

import importlib
import os
import signal
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

import codec
from codec import errors
from codec.rerun import restore as rerun
from codec.trainers import pointer
from tests.bits import same

Capture = pytest.CaptureFixture[str]
Patch = pytest.MonkeyPatch

EXACT = {"policy": {"*": "exact"}}
Fit = Callable[..., Any]
# Said by Lightning 2.6.6 and torch 2.13 about each other.
pytestmark = pytest.mark.filterwarnings(
    "ignore:.*isinstance.treespec, LeafSpec.*:FutureWarning",
    "ignore:.*does not have many workers:UserWarning",
    "ignore:.*exists and is not empty:UserWarning",
    "ignore:.*callbacks used to create the checkpoint need to be provided:UserWarning",
    "ignore:The dirpath has changed:UserWarning",
)


def library_of(name: str) -> SimpleNamespace:
    """What the tests need of one of the two packages that Lightning comes in."""
    pl = importlib.import_module(name)
    ours = importlib.import_module("codec.trainers.lightning")

    class Model(pl.LightningModule):  # type: ignore[misc, name-defined]
        """Two layers, an optimizer with moments, a scheduler and a hyper-parameter."""

        def __init__(self, width: int = 16) -> None:
            super().__init__()
            self.save_hyperparameters()
            self.net = torch.nn.Sequential(
                torch.nn.Linear(8, width), torch.nn.BatchNorm1d(width), torch.nn.Linear(width, 4)
            )

        def training_step(self, batch: Any, _index: int) -> torch.Tensor:
            return torch.nn.functional.cross_entropy(self.net(batch[0]), batch[1])

        def validation_step(self, batch: Any, _index: int) -> None:
            self.log("loss", torch.nn.functional.cross_entropy(self.net(batch[0]), batch[1]))

        def configure_optimizers(self) -> Any:
            optimizer = torch.optim.Adam(self.parameters(), lr=0.02)
            return [optimizer], [torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)]

    class Stops(pl.Callback):  # type: ignore[misc, name-defined]
        """Does something at the end of a step."""

        def __init__(self, step: int, what: Callable[[], Any]) -> None:
            self.step, self.what = step, what

        def on_train_batch_end(self, trainer: Any, *_: Any) -> None:
            if trainer.global_step == self.step:
                self.what()

    return SimpleNamespace(
        pl=pl,
        Model=Model,
        Stops=Stops,
        Chain=ours.ChainCallback,
        IO=ours.ChainCheckpointIO,
        Keep=importlib.import_module(f"{name}.callbacks").ModelCheckpoint,
    )


@pytest.fixture(scope="module")
def lib(few_objects: Callable[[], None]) -> SimpleNamespace:
    """The library, which is slow to import."""
    library = library_of("lightning.pytorch")
    few_objects()
    return library


@pytest.fixture
def fit(lib: SimpleNamespace, tmp_path: Path, monkeypatch: Patch) -> Fit:
    """Fits 3 epochs of 4 steps, and returns the trainer and the model."""
    monkeypatch.chdir(tmp_path)

    def run(
        *callbacks: Any,
        plugins: Any = (),
        ckpt_path: Any = None,
        of: Any = lib,
        model: Any = None,
        **more: Any,
    ) -> Any:
        torch.manual_seed(0)
        x = torch.randn(32, 8)
        data = TensorDataset(x, x[:, :4].argmax(1))
        keeps = any(isinstance(callback, of.Keep) for callback in callbacks)
        trainer = of.pl.Trainer(
            **{"max_epochs": 3, "enable_checkpointing": keeps} | more,
            accelerator="cpu",
            callbacks=list(callbacks),
            plugins=list(plugins),
            logger=False,
            enable_progress_bar=False,
            enable_model_summary=False,
            num_sanity_val_steps=0,
        )
        model = model or of.Model()
        trainer.fit(model, DataLoader(data, 8), DataLoader(data, 32), ckpt_path=ckpt_path)
        return trainer, model

    return run


def raises() -> None:
    raise ZeroDivisionError


def test_the_two_best_of_many_restore(fit: Fit, lib: Any, tmp_path: Path) -> None:
    """What ModelCheckpoint keeps is what it keeps without the plugin, to the last bit; what it
    removes has no file any more, and nothing else suffers."""

    def keep(folder: str) -> list[Any]:
        return [
            lib.Keep(folder, monitor="loss", save_top_k=2, save_last=True),
            lib.Keep(folder, monitor="loss", mode="max", save_top_k=1, filename="worst"),
        ]

    fit(*keep("plain"))
    (tmp_path / "plain").rename(tmp_path / "expected")
    trainer, _ = fit(*keep("plain"), plugins=[lib.IO("run.lcc", **EXACT)])
    expected = sorted(p.name for p in (tmp_path / "expected").iterdir())
    assert sorted(p.name for p in (tmp_path / "plain").iterdir()) == expected
    assert len(expected) == 4
    io = trainer.strategy.checkpoint_io
    for name in expected:
        assert (tmp_path / "plain" / name).stat().st_size < 150
        want = torch.load(tmp_path / "expected" / name, weights_only=False)
        got = io.load_checkpoint(tmp_path / "plain" / name)
        assert want.keys() == got.keys()
        assert same(got, want), name
    chain = codec.Chain("run.lcc")
    assert [e.kind for e in chain.entries] == ["base"] + ["delta"] * (len(chain.entries) - 1)
    assert len(chain.steps) > len(expected)  # those whose files were removed, others' parents
    assert chain.verify().ok

    best = trainer.checkpoint_callbacks[0].best_model_path
    _, model = fit(ckpt_path=best, plugins=[lib.IO("run.lcc")], max_epochs=4)
    path = best.replace("/plain/", "/expected/")
    _, other = fit(ckpt_path=path, max_epochs=4)
    assert same(dict(model.state_dict()), dict(other.state_dict()))
    assert path != best


def test_one_state_in_two_files(lib: Any, tmp_path: Path) -> None:
    io = lib.IO(tmp_path / "run.lcc")
    made = {"global_step": 3, "state_dict": {"w": torch.ones(9)}, "paths": {"a": "b"}}
    for name in "ab":
        io.save_checkpoint(made, tmp_path / f"{name}.ckpt")
    made["state_dict"]["w"][0] = -0.0  # type: ignore[index]
    io.save_checkpoint(made, tmp_path / "c.ckpt")
    io.save_checkpoint(made | {"global_step": 5}, tmp_path / "d.ckpt")
    got_back = [pointer.read(tmp_path / f"{name}.ckpt") for name in "abcd"]
    assert [named.step for named in got_back if named] == [3, 3, 4, 5]
    assert codec.Chain(tmp_path / "run.lcc").steps == (3, 4, 5)
    for name in "abcd":
        assert io.load_checkpoint(tmp_path / f"{name}.ckpt")["paths"] == {"a": "b"}
    io.remove_checkpoint(tmp_path / "a.ckpt")
    assert io.load_checkpoint(tmp_path / "b.ckpt")["global_step"] == 3
    io.teardown()


def test_files_that_are_no_pointers(lib: Any, tmp_path: Path) -> None:
    """Lightning's own are loaded and removed as ever; a chain that is another one is named."""
    io, other = lib.IO(tmp_path / "run.lcc"), lib.IO(tmp_path / "other.lcc")
    made = {"global_step": 3, "state_dict": {"w": torch.ones(9)}}
    torch.save(made, tmp_path / "plain.ckpt")
    assert same(io.load_checkpoint(tmp_path / "plain.ckpt", weights_only=True), made)
    io.remove_checkpoint(tmp_path / "plain.ckpt")
    io.remove_checkpoint(tmp_path / "plain.ckpt")  # is not there
    with pytest.raises(FileNotFoundError):
        io.load_checkpoint(tmp_path / "plain.ckpt")
    for made["epoch"] in range(2):  # a step once more is the next one that is free
        io.save_checkpoint(made, tmp_path / "a.ckpt")
    other.save_checkpoint(made, tmp_path / "b.ckpt")
    assert pointer.read(tmp_path / "a.ckpt").step == 4
    assert same(io.load_checkpoint(tmp_path / "a.ckpt", map_location="cpu"), made)
    with pytest.raises(errors.StepNotFoundError, match=r"step 3 of other\.lcc, but"):
        io.load_checkpoint(tmp_path / "b.ckpt")
    newer = (tmp_path / "a.ckpt").read_text().replace(": 1,", ": 2,", 1)
    for text, error in (("", errors.TruncatedRecordError), (newer, errors.VersionError)):
        (tmp_path / "a.ckpt").write_text(text)
        with pytest.raises(error, match=r"a\.ckpt: expected"):
            io.load_checkpoint(tmp_path / "a.ckpt")
        io.remove_checkpoint(tmp_path / "a.ckpt")  # whatever is in it
        assert not (tmp_path / "a.ckpt").exists()
    assert codec.Chain(tmp_path / "run.lcc").steps == (3, 4)

    with pytest.raises(codec.SettingsError, match="restores to the CPU"):
        other.load_checkpoint(tmp_path / "b.ckpt", map_location="meta")
    with pytest.raises(codec.SettingsError, match="storage_options"):
        io.save_checkpoint(made, tmp_path / "c.ckpt", storage_options={})
    for url in ("memory://ck/c.ckpt", f"file://{tmp_path}/c.ckpt", tmp_path / "file:/c.ckpt"):
        with pytest.raises(codec.SettingsError, match="to a local directory; give"):
            io.save_checkpoint(made, url)
    with pytest.raises(errors.DTypeError, match=r"policy=\{'paths/0': 'skip'\};"):
        io.save_checkpoint(made | {"paths": [tmp_path]}, tmp_path / "c.ckpt")
    assert not (tmp_path / "c.ckpt").exists()
    assert codec.Chain(tmp_path / "run.lcc").steps == (3, 4)  # no record of what was refused
    with pytest.raises(errors.LockedError):
        codec.Checkpointer(tmp_path / "run.lcc", resume=True)
    little = lib.IO(tmp_path / "little.lcc", policy={"state_dict/*": "exact", "*": "skip"})
    little.save_checkpoint(made, tmp_path / "d.ckpt")
    got_back = little.load_checkpoint(tmp_path / "d.ckpt")
    assert same(got_back, {"state_dict": made["state_dict"]})
    io.teardown()
    codec.Checkpointer(tmp_path / "run.lcc", resume=True).close()
    for name, value in (("keep_steps", 2), ("asynchronous", True)):
        with pytest.raises(codec.SettingsError, match=f"{name} is not for ChainCheckpointIO"):
            lib.IO(tmp_path / "run.lcc", **{name: value})


@pytest.mark.filterwarnings(
    "ignore:You're resuming from a checkpoint that ended before:UserWarning"
)
@pytest.mark.parametrize(
    "more",
    [{"gradient_clip_val": 0.1, "precision": "bf16-mixed"}, {"accumulate_grad_batches": 2}],
    ids=["within an epoch", "at its end"],
)
def test_gradients_resume_to_the_last_bit(
    fit: Fit, lib: Any, tmp_path: Path, more: dict[str, Any]
) -> None:
    """As from Lightning's own checkpoints, and at an epoch's end as without an interruption. Within
    an epoch Lightning begins with the epoch's first batch again."""
    ends: dict[str, Any] = {}
    stop, more = 7, more | {"max_epochs": 4}

    def keep(folder: str) -> Any:
        return lib.Keep(folder, every_n_train_steps=1, save_top_k=-1)

    def new() -> Any:
        torch.manual_seed(0)
        return lib.Model(200)

    for folder in ("plain", "chain"):
        for at in (stop, 0):
            model = new()
            plugins = [lib.IO("run.lcc", gradients_of=model)] if folder == "chain" else []
            mine = {"plugins": plugins, "model": model, **more}
            if at:
                with pytest.raises(ZeroDivisionError):
                    fit(keep(folder), lib.Stops(stop, raises), **mine)
            else:
                (newest,) = (tmp_path / folder).glob(f"*step={stop - 1}.ckpt")
                trainer, _ = fit(keep(folder), ckpt_path=newest, **mine)
        ends[folder] = trainer, model
    ends["alone"] = fit(model=new(), **more)

    def end_of(name: str) -> list[Any]:
        trainer, model = ends[name]
        schedule = trainer.lr_scheduler_configs[0].scheduler.state_dict()
        return [dict(model.state_dict()), trainer.optimizers[0].state_dict(), schedule]

    assert same(end_of("chain"), end_of("plain"))
    in_an_epoch = 4 // more.get("accumulate_grad_batches", 1)
    assert same(end_of("chain"), end_of("alone")) == ((stop - 1) % in_an_epoch == 0)

    chain = codec.Chain("run.lcc")
    assert [e.step for e in chain.entries if e.kind == "base"] == [1, stop]
    assert len(chain.steps) >= ends["chain"][0].global_step
    sizes = {e.kind: (tmp_path / "run.lcc" / e.name).stat().st_size for e in chain.entries}
    assert sizes["delta"] < 0.5 * sizes["base"]
    io = lib.IO("run.lcc", gradients_of=lib.Model(200))
    for step in (stop - 2, stop + 1):  # by themselves: as what Lightning's own files hold
        (mine,), (file,) = ((tmp_path / f).glob(f"*step={step}.ckpt") for f in ("chain", "plain"))
        want, got = torch.load(file, weights_only=False), io.load_checkpoint(mine)
        for part in ("state_dict", "optimizer_states", "lr_schedulers", "loops", "global_step"):
            assert same(got[part], want[part]), part


def test_gradients_refused(fit: Fit, lib: Any, tmp_path: Path) -> None:
    class Two(lib.Model):  # type: ignore[misc, name-defined]
        """One optimizer for each layer."""

        automatic_optimization = False

        def training_step(self, batch: Any, index: int) -> None:
            for optimizer in self.optimizers():
                optimizer.step()

        def configure_optimizers(self) -> Any:
            mine = [torch.optim.SGD(p.parameters(), 0.1) for p in (self.net[0], self.net[2])]
            return [{"optimizer": optimizer} for optimizer in mine]

    with pytest.raises(TypeError, match="'bits'"):
        lib.IO("run.lcc", gradients_of=lib.Model(), bits=2)
    model = Two()
    io = lib.IO("run.lcc", gradients_of=model)
    with pytest.raises(codec.SettingsError, match="one optimizer; this one has 2"):
        fit(lib.Keep("kept"), plugins=[io], model=model)
    assert not (tmp_path / "run.lcc").exists()
    model = lib.Model()
    io = lib.IO("run.lcc", gradients_of=model)
    keep = lib.Keep("kept", every_n_train_steps=1)
    fit(keep, plugins=[io], model=model, max_epochs=1)
    with pytest.raises(errors.RerunNeededError):
        lib.IO("run.lcc").load_checkpoint(keep.best_model_path)
    assert lib.IO("run.lcc", gradients_of=lib.Model()).load_checkpoint(keep.best_model_path)


def test_a_chain_beside_the_checkpoints(fit: Fit, lib: Any, tmp_path: Path) -> None:
    fit(lib.Keep("plain", save_top_k=-1))
    expected = {p.name: torch.load(p, weights_only=False) for p in (tmp_path / "plain").iterdir()}
    (tmp_path / "plain").rename(tmp_path / "alone")
    beside = lib.Chain("run.lcc", optimizer=True, **EXACT)
    often = lib.Chain("often.lcc", every=5, bits=2, asynchronous=True)
    _, model = fit(lib.Keep("plain", save_top_k=-1), beside, often)
    assert codec.Chain("run.lcc").steps == (4, 8, 12)
    assert codec.Chain("often.lcc").steps == (5, 10, 12)
    for name, want in expected.items():
        got = torch.load(tmp_path / "plain" / name, weights_only=False)
        assert same(got, want)
        state = codec.restore("run.lcc", want["global_step"])
        assert same(dict(state["model"]), dict(want["state_dict"]))
        assert same(state["optimizer"], want["optimizer_states"])
        assert same(state["scheduler"], want["lr_schedulers"])
        assert state["epoch"] == want["epoch"]
    again = lib.Model()
    again.load_state_dict(codec.restore("often.lcc")["model"])
    distance = (again.net[0].weight - model.net[0].weight).norm() / model.net[0].weight.norm()
    assert 0 < distance < 0.1


def test_resumed_after_it_failed(
    fit: Fit, lib: Any, tmp_path: Path, in_fork: Callable[..., tuple[int, str]]
) -> None:
    """Raised or killed: closed at once, every step is there; the chain goes back where the
    training does, and ends as if nothing had been."""
    _, expected = fit()

    def keep() -> Any:
        return lib.Keep("kept", every_n_epochs=1)

    io = lib.IO("kept.lcc", **EXACT)
    with pytest.raises(ZeroDivisionError):
        fit(keep(), lib.Chain("run.lcc", every=1, **EXACT), lib.Stops(7, raises), plugins=[io])
    for path in ("run.lcc", "kept.lcc"):
        codec.Checkpointer(path, resume=True).close()
    assert codec.Chain("run.lcc").steps == tuple(range(1, 8))
    (first,) = (tmp_path / "kept").iterdir()
    stop = lib.Stops(10, lambda: os.kill(os.getpid(), signal.SIGKILL))
    chain = lib.Chain("run.lcc", every=1, **EXACT)

    def go_on() -> None:
        warnings.simplefilter("ignore", errors.RewoundWarning)
        fit(keep(), chain, stop, plugins=[io], ckpt_path=first)

    code, printed = in_fork(go_on)
    assert code == -signal.SIGKILL, printed
    assert codec.Chain("run.lcc").steps == tuple(range(1, 11))
    assert codec.verify("run.lcc").ok
    (newest,) = (tmp_path / "kept").glob("epoch=1-*")
    assert pointer.read(newest).step == 8
    with pytest.warns(errors.RewoundWarning, match="goes on from step 8 and was at 10"):
        _, model = fit(lib.Chain("run.lcc", every=1, **EXACT), plugins=[io], ckpt_path=newest)
    assert codec.Chain("run.lcc").steps == tuple(range(1, 13))
    assert same(dict(model.state_dict()), dict(expected.state_dict()))
    assert same(dict(codec.restore("run.lcc")["model"]), dict(expected.state_dict()))


def test_saved_in_a_thread_of_its_own(fit: Fit, lib: Any) -> None:
    """Lightning's AsyncCheckpointIO does not tear down the plugin below it."""
    asynchronous = importlib.import_module("lightning.pytorch.plugins.io").AsyncCheckpointIO
    keep = lib.Keep("kept", every_n_train_steps=1, save_top_k=-1)
    fit(keep, plugins=[asynchronous(lib.IO("run.lcc", **EXACT))])
    assert codec.verify("run.lcc").ok
    with codec.Checkpointer("run.lcc", resume=True) as others:
        assert others.step == 12


def test_refused(fit: Fit, lib: Any, tmp_path: Path) -> None:
    with codec.Checkpointer("run.lcc") as others:
        others.save(1, {"w": torch.zeros(9)})
        for more in ({"plugins": [lib.IO("run.lcc")]}, {}):
            callbacks = [lib.Keep("kept")] if more else [lib.Chain("run.lcc", every=1, resume=True)]
            with pytest.raises(errors.LockedError, match="another writer is at work here"):
                fit(*callbacks, **more)
    with pytest.raises(errors.StepOrderError, match="up to step 1; choose another directory"):
        fit(lib.Chain("run.lcc", every=1))
    for callbacks in ([], [lib.Keep("kept", save_weights_only=True)]):
        with pytest.raises(codec.SettingsError, match="nothing would be saved"):
            fit(*callbacks, lib.Chain("new.lcc"))
    with pytest.raises(codec.SettingsError, match="every is a number"):
        lib.Chain("new.lcc", every=0)
    fit(lib.Chain("run.lcc", every=1, resume=True), fast_dev_run=True)  # in which nothing is saved
    assert codec.Chain("run.lcc").steps == (1,)

    class FSDPStrategy:
        """Only its name matters."""

    trainer = SimpleNamespace(is_global_zero=True, strategy=FSDPStrategy())
    with pytest.raises(errors.ShardedError, match=r"strategy is a FSDPStrategy: use codec\.dcp"):
        lib.Chain("new.lcc").on_train_start(trainer, lib.Model())
    other = lib.Chain("new.lcc", every=1)  # as in the processes beside the main one
    rank = SimpleNamespace(is_global_zero=False, strategy=None, global_step=1)
    other.on_train_start(rank, lib.Model())
    other.on_train_batch_end(rank, lib.Model(), None, None, 0)
    other.on_train_end(rank, lib.Model())
    assert not (tmp_path / "new.lcc").exists()


@pytest.mark.filterwarnings("ignore::UserWarning")  # what Lightning recommends
@pytest.mark.usefixtures("examples")
def test_example_and_snippets(
    fit: Fit, lib: Any, snippets: Callable[[str], list[str]], capsys: Capture
) -> None:
    import lightning_module

    for epochs in (1, 2):
        lightning_module.main(["--epochs", str(epochs)])
        said = capsys.readouterr().out
        assert f"{epochs} records of" in said
        assert f"epoch={epochs - 1}-step={epochs * 44}.ckpt" in said
    import lightning

    got_back = snippets("lightning")
    assert len({"IO" in snippet for snippet in got_back}) == 2
    torch.manual_seed(0)
    x = torch.randn(32, 8)
    data = DataLoader(TensorDataset(x, x[:, :4].argmax(1)), 8)
    for i, snippet in enumerate(got_back):
        model = lib.Model()
        for path in ("run.lcc", "exact.lcc"):
            snippet = snippet.replace(path, f"{i}.lcc")
        exec(snippet, {"lightning": lightning, "model": model, "data": data})
        if "gradients" in snippet:
            state = rerun(f"{i}.lcc", model.configure_optimizers()[0][0])
        else:
            state = codec.restore(f"{i}.lcc")
        lib.Model().load_state_dict(state["state_dict" if "IO" in snippet else "model"])


@pytest.mark.usefixtures("lib")  # first: its modules are put back afterwards
def test_the_other_package(fit: Fit, monkeypatch: Patch) -> None:
    """With pytorch_lightning imported and lightning not, the classes are pytorch_lightning's."""
    monkeypatch.setattr(codec.trainers, "lightning", None)  # to be put back, as those below
    monkeypatch.delitem(sys.modules, "codec.trainers.lightning")
    monkeypatch.delitem(sys.modules, "lightning.pytorch")
    other = library_of("pytorch_lightning")
    assert issubclass(other.Chain, other.pl.Callback)
    keep = other.Keep("kept", save_top_k=1, monitor="loss")
    fit(
        keep,
        other.Chain("run.lcc", every=2),
        plugins=[other.IO("kept.lcc")],
        of=other,
        max_epochs=1,
    )
    assert codec.Chain("run.lcc").steps == (2, 4)
    assert codec.Chain("kept.lcc").steps == (4,)
