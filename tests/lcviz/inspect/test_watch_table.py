"""How long ago the last records of watched runs came."""

from lcviz.inspect.watch_table import ago_text, since_text


def test_how_long_ago_the_last_record_came() -> None:
    texts = {-9: "9 s ahead", -1: "0 s ago", 0.9: "0 s ago", 119: "1 min ago", 120: "2 min ago"}
    texts |= {7300: "2 h ago", 2 * 86400: "2 days ago"}
    assert {seconds: ago_text(seconds) for seconds in texts} == texts
    for seconds, gap, parts, quiet in (
        (3, None, ("3 s ago",), False),
        (50, 1.5, ("50 s ago", "every 1.5 s"), False),
        (180, 1.5, ("3 min ago", "every 1.5 s"), True),
        (600, 300, ("10 min ago", "every 5 min"), False),
        (901, 300, ("15 min ago", "every 5 min"), True),
    ):
        text = since_text(int((1e9 - seconds) * 1e9), gap, 1e9)
        assert all(part in text for part in parts)
        assert ("the training has ended" in text) == quiet
