"""A link lets others look at a run; only who began it, or has the private link, steers it."""

import threading
import time
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from lcviz.live.page import _steer, _step
from lcviz.run.run import Run
from lcviz.run.snapshot import RunError
from lcviz.ui import session
from lcviz.ui.steering import Steering
from tests.lcviz.common import Make, MakeRun, stepped

STEERING = {"play", "pause", "step", "kill", "reset"}


def links(page: Any) -> list[dict[str, list[str]]]:
    """What the links that *Share* offers say."""
    codes = [code.value for code in page.at.code if "run=" in code.value]
    return [parse_qs(urlsplit(code).query) for code in codes]


@pytest.fixture
def run(create: MakeRun) -> Run:
    return create(interval=2, stop_after=100)


def test_the_link_of_a_run_that_rests_names_the_step(live: Make, run: Run) -> None:
    """Whoever opens it once the run has gone on sees the same."""
    stepped(run)
    look, *_ = links(live(run=run.id))
    assert look["step"] == ["2"]
    stepped(run)
    again = live(steers=False, run=run.id, step=look["step"][0])
    assert again.picture("weight")["marks"][0]["step"] == 2


def test_the_link_of_a_run_alone_shows_its_settings(live: Make, create: MakeRun) -> None:
    """Not those of the sidebar; a link that names settings keeps them."""
    run = create(seed=7, interval=1, bits=5)
    page = live(run=run.id)
    assert [page.at.number_input(key=k).value for k in ("seed", "interval")] == [7, 1]
    assert page.at.session_state["bits"] == 5
    assert not page.texts("info")
    page = live(run=run.id, seed="3")
    assert page.at.number_input(key="seed").value == 3
    assert "seed" in page.texts("info")[0]


def test_a_link_that_cannot_be_opened_now_stays(live: Make) -> None:
    """The run is stored; another server has it, for example."""
    run_id = "0" * 24
    (session.all_runs()._folder / run_id).mkdir()
    page = live(steers=False, run=run_id)
    (told,) = page.texts("warning")
    assert told.startswith("The run in this link cannot be opened now")
    assert page.at.query_params["run"] in (run_id, [run_id])


def test_who_has_the_link_can_look(live: Make, run: Run) -> None:
    stepped(run)
    page = live(steers=False, run=run.id)
    assert page.picture("headline")["status"].startswith("iteration 2 of 100")
    assert "You are watching. Only the run's owner can steer it." in page.texts("markdown")
    assert not STEERING & {*page.buttons}
    (look,) = links(page)
    assert look["run"] == [run.id]
    assert "steer" not in look
    with pytest.raises(RunError, match="began"):
        page.at.session_state["steering"].of(run)
    page.click("start")  # a run of one's own
    assert page.the_run is not run
    assert STEERING - {"play"} <= {*page.buttons}
    assert session.all_runs().get(run.id) is run


def test_the_private_link_hands_the_steering_on(live: Make, run: Run) -> None:
    owner = live(run=run.id)
    assert {"play", "step", "kill", "reset"} <= {*owner.buttons}
    look, steer = links(owner)
    assert look["run"] == [run.id]
    assert "steer" not in look
    assert steer["steer"] == [session.all_runs().key(run)]
    given = {name: value for name, (value,) in steer.items()}
    friend = live(steers=False, **given)
    assert "steer" not in friend.at.query_params  # an address that is copied is a link to look
    friend.click("step")
    assert run.wait(60).iteration == 2


@pytest.mark.parametrize("key", ["wrong", "of another run"])
def test_another_key_opens_nothing(live: Make, run: Run, create: MakeRun, key: str) -> None:
    if key == "of another run":
        key = session.all_runs().key(create(interval=2, stop_after=100))
    page = live(steers=False, run=run.id, steer=key)
    assert "You are watching" in " ".join(page.texts("markdown"))
    assert not STEERING & {*page.buttons}
    assert "steer" not in page.at.query_params


# With fast reruns, two threads of a session are at work.


def test_a_page_waits_for_a_run_that_is_being_made(create: MakeRun) -> None:
    steering, run, holds = Steering(session.all_runs(), []), create(), threading.Event()

    def make() -> None:
        with steering.turn:
            holds.set()
            time.sleep(0.05)
            steering.begin(run)

    thread = threading.Thread(target=make)
    thread.start()
    holds.wait()
    assert steering.just_begun() is run
    thread.join()


def test_a_click_waits_for_the_one_before(run: Run) -> None:
    steering = Steering(session.all_runs(), [session.all_runs().key(run)])
    click = threading.Thread(target=_steer, args=(steering, run, _step))
    with steering.turn:
        click.start()
        click.join(0.1)
        assert click.is_alive()
        assert run.snapshot().status == "paused"
    click.join()
    assert run.wait(60).iteration == 2
