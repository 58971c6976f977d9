"""A part that polls: what is below it never stands below a gap."""

from __future__ import annotations

import pytest
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from streamlit.runtime.forward_msg_cache import create_reference_msg, populate_hash_if_needed
from streamlit.runtime.forward_msg_queue import ForwardMsgQueue
from streamlit.testing.v1 import AppTest


def page() -> None:
    import streamlit as st

    from lcviz.ui.polling import polled

    def tick(name: str) -> None:
        st.text(name)

    st.text("above")
    polled(1.0, tick, "polled")
    st.text("below")


def test_what_is_below_arrives_without_what_polls(monkeypatch: pytest.MonkeyPatch) -> None:
    """The queue drops what a part has drawn in the page's run when the part runs again."""
    sent: list[ForwardMsg] = []
    monkeypatch.setattr(ForwardMsgQueue, "_before_enqueue_msg", sent.append)
    at = AppTest.from_function(page).run()
    assert [t.value for t in at.text] == ["above", "polled", "below"]
    drawn = [m for m in sent if m.HasField("delta")]
    parts = {m.delta.fragment_id for m in drawn} - {""}
    assert len(parts) == 1
    queue = ForwardMsgQueue()
    for message in drawn:
        queue.enqueue(message)
    queue.clear(retain_lifecycle_msgs=True, fragment_ids_this_run=[*parts])
    n_children = {(0,): 0}
    left = queue.flush()
    for path in (tuple(m.metadata.delta_path) for m in left):
        assert path[-1] <= n_children[path[:-1]], f"a gap above {path}"
        n_children[path[:-1]] += 1
        n_children.setdefault(path, 0)
    assert len(left) == 3  # above, the container, below


def test_no_message_is_a_reference() -> None:
    """Streamlit keeps one whose container it drops: the browser cannot place it."""
    element = ForwardMsg()
    element.delta.fragment_id = "part"
    element.delta.new_element.markdown.body = "x" * 1_000_000
    populate_hash_if_needed(element)
    queue = ForwardMsgQueue()
    queue.enqueue(element)
    queue.enqueue(create_reference_msg(element))
    queue.clear(retain_lifecycle_msgs=True, fragment_ids_this_run=["part"])
    (left,) = queue.flush()
    assert left.ref_hash == element.hash
    assert not element.metadata.cacheable  # so none is ever made: see .streamlit/config.toml
