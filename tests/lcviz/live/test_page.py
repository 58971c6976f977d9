"""The Live page as Streamlit runs it, without a browser."""

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from codec import Coding
from demo_models import FOLDER_VARIABLE, MODELS, Task
from lcviz.lab.tuner.candidates import Setting
from lcviz.live import page as live_page
from lcviz.live import page_start
from lcviz.live.headline import cost_of
from lcviz.run.controls import WATCH_SECONDS
from lcviz.run.run import Run, RunError
from lcviz.run.snapshot import Losses
from lcviz.server import runs
from lcviz.server.replays import Replays, RetriedRun
from lcviz.server.runs import EXAMPLE_ID
from lcviz.text import nbytes_text, percent_text
from lcviz.ui import picture, session
from lcviz.ui.settings import LOSS_SHARE
from lcviz.ui.snippet import in_a_loop
from tests.lcviz.common import Make, MakeRun, Patch, until
from tests.worded import lost_work

pytestmark = pytest.mark.usefixtures("server")

PICTURES = {"headline", "weights", "buckets", "bits", "weight", "loss", "examples"}
SHORT = {"iterations": "4", "interval": "1"}  # the URL has the words on screen
MNIST = {"model": "LeNet-5", "data_lenet5": "MNIST", "interval": "1"}


def drawn_step(page: Any) -> Any:
    """The step of the weight's picture."""
    return page.picture("weight")["marks"][0]["step"]


def error(page: Any) -> str:
    """The one error shown."""
    (sentence,) = page.texts("error")
    assert sentence.endswith((".", "ms."))
    assert "Traceback" not in sentence
    return str(sentence)


# The example, and one checkpoint of it.


def test_opens_with_the_board(live: Make) -> None:
    """Its example trains in the browser: the page asks the server for nothing."""
    page = live()
    board = page.told("board")
    assert (board["problem"], board["wrong"], board["started"]) == ("", "", "")
    assert page.charts | page.pictures == set()
    assert not page.texts("error") + page.texts("warning") + page.texts("info")
    assert "run" not in page.at.query_params
    n, setting = board["use"]["n"], board["use"]["setting"]
    assert setting == {"x": 2, "most": None, "budget": None, "coder": "runlength", "carries": True}
    page.set("select_slider", "bits", 3)
    again = page.told("board")["use"]
    assert (again["n"], again["setting"]["x"]) == (n + 1, 3)
    page.set("segmented_control", "coder", "context")
    assert (
        page.problem == "This example does not know the context coder: a run on this server does."
    )
    assert page.told("board")["use"]["setting"]["coder"] == "runlength"


@pytest.fixture
def early(monkeypatch: Patch) -> dict[str, Any]:
    """What the board has sent before this server had imported the page, by event."""
    sent: dict[str, Any] = {}

    def act_on(name: str, handle: Callable[[Any], None]) -> None:
        if name in sent:
            handle(sent.pop(name))

    monkeypatch.setattr(picture, "act_on", act_on)
    return sent


def test_a_press_that_is_sent_again(live: Make, monkeypatch: Patch) -> None:
    """Another rerun may interrupt whatever acts on it. It begins one run."""
    page, press = live(**SHORT), {"press": "a", "changed": {"x": 4}, "most": None}

    def interrupt(*_: object) -> None:
        raise KeyError("interrupt")

    with monkeypatch.context() as patch:
        patch.setattr(page_start, "forget_attempt", interrupt)
        page.at.session_state["sent-events"] = {"start": press}
        page.at.run()
        assert len(page.at.exception) == 1
    page.run()
    first = page.the_run
    assert (first.id != EXAMPLE_ID, page.at.select_slider(key="bits").value) == (True, 4)
    page.at.session_state["sent-events"] = {"start": press}
    assert page.run().the_run is first
    page.click("to-example")
    assert page.the_run.id == EXAMPLE_ID
    page.at.session_state["sent-events"] = {"start": press}
    assert page.run().the_run.id == EXAMPLE_ID
    assert page.told("board")["started"] == "a"


def test_what_the_board_has_tried_is_how_a_run_is_saved(live: Make, early: dict[str, Any]) -> None:
    early["tried"] = {"x": 4, "coder": "huffman"}
    early["start"] = {"press": "a", "changed": {"x": 1, "carries": False}, "most": 2}
    page = live(**SHORT)
    assert page.finish().status == "finished"
    assert page.the_run.settings.coding == Coding(1, coder="huffman")
    assert page.at.select_slider(key="bits").value == 1
    assert page.at.toggle(key="carries").value is False  # still tried, on the run, as is the cut
    assert (
        page.picture("headline")["kept"]
        == "only a try: the run has 1 bit and keeps what is dropped"
    )


def test_start_keeps_what_only_the_sidebar_knows(live: Make, early: dict[str, Any]) -> None:
    early["start"] = {"press": "a", "changed": {"coder": "huffman"}, "most": None}
    page = live(**SHORT, keep="Tolerance", tolerance="0.01", scope="each tensor", cut="3")
    page.finish()
    coding = Coding(tolerance=0.01, scope="tensor", coder="huffman")
    assert page.the_run.settings.coding == coding
    assert page.picture("headline")["kept"] is None  # a cut of the board before is gone


@pytest.mark.parametrize(
    ("tried", "percent", "told"), [(0.001, 0.5, 0.005), (0.9, 50.0, 0.5), (0.0549, 5.49, 0.0549)]
)
def test_a_budget_that_the_board_has_tried(
    live: Make, early: dict[str, Any], tried: float, percent: float, told: float
) -> None:
    """The sidebar has limits that the board has not: then the board follows."""
    early["tried"] = {"budget": tried}
    page = live()
    assert page.at.number_input(key="budget").value == pytest.approx(percent)
    use = page.told("board")["use"]
    assert use["setting"]["budget"] == told
    assert use["n"] == (told != tried)


def test_a_finished_run(live: Make, three_saves: Run) -> None:
    page = live(run=three_saves.id, tables="true")
    assert (page.pictures, page.step) == (PICTURES, 6)
    assert not page.texts("error") + page.texts("warning")
    assert not [c for c in page.at.segmented_control if c.label == "What is saved"]
    shown = [*page.at.table, *page.at.dataframe]
    columns = [tuple(t.value.columns) for t in shown]
    # Two pictures have a table of bytes.
    assert len(columns) - 1 == len(set(columns)) == len(PICTURES) - 1
    snapshot = page.the_run.snapshot()
    losses = next(t.value for t in shown if {"step", "live"} <= {*t.value.columns})
    assert losses["live"].tolist() == [c.live_loss for c in snapshot.checkpoints]
    c, top = snapshot.newest, page.picture("headline")
    _, size, _ = (block["value"] for block in top["sizes"])
    assert (size, top["status"]) == (nbytes_text(c.nbytes), "iteration 6 of 6, finished")
    assert top["crash"] == f"a crash now {lost_work(cost_of(snapshot, 6))}"
    page.unfold("own-training")
    (code,) = (c for c in page.at.code if c.language == "python")
    assert code.value == in_a_loop(Setting(page.the_run.settings.coding, 2))


def test_a_step_in_which_nothing_changed(live: Make, create: MakeRun) -> None:
    """A model that has come to rest: a delta of zeros is told, not a crash of the page."""
    run = create(stop_after=1)
    run._trainer.live.training._optimizer.step = lambda *_: None  # type: ignore[method-assign, assignment]
    run.step()
    run.wait(60)
    page = live(run=run.id)
    assert page.picture("buckets")["text"] == "Nothing has changed in this step."


# Choosing a step.


def test_another_step(live: Make, three_saves: Run) -> None:
    page = live(run=three_saves.id, tables="true")
    first = page.picture("buckets")
    about = f"{three_saves.task.title}, seed 0."
    steps = {"interval": 2, "last": 6, "newest": 6, "shown": 6, "step": None}
    state = {"about": about, "carries": True} | steps
    assert page.told("run")["served"]["state"] == state
    page.look_into(4)
    assert page.step == 4
    assert page.picture("buckets") != first
    assert page.picture("loss")["marks"] == [{"step": 4, "text": "step 4", "strong": False}]
    found = page.at.query_params["weight"]
    weight = found if isinstance(found, str) else found[0]
    other = live(run=three_saves.id, step="4", weight=weight, tables="true")  # as in a browser
    assert other.told("run")["served"]["state"] == state | {"shown": 4, "step": 4}
    assert [t.value.to_dict() for t in other.at.table] == [t.value.to_dict() for t in page.at.table]
    other.look_into(None)
    assert other.step == 6
    for missing in ("0", "5", "two"):  # the base has no δ
        assert live(run=three_saves.id, step=missing).step == 6


# Training.


@pytest.mark.parametrize(
    ("model", "optimizer"), [("matrix-factorization", "SGD"), ("logistic-regression", "Adam")]
)
def test_training_with_each_model_s_defaults(live: Make, model: str, optimizer: str) -> None:
    """A new run is followed, also when an older step of the example was shown."""
    title = MODELS[model].title
    given = {"iterations": "2", "interval": "1", "optimizer": optimizer, "seed": "7", "bits": "5"}
    page = live(model=title, step="2", **given)
    snapshot = page.click("start").finish()
    settings = page.the_run.settings
    assert (snapshot.status, settings.model) == ("finished", model)
    assert (settings.lr, settings.momentum) == MODELS[model].optimizers[optimizer.lower()]
    assert (settings.coding.bits, settings.seed, settings.loss_share) == (5, 7, LOSS_SHARE)
    assert page.picture("headline")["status"] == "iteration 2 of 2, finished"
    assert (page.pictures, page.step) == (PICTURES, 2)
    assert page.at.button(key="play").disabled
    assert page.at.button(key="step").disabled
    again = live(run=page.the_run.id)
    assert again.the_run is page.the_run
    assert again.at.query_params["run"] in (page.the_run.id, [page.the_run.id])


def test_losses_are_measured_always_if_asked_for(live: Make) -> None:
    """`?coder=` is as good as no such parameter."""
    page = live(**SHORT | {"iterations": "2"}, losses="always", keep="", coder="", scope="")
    snapshot, settings = page.click("start").finish(), page.the_run.settings
    assert list(snapshot.losses) == [0, 1, 2]
    assert (settings.loss_share, settings.coding) == (None, Coding())


def test_reset(live: Make, monkeypatch: Patch) -> None:
    """One that cannot start loses nothing; else the run begins anew, and its old link is stale.

    A click before the browser has drawn the new run still names the old one.
    """
    page = live(**SHORT).click("start")
    page.finish()
    old = page.the_run

    def refuse(*_: object) -> None:
        raise RunError("The disk is full.")

    with monkeypatch.context() as patch:
        patch.setattr(session.all_runs(), "create", refuse)
        page.click("reset")
        assert error(page) == "This run cannot start. The disk is full."
    assert page.the_run is old
    assert old.path.is_dir()
    page.set("number_input", "interval", 9)
    assert page.at.button(key="reset").disabled
    assert any("At most 4, the iterations of the run" in t for t in page.texts("markdown"))
    page.set("number_input", "interval", 1).set("number_input", "iterations", 3)
    (keeps,) = page.texts("info")
    assert keeps.startswith("This run keeps its own iterations. *Reset* starts a new run with")
    other = live(run=old.id)
    page.click("reset")
    new = page.the_run
    assert new is not old
    assert not old.path.exists()
    assert page.finish().steps[-1] == 3  # it plays at once, as the first one did
    page.at.query_params["run"] = old.id
    page.run()
    assert not page.texts("warning")
    assert page.at.query_params["run"] == new.id
    steering = page.at.session_state["steering"]
    assert steering.of(old) is steering.of(new) is new
    assert other.run().texts("warning")[0].startswith("The run in this link is no longer")
    assert other.told("board")["use"]
    assert "run" not in other.at.query_params
    assert not other.run().texts("warning")


def let_save(run: Run, held: Any, step: int) -> None:
    """Let the run train on until that step is saved and its losses are measured."""
    held.let_through(step - run.snapshot().newest.step)
    until(lambda: (newest := run.snapshot().newest).step == step and newest.losses)


def test_while_it_plays(live: Make, create: MakeRun, gate: Make) -> None:
    """Pause instead of Play, no stepping, and the costly experiment waits to be asked for."""
    run = create(stop_after=50)
    held = gate(run)
    page = live(run=run.id).click("play")
    let_save(run, held, 2)
    page.run()
    assert page.at.button(key="pause").label == "Pause"
    assert page.at.button(key="step").disabled
    let_save(run, held, 3)
    page.run()
    assert drawn_step(page) == 3
    page.look_into(1)
    let_save(run, held, 5)
    page.run()
    assert drawn_step(page) == 1
    pause = run.pause

    def let_it_come_to_rest() -> None:
        pause()
        held.let_through()

    run.pause = let_it_come_to_rest  # type: ignore[method-assign]
    page.click("pause")
    assert (run.snapshot().status, page.at.button(key="play").label) == ("paused", "Play")


@pytest.mark.parametrize("shown", ["Pause", "Play"])
def test_a_button_does_what_it_says_whatever_another_tab_did(
    live: Make, create: MakeRun, gate: Make, shown: str
) -> None:
    """Pause, pressed where the run was paused meanwhile, does not play it."""
    run = create(stop_after=50)
    held, page = gate(run), live(run=run.id)
    if shown == "Pause":
        page.click("play")
        run.pause()
        held.let_through()  # the iteration under way
        run.wait(60)
    else:
        run.play()
    assert page.at.button(key=shown.lower()).label == shown
    page.click(shown.lower())
    assert run.snapshot().status == ("paused" if shown == "Pause" else "playing")
    other = "Play" if shown == "Pause" else "Pause"
    assert page.at.button(key=other.lower()).label == other
    held.let_through(50)


@pytest.mark.parametrize(
    ("looks", "seconds"), [((0.062,), 2.5), ((0.02, 0.02, 3.0), 2.0), ((9.0,), 4.0)]
)
def test_the_slower_a_look_is_the_longer_until_the_next(
    create: MakeRun, monkeypatch: Patch, looks: tuple[float, ...], seconds: float
) -> None:
    """The first looks decide, by their median."""
    monkeypatch.setattr(session, "LIVELY_SECONDS", 0.0)
    run = create(interval=1, stop_after=10_000)
    run.play()
    for look in (looks * session.LOOKS)[: session.LOOKS]:
        assert session.poll_interval(run) == session.LATER_POLL_SECONDS
        session.time_look(run, look)
    for _ in range(2 * session.LOOKS):
        session.time_look(run, 1e6)  # too late to count
    assert session.poll_interval(run) == seconds


def test_looks_at_a_run_that_plays_are_timed(live: Make, create: MakeRun, gate: Make) -> None:
    run = create(interval=1, stop_after=3)
    held = gate(run)
    run.play()
    page = live(run=run.id)  # its base
    assert run not in session._looks
    let_save(run, held, 1)
    page.run()
    assert len(session._looks[run]) == 1
    held.let_through(2)
    page.finish()
    page.run()
    assert len(session._looks[run]) == 1


def test_who_reads_another_page_watches(live: Make, create: MakeRun, monkeypatch: Patch) -> None:
    """Until the last page is closed, or shows another run."""
    run, other = create(), create()
    run.leave("the test")
    page = live(run=run.id)
    pages = SimpleNamespace(is_active_session=lambda _: is_open)

    def seconds_after(seconds: float) -> float:
        with monkeypatch.context() as patch:
            patch.setattr(session.runtime, "exists", lambda: True)
            patch.setattr(session.runtime, "get_instance", lambda: pages)
            run._last_watched -= seconds
            return run.seconds_unwatched()

    is_open = True
    assert seconds_after(300) < 100
    is_open = False
    assert seconds_after(300) >= 300
    is_open = True
    page.at.query_params["run"] = other.id
    page.run()
    assert seconds_after(300) >= 300


def test_a_step_that_takes_long_is_watched(
    live: Make, create: MakeRun, gate: Make, monkeypatch: Patch
) -> None:
    """A page that only waited would give no sign of life, and the run would pause."""
    monkeypatch.setattr(live_page, "PATIENCE", 0.2)
    run = create(interval=3, stop_after=6)
    held = gate(run)
    run.leave("the test")
    page = live(run=run.id).click("step")
    assert run.snapshot().status == "playing"
    assert page.at.button(key="pause").label == "Pause"
    run._last_watched -= 15
    page.run()
    assert run.seconds_unwatched() < 15
    assert session.poll_interval(run) == live_page.poll_seconds(run) == session.POLL_SECONDS
    monkeypatch.setattr(session, "LIVELY_SECONDS", 0.0)  # a long training is polled less often
    assert session.poll_interval(run) == live_page.poll_seconds(run) == session.LATER_POLL_SECONDS
    held.let_through(3)
    assert (page.finish().status, drawn_step(page)) == ("paused", 3)
    assert session.poll_interval(run) == session.RESTING_POLL_SECONDS
    assert live_page.PATIENCE < WATCH_SECONDS / 4


# Budgets.


def test_a_budget_or_tolerance_instead_of_bits(live: Make) -> None:
    page = live(**SHORT, keep="Budget", budget="10", quantizer="powers of two").click("start")
    c = page.finish().newest
    assert page.the_run.settings.coding == Coding(budget=0.1, quantizer="exponent")
    assert c.nbytes <= 0.103 * c.full_nbytes
    assert any("a budget of 10 % of float32" in t for t in page.texts("caption"))
    page.set("segmented_control", "keep", "tolerance").set("number_input", "tolerance", 0.0)
    assert page.at.button(key="reset").disabled
    assert any("Enter a number from 1e-09 to 10." in t for t in page.texts("markdown"))
    page.set("number_input", "tolerance", 0.001).click("reset").finish()
    assert page.the_run.settings.coding == Coding(tolerance=0.001)


def test_what_is_tried_is_tried_on_the_whole_run(
    live: Make, three_saves: Run, monkeypatch: Patch
) -> None:
    """From the first checkpoint on, once for each setting, and not again at each poll."""
    measured: list[float] = []

    def probe_metric(task: Task, state: Any) -> tuple[float, float]:
        measured.append(metric(task, state)[1])
        return 0.5 + len(measured), measured[-1]

    metric = Task.probe_metric
    page = live(run=three_saves.id)
    monkeypatch.setattr(Task, "probe_metric", probe_metric)
    page.set("select_slider", "bits", 1)
    page.at.run()
    assert len(measured) == 3
    (score,) = (s for s in page.picture("examples")["scores"] if s["name"] == "your try")
    assert score["text"] == percent_text(measured[-1])
    loss = page.picture("loss")
    assert loss["text"].endswith(" Saved as you try: restored 3.50 at step 6.")
    tried = loss["lines"][2]
    assert (tried["name"], tried["x"]) == ("your try", [2, 4, 6])
    assert tried["y"] == [1.5, 2.5, 3.5]
    page.set("select_slider", "bits", 2)
    assert "try" not in page.picture("loss")["text"] + page.picture("examples")["text"]
    assert len(page.picture("loss")["lines"]) == 2


def test_without_the_track_what_is_left_out_is_lost(live: Make, three_saves: Run) -> None:
    """The switch tries the same bits from the first checkpoint on, without carrying over."""
    page = live(run=three_saves.id, carries="false")
    top = page.picture("headline")
    assert top["kept"] == "only a try: the run keeps what is dropped"
    assert page.picture("buckets")["text"].endswith("Paler ones are lost. Log scale.")
    assert page.picture("weights")["captions"]["written"].endswith("left of δ is lost.")
    lines = {line["name"]: line["y"] for line in page.picture("loss")["lines"]}
    assert lines["your try"][0] == lines["restored"][1]  # the first δ is the same
    assert lines["your try"][-1] > lines["restored"][-1]
    page.set("toggle", "carries", True)
    assert page.picture("headline")["kept"] is None


def test_a_replay_that_is_ahead_of_what_the_page_has_seen_of_it(
    live: Make, three_saves: Run, monkeypatch: Patch
) -> None:
    """It works in the background: by now it may be done with the step that is shown."""
    look = Replays.look

    def a_moment_ago(*args: Any) -> RetriedRun:
        whole = look(*args)
        return replace(whole, steps=whole.steps[:-1])

    monkeypatch.setattr(Replays, "look", a_moment_ago)
    page = live(run=three_saves.id, bits="3")
    assert page.problem == "The whole run is saved like this: 2 of 3 checkpoints."
    assert page.pictures >= PICTURES
    loss = page.picture("loss")  # what is known of the try is there, what it ends in is not
    assert [line["x"] for line in loss["lines"][2:]] == [[2, 4]]
    assert "Saved as you try" in loss["text"]


def test_keeping_by_bits_or_budget_in_the_sidebar(live: Make, three_saves: Run) -> None:
    """One choice shows only its own control, and both remember what was set.

    A link carries what is tried. A budget that holds no change in some step is raised.
    """
    page = live(run=three_saves.id, bits="5")
    assert page.picture("headline")["kept"] is not None
    assert not [n for n in page.at.number_input if n.key == "budget"]
    page.set("segmented_control", "keep", "budget")
    assert page.at.number_input(key="budget").value == 5.0
    assert not [s for s in page.at.select_slider if s.key == "bits"]
    page.set("number_input", "budget", 12.5).set("segmented_control", "keep", "bits")
    assert page.at.select_slider(key="bits").value == 5
    page.set("segmented_control", "keep", "budget")
    assert page.at.number_input(key="budget").value == 12.5
    page.set("number_input", "budget", 0.5)
    page.run()  # a browser does so at once
    assert page.problem == ""
    raised = page.at.number_input(key="budget").value
    assert 0.5 < raised < 1
    sentence = f"The size is raised to {raised:.2f} %: with less, a checkpoint may hold no change."
    assert page.picture("buckets")["text"].endswith(sentence)
    assert page.picture("headline")["kept"] is not None


# What goes wrong.


@pytest.mark.parametrize(
    ("parameters", "said"),
    [
        (SHORT | {"batch_logistic-regression": "5000"}, "The batch size is 5000; choose one from"),
        (SHORT, "already holds 0 runs"),
    ],
    ids=["settings", "full"],
)
def test_a_run_that_cannot_start(
    live: Make, monkeypatch: Patch, parameters: dict[str, str], said: str
) -> None:
    if parameters == SHORT:
        monkeypatch.setattr(runs, "MAX_RUNS", 0)
    page = live(**parameters).click("start")
    assert page.problem.startswith("This run cannot start. ")
    assert said in page.problem
    assert page.told("board")["started"]  # the button can be pressed again
    assert [r.id for r in session.all_runs()._runs.values()] == ["example"]
    problem = page.problem
    assert page.run().problem == problem
    assert page.set("number_input", "seed", 1).problem == ""


@pytest.mark.parametrize(
    ("parameters", "field", "said"),
    [
        (MNIST, "Folder with the files", "Enter a folder."),
        (MNIST | {"folder": "/no/such"}, "Folder with", "in none of the folders that this server"),
        (SHORT | {"interval": "9"}, "Save every", "At most 4, the iterations of the run"),
        (SHORT | {"seed": "1.5"}, "Seed", "Enter a whole number from 0 to 2,147,483,648."),
        (SHORT | {"keep": "Budget", "budget": "70"}, "Budget", "Enter a number from 0.5 to 50."),
    ],
    ids=["no-folder", "outside", "interval", "seed", "budget"],
)
def test_wrong_input_is_said_at_its_field(
    live: Make, monkeypatch: Patch, parameters: dict[str, str], field: str, said: str
) -> None:
    """And nothing starts with another value."""
    monkeypatch.delenv(FOLDER_VARIABLE, raising=False)
    monkeypatch.setenv("LCVIZ_FOLDERS", "/other")
    page = live(**parameters)
    obstacle = page.told("board")["wrong"]
    assert obstacle.startswith(f"Fix in the sidebar: {field}")
    (red,) = (t for t in page.texts("markdown") if t.startswith(":red[:material/error: "))
    assert said in red
    page.click("start")  # by a visitor whose page is older
    assert page.problem == obstacle
    assert [r.id for r in session.all_runs()._runs.values()] == ["example"]


def test_a_diverged_run(live: Make) -> None:
    """The sentence stands there, the pictures too."""
    title = MODELS["matrix-factorization"].title
    wild = {"lr_matrix-factorization_sgd": "100", "interval": "1"}
    page = live(model=title, iterations="20", **wild)
    snapshot = page.click("start").finish()
    assert snapshot.status == "failed"
    assert error(page).startswith("Training diverged: the loss became ")
    assert (page.pictures, page.step) == (PICTURES, snapshot.steps[-1])
    assert page.at.button(key="kill").help.startswith("This run has failed by itself")
    assert page.at.button(key="kill").disabled


def test_a_budget_without_room_is_told(live: Make, create: MakeRun) -> None:
    """Half a percent of 31 kB is less than a header."""
    page = live(run=create(budget=0.005).id).click("play")
    snapshot = page.finish()
    assert (snapshot.status, [c.kind for c in snapshot.checkpoints]) == ("failed", ["base"])
    for part in ("budget of 0.5 %", "157 bytes", "bits instead"):
        assert part in error(page)


@pytest.mark.parametrize(
    ("measured", "above", "iteration", "said"),  # above: how far the restored loss is
    [
        ([5.0, 4.0, 3.0, 2.0], 0.5, 3, "costs about 1 iteration"),  # the mean falls by half
        ([5.0, 3.0, 4.0, 2.0], 0.5, 3, "costs about 1 iteration"),  # a jump changes little
        ([5.0, 4.0, 3.0, 2.0], 0.5, 9, "costs about 7 iterations"),  # 6 since step 3
        ([5.0, 4.0, 3.0, None], -0.5, 3, "costs less than 0.1 iterations"),
        ([5.0, None, None, None], -0.5, 3, "costs less than 0.1 iterations"),
    ],
)
def test_losses_that_lag_behind_cost_nothing(
    finished_runs: MakeRun,
    measured: list[float | None],
    above: float,
    iteration: int,
    said: str,
) -> None:
    """A crash costs what a checkpoint loses and what came after it, not what is not measured."""
    snapshot = finished_runs(stop_after=3).snapshot()
    every = tuple(
        replace(c, losses=None if loss is None else Losses(loss, loss + above, 0.0, 0.0))
        for c, loss in zip(snapshot.checkpoints, measured, strict=True)
    )
    now = replace(snapshot, checkpoints=every, iteration=iteration)
    assert lost_work(cost_of(now, 3)) == said
    unsaved = ", 6 of them not saved" if iteration == 9 else ""
    # At an earlier step only what that checkpoint loses.
    earlier = cost_of(now, 2)
    assert earlier == cost_of(replace(now, iteration=100), 2)
    assert earlier["step"] == (2 if measured[2] else 0)
    assert lost_work(cost_of(replace(now, status="killed"), 1)) == said + unsaved


def test_what_follows_the_base_is_said(live: Make, create: MakeRun) -> None:
    run = create(interval=100_000, stop_after=100_000)
    page = live(run=run.id)
    assert page.problem == "The base is saved, 32.0 kB: press Play, or Step, for the first δ."
    assert page.pictures == set()
    page.click("play")
    assert page.problem.endswith("the first δ comes in a moment.")


# Weights and Adam's moments.

WITH_ADAM = {"model": "LeNet-5", "optimizer": "Adam", "saved": "with moments"} | SHORT


def test_weights_alone_are_saved_unless_asked_for(live: Make) -> None:
    """The choice is there where the optimizer has moments."""
    page = live(optimizer="Adam")
    (choice,) = (c for c in page.at.segmented_control if c.label == "What is saved")
    assert choice.value is False
    assert "saved" not in page.at.query_params
    page.click("start")
    run = page.the_run
    assert not run.settings.optimizer_state
    run.pause()


def test_a_link_saves_moments_and_shows_them_apart(live: Make) -> None:
    """And once it is dead, the run says that its optimizer was saved."""
    page = live(**WITH_ADAM)
    page.click("start")
    run = page.the_run
    assert run.settings.optimizer_state
    run.wait(60)
    page.run()
    newest = run.snapshot().newest
    bits, headline = (page.picture(name) for name in ("bits", "headline"))
    parts = {part.get("label", part["name"]): part["nbytes"] for part in bits["parts"]}
    assert sum(parts.values()) == newest.nbytes
    of = {kind: sum(m.nbytes for m in newest.moments if m.kind == kind) for kind in "mv"}
    assert (parts["m"], parts["v"]) == (of["m"], of["v"])
    assert min(of.values()) > 0
    assert bits["text"].endswith("Code words and bars are the weights'.")
    (weights, wording), (moments, _) = headline["apart"]
    assert (weights, moments) == ("weights", "m and v")
    assert wording.startswith(f"{nbytes_text(newest.weights_nbytes)} → ")
    assert page.picture("buckets")["about"] == "of the weights"
    page.click("kill")
    assert "goes on with the saved moments" in page.at.button(key="go-on").help
    assert "save and restore the optimizer's state" in page.at.button(key="kill-start").help
